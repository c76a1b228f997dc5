"""What stands before every route: credentials, hosts, origins, paths, types, rates."""

import re

import pytest

from helpers.asgi import Client

pytest.importorskip("apsw", reason="needs paloma[serve]")
pytest.importorskip("fastapi", reason="needs paloma[serve]")

from helpers.service import SECRET, Service, some_digits
from paloma.serve._app import application
from paloma.serve._engine import Engine
from paloma.serve._safety import Keys, Rate, Safety

OTHER_HOSTS = [
    "", " ", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::2]", "0.0.0.0", "127.0.0.2",
    "localhos", "localhost.", "127.1", "2130706433", "0x7f000001", "evil.example:80", "evil@localhost", "[::1].evil",
    "localhost@evil", "localhost,evil", "xn--lcalhost-0za", "192.168.0.1:8321", "[::1", "[::1]x",
]  # fmt: skip
OTHER_ORIGINS = [
    "", "null", "http://evil.example", "https://localhost.evil.example", "http://localhost:1", "file://", "http://",
    "localhost", "http://127.0.0.1", "http://localhost.", "http://localhost@evil", "http://evil@localhost:1",
    "http://[::1]", "chrome-extension://x", "http://evil/http://localhost", "http:// localhost", "http://localhost#",
    "javascript:alert(1)", "http://localhost/", "*",
]  # fmt: skip


@pytest.fixture(scope="module")
def some():
    return some_digits()


@pytest.fixture(scope="module")
def service(tmp_path_factory, some):
    service = Service(tmp_path_factory.mktemp("safety") / "served", some)
    yield service
    service.close()


def routes(service):
    """(method, path) of every documented route."""
    schema = service.admin.ask("GET", "/api/v1/openapi.json")[1]
    return [(method.upper(), path) for path, methods in schema["paths"].items() for method in methods]


FEEDBACK = {"/api/v1/statements", "/api/v1/statements/batch", "/api/v1/undo"}
ADMIN = {
    "/api/v1/items",
    "/api/v1/items/remove",
    "/api/v1/items/{id}/picture",
    "/api/v1/models/publish",
    "/api/v1/models/rollback",
    "/api/v1/models/download",
    "/api/v1/metrics",
}


def scope_of(method, path):
    if path == "/api/v1/health":
        return None
    if path in FEEDBACK and method == "POST":
        return "feedback"
    return "admin" if path in ADMIN and (method == "POST" or not path.endswith(("items", "picture"))) else "read"


def credentials(service):
    """Names of states in which a caller can be: headers, and what they allow."""
    session, login = service.keys.enter(service.keys.login()), service.keys.login()
    reader = service.keys.enter(service.keys.login("read"))
    return {
        "nothing": ({}, None),
        "another token": ({"authorization": "Bearer not-a-token-of-this-one"}, None),
        "no token": ({"authorization": "Bearer "}, None),
        "another scheme": ({"authorization": f"Basic {SECRET['admin']}"}, None),
        "half a token": ({"authorization": f"Bearer {SECRET['admin'][:-1]}"}, None),
        "a login that was not used": ({"authorization": f"Bearer {login}"}, None),
        "another cookie": ({"cookie": "paloma_session=0123456789abcdef"}, None),
        "a cookie of another name": ({"cookie": f"session={session}"}, None),
        "a session": ({"cookie": f"other=1; paloma_session={session}"}, "admin"),
        "a session that reads": ({"cookie": f"paloma_session={reader}"}, "read"),
        **{scope: ({"authorization": f"bearer {token}"}, scope) for scope, token in SECRET.items()},
    }


def test_every_route_asks_for_its_scope(service):
    order = [None, "read", "feedback", "admin"]
    found = routes(service)
    assert len(found) >= 20
    for method, path in found:
        target, needed = path.replace("{id}", "digit-0001"), scope_of(method, path)
        for name, (headers, allowed) in credentials(service).items():
            kind = {"content_type": "image/png"} if path.endswith("picture") else {}
            status = service.nobody.ask(method, target, **headers, **kind)[0]
            right = order.index(allowed) >= order.index(needed)
            refused = 401 if allowed is None else 403
            assert (status not in (401, 403)) if right else status == refused, (method, path, name, status)


def test_a_token_in_an_address_opens_nothing(service):
    assert service.nobody.ask("GET", f"/api/v1/version?token={SECRET['admin']}")[0] == 401


TRAVERSAL = [
    prefix + middle + suffix
    for prefix in ("", "/", "..", "./", "page/", "....//")
    for middle in ("../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "..\\..\\x", "\0",
                   "/etc/passwd",                    "journal.sqlite", "..;/x", "%252e%252e%252fx", "C:\\x", "file:///etc/passwd")
    for suffix in ("", ".png", "/picture")
]  # fmt: skip


def test_ids_never_become_paths(service):
    assert len(TRAVERSAL) >= 190
    for text in TRAVERSAL:
        for path in (f"/page/{text}", f"/api/v1/items/{text}/picture", f"/{text}"):
            status, body, _ = service.admin.answer("GET", path)
            assert status in (404, 405), (path, status)
            assert b"root:" not in body


@pytest.mark.parametrize("host", OTHER_HOSTS)
def test_other_hosts_are_refused(service, host):
    assert service.admin.ask("GET", "/api/v1/health", host=host)[0] == 421


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1:8321", "localhost:0", "127.0.0.1", "[::1]:80"]
)
def test_own_hosts_are_answered(service, host):
    assert service.admin.ask("GET", "/api/v1/health", host=host)[0] == 200


@pytest.mark.parametrize("origin", OTHER_ORIGINS)
def test_changes_from_other_origins_are_refused(service, origin):
    status = service.admin.ask("POST", "/api/v1/search", {"item": "digit-0001"}, origin=origin)[0]
    assert status == 403
    assert service.admin.ask("POST", "/api/v1/search", {"item": "digit-0001"}, origin="http://localhost")[0] == 200


def test_changes_must_be_json(service):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert service.admin.ask("POST", "/api/v1/search", {"item": "digit-0001"}, content_type=kind)[0] == 415
    assert service.admin.ask("PUT", "/api/v1/search", {})[0] == 405


def test_headers_forbid_other_origins_and_inline_scripts(service):
    for path in ("/", "/page/app.js", "/api/v1/version", "/nowhere"):
        _, _, headers = service.admin.answer("GET", path)
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert not any(name.startswith("access-control") for name in headers)
    page = service.admin.answer("GET", "/")[1].decode()
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=|https?://", page)


def test_a_login_is_good_once(service):
    token = service.keys.login()
    status, _, headers = service.nobody.answer("GET", f"/login?token={token}")
    assert status == 303
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert service.nobody.ask("GET", "/api/v1/version", cookie=cookie.partition(";")[0])[0] == 200
    assert service.nobody.ask("GET", f"/login?token={token}")[0] == 401


def test_each_port_has_a_cookie_of_its_own_whatever_others_leave(service):
    """Browsers send the cookies of a host to all of its ports."""
    given = {}
    for host in ("localhost:1", "localhost:2"):
        headers = service.nobody.answer("GET", f"/login?token={service.keys.login()}", host=host)[2]
        given[host] = headers["set-cookie"].partition(";")[0]
    both = "; ".join(given.values())
    for host, own in given.items():
        for cookie in (both, f'other={{"a": 1}}; b c; {own}'):
            assert service.nobody.ask("GET", "/api/v1/version", cookie=cookie, host=host)[0] == 200
    assert service.nobody.ask("GET", "/api/v1/version", cookie=given["localhost:1"], host="localhost:2")[0] == 401


def test_too_many_requests_are_told_when_to_come_back(tmp_path, some):
    engine = Engine(tmp_path / "s", some)
    keys = Keys()
    client = Client(Safety(application(engine, keys), keys, frozenset({"localhost"}), Rate(1.0, 5)))
    found = [client.answer("GET", "/api/v1/health") for _ in range(7)]
    assert [status for status, _, _ in found] == [200] * 5 + [429] * 2
    assert int(found[-1][2]["retry-after"]) >= 1
    engine.close()
    client.close()
