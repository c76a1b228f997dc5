"""The service: everything acknowledged is kept, everything else is refused."""

import asyncio
import json
import queue
import socket
import threading

import numpy as np
import pytest
from sklearn.datasets import load_digits

apsw = pytest.importorskip("apsw", reason="needs paloma[serve]")
pytest.importorskip("fastapi", reason="needs paloma[serve]")

from helpers.disk import FailingSystem  # noqa: E402
from helpers.service import MARK, Service, feedback_round, some_digits  # noqa: E402
from paloma.exceptions import ServiceError  # noqa: E402
from paloma.feedback._near import Near  # noqa: E402
from paloma.serve import serve  # noqa: E402
from paloma.serve._engine import Engine  # noqa: E402
from paloma.serve._forms import Item, Items  # noqa: E402
from paloma.serve._serve import _listening  # noqa: E402


@pytest.fixture(scope="module")
def some():
    return some_digits()


@pytest.fixture
def service(tmp_path, some):
    service = Service(tmp_path / "served", some)
    yield service
    service.close()


# -- learning ----------------------------------------------------------------------------------------------------------


def test_marks_move_the_ranking_and_undo_brings_it_back_to_the_bit(service):
    service.near()
    before, ranking = service.matrix("anna"), service.near(user="anna", k=30)
    seqs = [feedback_round(service, k, k) for k in range(12)]
    service.near(after=seqs[-1])
    assert not np.array_equal(service.matrix("anna"), before)
    status, told = service.admin.ask("POST", "/api/v1/undo", {"key": "undo-0000001", "of_user": "anna"})
    assert status == 201
    assert service.near(user="anna", k=30, after=told["seq"]) == ranking
    assert np.array_equal(service.matrix("anna"), before)


def test_a_restart_replays_to_the_bit(tmp_path, some):
    first = Service(tmp_path / "s", some)
    seqs = [feedback_round(first, k, k, user) for k, user in enumerate(["anna", "ben"] * 6)]
    first.admin.ask("POST", "/api/v1/undo", {"key": "undo-0000001", "statement": seqs[3]})
    last = first.admin.ask("GET", "/api/v1/health")[1]["acknowledged"]
    told = first.near(user="ben", after=last)
    matrices = [first.matrix(user) for user in (None, "anna", "ben")]
    first.close()
    second = Service(tmp_path / "s")
    assert second.engine.seq == last
    assert second.near(user="ben") == told
    for user, matrix in zip((None, "anna", "ben"), matrices, strict=True):
        assert np.array_equal(second.matrix(user), matrix)
    status, lines = second.admin.ask("GET", "/api/v1/statements?limit=100")
    assert status == 200
    assert [line["undone"] for line in lines["statements"] if line["seq"] == seqs[3]] == [True]
    second.close()


def test_the_published_model_stays_until_the_next_one_and_forgets_what_is_taken_back(tmp_path, some):
    service = Service(tmp_path / "s", some)

    def found(metric, after=0, user="anna", **options):
        """Items, and distances but for what one way of computing them rounds otherwise."""
        asked = {"item": "digit-0003", "k": 30, "user": user, "metric": metric, "after": after, **options}
        status, told = service.admin.ask("POST", "/api/v1/search", asked)
        assert status == 200, told
        return [(each["id"], round(each["score"], 9)) for each in told["results"]]

    def publish(key, **what):
        status, told = service.admin.ask("POST", "/api/v1/models/publish", {"key": key, **what})
        return status, told.get("seq")

    seqs = [feedback_round(service, k, k) for k in range(12)]
    assert found("published", seqs[-1]) == found("start")
    first = publish("publish-first")[1]
    early = found("now", first)
    assert found("published") == early != found("start")
    assert found("published", user="never spoke") == found("published", user="") == found("now", user="")
    last = [feedback_round(service, k, k) for k in range(12, 24)][-1]
    assert found("published", last) == early != found("now")
    assert found("published", where={"digit": -1.0}) == []
    assert service.admin.ask("GET", "/api/v1/version")[1]["published"] == first
    assert service.admin.ask("GET", "/api/v1/statements?limit=1")[1]["statements"][0]["kind"] == "mark"
    assert publish("publish-never", seq=last + 100)[0] == 422
    gone = service.admin.ask("POST", "/api/v1/undo", {"key": "undo-0000001", "statement": seqs[2]})[1]["seq"]
    without = found("published", gone)
    assert without != early
    second = publish("publish-second", seq=seqs[5])[1]
    assert found("published", second) not in (early, without)
    third = publish("publish-third")[1]
    assert found("published", third) == found("now")
    told = found("published")
    service.close()
    service = Service(tmp_path / "s")
    assert found("published") == told
    service.close()


def test_grades_order_what_is_relevant(service):
    body = {"kind": "mark", "item": "digit-0001", "relevant": ["digit-0011", "digit-0021"]}
    assert service.say(1, **body, grades=[1.0])[0] == 422
    status, told = service.say(2, **body, grades=[1.0, 3.0])
    assert status == 201
    service.near(after=told["seq"])
    assert service.engine._served._search.statement(told["seq"]).grades == (1.0, 3.0)


def test_a_repeated_key_gives_the_first_answer(service):
    body = {"kind": "mark", "item": "digit-0001", "relevant": ["digit-0011"], "irrelevant": ["digit-0002"]}
    first, again = service.say(1, **body), service.say(1, **body)
    assert first == again
    assert service.say(1, **{**body, "relevant": ["digit-0021"]})[0] == 409
    assert service.engine._journal.last == first[1]["seq"]


def test_every_change_that_is_repeated_gives_the_first_answer(service):
    mark = {"key": "key-mark", "kind": "mark", "items": ["digit-0001", "digit-0002"], "relevant": ["digit-0011"]}
    changes = [
        ("/statements", mark),
        ("/statements/batch", {"statements": [{**mark, "key": "key-batch"}]}),
        ("/items", {"key": "key-items", "items": [{"id": "new", "vector": [0.0] * 64}]}),
        ("/items/remove", {"key": "key-gone", "ids": ["digit-0001", "new"]}),
        ("/undo", {"key": "key-undo", "statement": 2}),
        ("/undo", {"key": "key-user", "of_user": ""}),
        ("/models/publish", {"key": "key-publish"}),
        ("/models/rollback", {"key": "key-back", "seq": 1}),
    ]
    first = [service.admin.ask("POST", f"/api/v1{path}", body) for path, body in changes]
    assert [status for status, _ in first] == [201] * len(changes)
    assert first[4][1]["items"] == first[5][1]["items"] == ["digit-0011"]
    service.near(after=first[-1][1]["seq"])
    assert [service.admin.ask("POST", f"/api/v1{path}", body) for path, body in changes] == first
    for path, body in changes[:1] + changes[2:]:
        other = {**body, "key": "key-other" if path == "/statements" else "key-mark"}
        assert service.admin.ask("POST", f"/api/v1{path}", other)[0] in (404, 409, 422)
    assert service.engine.health()["acknowledged"] == first[-1][1]["seq"]


def test_what_was_just_acknowledged_can_be_spoken_of_at_once(service, monkeypatch):
    """Though the model hears it a moment later."""
    monkeypatch.setattr("paloma.serve._engine._PAUSE", 0.5)
    for k in range(3):
        seq = service.say(k, **MARK)[1]["seq"]
        assert service.admin.ask("POST", "/api/v1/undo", {"key": f"key-undo-{k}", "statement": seq})[0] == 201
        new = {"key": f"key-new-{k}", "items": [{"id": f"new-{k}", "vector": [float(k)] * 64}]}
        assert service.admin.ask("POST", "/api/v1/items", new)[0] == 201
        assert service.say(10 + k, kind="mark", item=f"new-{k}", relevant=["digit-0002"])[0] == 201
        assert service.admin.ask("POST", "/api/v1/items/remove", {"key": f"key-go-{k}", "ids": [f"new-{k}"]})[0] == 201


def test_of_two_items_of_one_id_that_come_at_once_one_is_refused(service):
    async def both():
        forms = [Items(key=f"key-twin-{k}", items=[Item(id="twin", vector=[float(k)] * 64)]) for k in range(2)]
        return await asyncio.gather(*map(service.engine.add, forms), return_exceptions=True)

    first, second = asyncio.run(both())
    assert first["seq"] == 2
    assert "already" in str(second)


def test_a_batch_of_which_one_statement_is_refused_changes_nothing(service):
    good, last = {"key": "batch-000001", **MARK}, service.engine._journal.last
    for bad in ({"key": "batch-000002", **MARK, "item": "nothing"}, {**good, "key": "batch-000003", "relevant": []}):
        status, _ = service.admin.ask("POST", "/api/v1/statements/batch", {"statements": [good, bad]})
        assert status in (404, 422)
    service.engine._journal.append().result()  # whatever was to be written is
    assert service.engine._journal.last == last


def test_a_thread_of_its_own_prepares_searches_of_many_items(service, monkeypatch):
    threads, renew = queue.SimpleQueue(), Near.renew
    service.near(after=service.say(0, **MARK)[1]["seq"])
    monkeypatch.setattr("paloma.feedback._near.EXACT_WORK", 0)
    monkeypatch.setattr(Near, "renew", lambda *given: (renew(*given), threads.put(threading.current_thread().name))[0])
    for k in (1, 2):
        service.near(after=service.say(k, **MARK)[1]["seq"])
        assert threads.get(timeout=60) == "paloma-preparer"
    while not threads.empty():  # the statement before may have been prepared late
        assert threads.get() == "paloma-preparer"


def test_items_come_and_go(service):
    payload = {"color": "red", "sold": True, "price": 1}
    new = {"id": "mine", "vector": load_digits().data[5].tolist(), "label": "5", "payload": payload}
    status, told = service.admin.ask("POST", "/api/v1/items", {"key": "add-000001", "items": [new]})
    assert status == 201
    assert service.near(after=told["seq"])[0] == "mine"
    assert service.near(where={"color": "red"}) == service.near(where={"sold": True, "price": 1.0}) == ["mine"]
    assert service.near(where={"sold": 1}) == service.near(where={"price": True}) == []
    assert service.admin.ask("POST", "/api/v1/items", {"key": "add-000002", "items": [new]})[0] == 422
    gone = service.admin.ask("POST", "/api/v1/items/remove", {"key": "rem-000001", "ids": ["mine"]})[1]["seq"]
    assert "mine" not in service.near(after=gone, k=200)
    assert service.admin.ask("GET", "/api/v1/items/mine")[0] == 404


def test_every_kind_of_statement_explain_suggest_compare_and_quality(service):
    said = [
        {"kind": "compare", "item": "digit-0001", "nearer": "digit-0011", "farther": "digit-0002"},
        {"kind": "together", "items": ["digit-0001", "digit-0011", "digit-0021"]},
        {"kind": "label", "items": ["digit-0000", "digit-0010", "digit-0001"], "labels": ["0", "0", "1"]},
        {"kind": "mark", "vector": load_digits().data[3].tolist(), "relevant": ["digit-0013"]},
        {"kind": "mark", "items": ["digit-0001", "digit-0011"], "relevant": ["digit-0021"]},
    ]
    for k, body in enumerate(said):
        status, told = service.say(k, **body)
        assert status == 201, told
    ask = service.admin.ask
    found = ask("POST", "/api/v1/explain", {"item": "digit-0001", "other": "digit-0011", "after": told["seq"]})[1]
    assert 0 < len(found["parts"]) <= 12
    assert found["now"] > 0
    rankings = ask("POST", "/api/v1/compare", {"item": "digit-0001", "k": 5})[1]
    assert all(len(rankings[name]) == 5 for name in ("start", "before", "now"))
    asked = ask("GET", "/api/v1/suggest?n=6")[1]
    assert 1 <= len(asked["items"]) <= 6
    assert "statements" in ask("GET", "/api/v1/quality")[1]["text"]
    assert ask("GET", "/api/v1/users")[1]["users"] == [""]
    assert b"paloma_statements_total 5" in ask("GET", "/api/v1/metrics")[1]
    assert len(ask("GET", "/api/v1/items?limit=2")[1]["items"]) == 2
    status, model = ask("GET", "/api/v1/models/download")
    assert status == 200
    assert len(model) > 1000


def test_several_items_are_searched_for_together(service):
    status, found = service.admin.ask("POST", "/api/v1/search", {"items": ["digit-0000", "digit-0010"], "k": 5})
    assert status == 200
    assert not {"digit-0000", "digit-0010"} & {each["id"] for each in found["results"]}


def test_readers_see_what_they_were_told(service):
    """A client that names its last statement never reads an older model, however fast it asks."""
    for k in range(20):
        told = service.say(k, kind="compare", item="digit-0001", nearer="digit-0011", farther="digit-0002")[1]
        status, found = service.admin.ask("POST", "/api/v1/search", {"item": "digit-0001", "after": told["seq"]})
        assert status == 200
        assert found["seq"] >= told["seq"]
    assert service.admin.ask("POST", "/api/v1/search", {"item": "digit-0001", "after": 10**6})[0] == 422


def test_who_asks_as_the_model_hears_it_does_not_wait(service, monkeypatch):
    """The learner has looked who waits between a reader's first look and its place in the line."""
    seq, looks = service.engine.seq, iter([0])
    monkeypatch.setattr(Engine, "seq", property(lambda engine: next(looks, seq)))
    asyncio.run(asyncio.wait_for(service.engine.heard(seq), 5.0))


def test_answers_leave_at_once():
    """A head and a body are two small packets: on a socket that collects them the second waits for a receipt."""

    async def collects() -> int:
        told = asyncio.get_running_loop().create_future()
        listening = _listening("127.0.0.1", 0)
        port = listening.getsockname()[1]
        server = await asyncio.start_server(lambda _, writer: told.set_result(writer), sock=listening)
        _, mine = await asyncio.open_connection("127.0.0.1", port)
        its = await told
        found = its.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        mine.close()
        its.close()
        server.close()
        return found

    assert asyncio.run(collects()) != 0


# -- refusals ----------------------------------------------------------------------------------------------------------

BAD = [
    ("/search", b'{"item": "digit-0001", "k": NaN}'),
    ("/search", b'{"vector": [1e999]}'),
    ("/search", b'{"vector": [Infinity]}'),
    ("/search", json.dumps({"vector": [0.0] * 63}).encode()),
    ("/search", b"{}"),
    ("/search", b'{"item": "digit-0001", "items": ["digit-0002"]}'),
    ("/search", b'{"item": "digit-0001", "k": 0}'),
    ("/search", b'{"item": "digit-0001", "k": true}'),
    ("/search", b'{"item": "digit-0001", "unknown": 1}'),
    ("/search", b"[]"),
    ("/search", b"{"),
    ("/search", b"\xff\xfe"),
    ("/search", b'{"item": "' + b"[" * 5000 + b'"}'),
    ("/search", b"[" * 100_000),
    ("/statements", json.dumps(MARK).encode()),
    ("/statements", json.dumps({"key": "short", **MARK}).encode()),
    ("/statements", json.dumps({"key": "key-00000001", "kind": "mark", "item": "digit-0001"}).encode()),
    ("/statements", json.dumps({"key": "key-00000001", **MARK, "relevant": ["digit-0001"]}).encode()),
    ("/statements", json.dumps({"key": "key-00000001", **MARK, "irrelevant": ["digit-0011"]}).encode()),
    ("/statements", json.dumps({"key": "key-00000001", **MARK, "kind": "shout"}).encode()),
    ("/statements", json.dumps({"key": "key-00000001", "kind": "compare", "item": "digit-0001"}).encode()),
    ("/statements", json.dumps({"key": "key-00000001", **MARK, "items": ["digit-0002"]}).encode()),
    ("/statements", json.dumps({"key": "key-00000001", **MARK, "user": "  "}).encode()),
    ("/statements", json.dumps({"key": "key-00000001", **MARK, "user": "\ud800"}).encode()),
    ("/undo", json.dumps({"key": "key-00000001"}).encode()),
    ("/items", json.dumps({"key": "key-00000001", "items": [{"id": "a", "vector": [1.0]}]}).encode()),
]


@pytest.mark.parametrize(("path", "raw"), BAD)
def test_bad_bodies_are_refused_and_change_nothing(service, path, raw):
    last = service.engine._journal.last
    status, told = service.admin.ask("POST", f"/api/v1{path}", raw=raw)
    assert status in (400, 422), told
    assert told["error"]
    assert service.engine._journal.last == last


@pytest.mark.parametrize("path", ["items", "statements"])
@pytest.mark.parametrize("cursor", ["z" * 64, "-1", "_", "--"])
def test_cursors_that_no_answer_gave_are_refused(service, path, cursor):
    assert service.admin.ask("GET", f"/api/v1/{path}?cursor={cursor}")[0] == 422


def test_unknown_items_and_statements_are_not_found(service):
    assert service.admin.ask("POST", "/api/v1/search", {"item": "nobody"})[0] == 404
    assert service.say(1, **{**MARK, "item": "nobody"})[0] == 404
    assert service.admin.ask("POST", "/api/v1/undo", {"key": "key-00000001", "statement": 999})[0] == 404


def test_bodies_are_bounded_by_counting(service):
    large = b'{"item": "' + b"x" * (1 << 20) + b'"}'
    assert service.admin.ask("POST", "/api/v1/search", raw=large)[0] == 413
    assert service.admin.ask("POST", "/api/v1/search", raw=large, content_length="10")[0] == 413


def test_a_folder_is_served_once_and_other_addresses_need_a_token(tmp_path, some):
    service = Service(tmp_path / "s", some)
    with pytest.raises(ServiceError, match="served already"):
        Engine(tmp_path / "s")
    service.close()
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "s"):
        with pytest.raises(ServiceError, match="there is a file of that name"):
            Engine(folder, some)
    with pytest.raises(ServiceError, match="needs a token"):
        serve(tmp_path / "t", some, host="0.0.0.0")
    with pytest.raises(ValueError, match="at least 16 bytes"):
        serve(tmp_path / "t", some, host="0.0.0.0", tokens={"short": "admin"})


@pytest.mark.parametrize("error", [apsw.FullError("disk full"), apsw.IOError("broken")])
def test_search_goes_on_while_the_disk_fails(tmp_path, some, error):
    system = FailingSystem(f"failing-service-{type(error).__name__}", error)
    service = Service(tmp_path / "s", some, vfs=system.name)
    near = service.near()
    system.left, system.failures = 0, 10**9
    assert service.say(1, **MARK)[0] == 503
    assert service.near() == near
    assert service.nobody.ask("GET", "/api/v1/health")[0] == 503
    system.left = None
    status, told = service.say(1, **MARK)
    assert status == 201
    assert service.near(after=told["seq"])
    assert service.nobody.ask("GET", "/api/v1/health")[0] == 200
    service.close()
