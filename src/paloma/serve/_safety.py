"""What stands before every route: who asks, from where, how much and how often.

The service binds to this machine alone unless it has a token. A request must name a host that the service knows (so
that a page of another site cannot reach it through DNS), a change must come as JSON, or as a picture, from the
service's own page or from a client with a token, and bodies are counted as they arrive.
"""

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser

from . import _pictures

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Refusal = tuple[int, str, list[tuple[bytes, bytes]]]

SCOPES = ("read", "feedback", "admin")
_COOKIE = "paloma_session"
LEAST_TOKEN = 16  # bytes
JSON_BYTES = 1 << 20

_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


def digest(token: str) -> bytes:
    """Tokens are kept and compared as digests."""
    return hashlib.sha256(token.encode()).digest()


@dataclass
class Keys:
    """Digests of tokens and what they allow; a login token is good for one session cookie."""

    tokens: dict[bytes, str] = field(default_factory=dict)
    logins: dict[bytes, str] = field(default_factory=dict)

    def add(self, token: str, scope: str) -> None:
        """Allow what `scope` names, and the scopes before it, to whoever has this token."""
        if scope not in SCOPES:
            raise ValueError(f"A token's scope must be one of {', '.join(SCOPES)}, got {scope!r}.")
        if len(token.encode()) < LEAST_TOKEN:
            raise ValueError(f"A token must have at least {LEAST_TOKEN} bytes, got {len(token.encode())}.")
        self.tokens[digest(token)] = scope

    def login(self, scope: str = "admin") -> str:
        """A token for the first visit of a browser, good for one use."""
        token = secrets.token_urlsafe(24)
        self.logins[digest(token)] = scope
        return token

    def enter(self, token: str) -> str | None:
        """Exchange a login token for a session token; None if it is unknown or was used before."""
        asked = digest(token)
        for known in list(self.logins):
            if hmac.compare_digest(known, asked):
                session = secrets.token_urlsafe(32)
                self.tokens[digest(session)] = self.logins.pop(known)
                return session
        return None

    def scope_of(self, token: str | None) -> str | None:
        """What a token allows. Every known digest is compared, in constant time."""
        if token is None:
            return None
        asked, found = digest(token), None
        for known, scope in self.tokens.items():
            if hmac.compare_digest(known, asked):
                found = scope
        return found


@dataclass
class Rate:
    """A bucket of requests per caller: `burst` at once, `per_second` in the long run."""

    per_second: float = 500.0
    burst: float = 2000.0
    _level: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, who: str) -> float:
        """0 if the caller may go on, otherwise the seconds until it may."""
        now = time.monotonic()
        level, then = self._level.get(who, (self.burst, now))
        level = min(self.burst, level + (now - then) * self.per_second)
        if level < 1.0:
            self._level[who] = (level, now)
            return (1.0 - level) / self.per_second
        if len(self._level) > 10_000:
            self._level.clear()
        self._level[who] = (level - 1.0, now)
        return 0.0


@dataclass
class Safety:
    """The outermost layer of the application."""

    app: App
    keys: Keys
    hosts: frozenset[str]
    rate: Rate = field(default_factory=Rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what must not reach a route; let everything else through, counted and marked with its scope."""
        if scope["type"] == "http":
            headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
            refusal = self._refusal(scope, headers) or self._entered(scope, headers)
            if refusal is None:
                await self.app(scope, _counted(receive, _taken(scope)[1]), _marked(send, scope))
            else:
                await _answer(send, *refusal)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)

    def _entered(self, scope: Scope, headers: dict[bytes, str]) -> Refusal | None:
        """Mark a request with what its token allows; refused if its caller asks too often."""
        token = _bearer(headers) or _session(headers)
        allowed = self.keys.scope_of(token)
        wait = self.rate.take(digest(token).hex() if allowed and token else _client(scope))
        if wait > 0:
            return 429, "Too many requests.", [(b"retry-after", str(int(wait) + 1).encode())]
        scope.setdefault("state", {})["scope"] = allowed
        return None

    def _refusal(self, scope: Scope, headers: dict[bytes, str]) -> Refusal | None:
        host = _name(headers.get(b"host", ""))
        if host not in self.hosts:
            return 421, "This service does not answer for that host; start it with --host.", []
        if scope["method"] in ("GET", "HEAD"):
            return None
        if scope["method"] != "POST":
            return 405, "Only GET, HEAD and POST are answered.", [(b"allow", b"GET, HEAD, POST")]
        origin = headers.get(b"origin")
        if origin is not None and origin.partition("://")[2] != headers.get(b"host"):
            return 403, "Changes from a page of another origin are refused.", []
        kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
        kinds, most = _taken(scope)
        if kind not in kinds:
            return 415, f"Send {' or '.join(kinds)}.", []
        length = headers.get(b"content-length", "0")
        if not length.isdecimal() or int(length) > most:
            return 413, f"A body has at most {most} bytes here.", []
        return None


def _taken(scope: Scope) -> tuple[list[str], int]:
    """The types of a body, and its bytes at most."""
    if scope["path"].endswith("/picture"):
        return [*dict.fromkeys(_pictures.KINDS.values())], _pictures.LARGEST
    return ["application/json"], JSON_BYTES


def _counted(receive: Receive, most: int) -> Receive:
    """The parts of a body as they arrive; refused once they are too many bytes, whatever was announced."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > most:
                raise HTTPException(413, "The body is too large.")
        return message

    return counted


def _marked(send: Send, scope: Scope) -> Send:
    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            cache = [] if scope["path"].startswith("/page/") else [(b"cache-control", b"no-store")]
            message["headers"] = [*message.get("headers", []), *_HEADERS, *cache]
        await send(message)

    return marked


async def _answer(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = json.dumps({"error": text}).encode()
    start = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *_HEADERS, *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def _name(host: str) -> str:
    """The host of a Host header without its port, in lower case."""
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name.lower() if host.count("]") == 1 and (not rest or rest[0] == ":") else ""
    return host.partition(":")[0].lower()


def _bearer(headers: dict[bytes, str]) -> str | None:
    kind, _, token = headers.get(b"authorization", "").partition(" ")
    return token.strip() or None if kind.lower() == "bearer" else None


def cookie_of(host: str) -> str:
    """The name of a session's cookie: browsers send it to all ports of a host, and each may be another service's.

    Examples
    --------
    >>> cookie_of("localhost:8321"), cookie_of("search.example.org")
    ('paloma_session_8321', 'paloma_session')
    """
    port = host.rpartition(":")[2]
    return f"{_COOKIE}_{port}" if port.isdecimal() else _COOKIE


def _session(headers: dict[bytes, str]) -> str | None:
    return cookie_parser(headers.get(b"cookie", "")).get(cookie_of(headers.get(b"host", "")))


def _client(scope: Scope) -> str:
    return str((scope.get("client") or ("", 0))[0])
