"""Starting a service, and asking it one thing without starting it."""

import asyncio
import gc
import ipaddress
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from .._optional import optional
from .._threads import single
from ..exceptions import ServiceError
from ._database import Database
from ._items import Items

# Seconds for which one thread may keep others from running Python: requests must not wait long for learning.
_TURN = 0.0005
_HEAD = 65_536  # bytes of a request before its body
LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # what a browser of this machine opens for it


def serve(
    folder: str | Path,
    items: Items | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8321,
    tokens: Mapping[str, str] | None = None,
    hosts: tuple[str, ...] = (),
    metrics: bool = False,
    database: Database | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve a folder until the process is stopped.

    Parameters
    ----------
    folder : where the journal is kept; created if it is missing. One process serves a folder at a time.
    items : taken in if the folder is new.
    host, port : where to listen; port 0 takes a free one. An address that other machines reach needs a token.
    tokens : token -> scope ("read", "feedback" or "admin"); at least 16 bytes each.
    hosts : further names under which the service may be reached, behind a proxy for example.
    metrics : whether counters are answered at /api/v1/metrics, to admins.
    database : where candidates of searches come from, and where a table is kept for that; None: from memory.
    ready : called with the address to open in a browser, which logs in once.
    """
    app, engine, keys = _built(folder, items, host, hosts, tokens, metrics, database)
    uvicorn, protocol = optional("uvicorn", "serve"), _protocol()
    turn = sys.getswitchinterval()
    sys.setswitchinterval(_TURN)
    gc.collect()
    gc.freeze()  # items stay: with many of them, looking through all for garbage stops everything for too long
    try:
        listening = _listening(host, port)
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off",
                           proxy_headers=False, http=protocol, ws="none", limit_concurrency=512)
        )  # fmt: skip
        name = _EVERYWHERE.get(host, f"[{host}]" if ":" in host else host)
        with _ending(server), single():
            ready(f"http://{name}:{listening.getsockname()[1]}/login?token={keys.login()}")
            asyncio.run(server.serve(sockets=[listening]))
    finally:
        gc.unfreeze()
        sys.setswitchinterval(turn)
        engine.close()


@contextmanager
def _ending(server: Any) -> Iterator[None]:
    """A signal asks the server to end, as it does while it runs, and is no exception in the midst of starting it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, server.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def is_new(folder: str | Path) -> bool:
    """Whether a folder holds no items yet, so that `serve` takes some in.

    Examples
    --------
    >>> from paloma.serve import is_new
    >>> is_new("no such folder")
    True
    """
    optional("apsw", "serve")
    from ._journal import is_empty

    return is_empty(Path(folder) / "journal.sqlite")


def _protocol() -> type:
    """HTTP as uvicorn reads it, of requests whose head has an end."""
    usual: Any = optional("uvicorn.protocols.http.httptools_impl", "serve").HttpToolsProtocol

    class Bounded(usual):
        head: int | None = 0  # bytes of the head that is being read

        def data_received(self, data: bytes) -> None:
            if self.head is not None:
                self.head += len(data)
            super().data_received(data)
            if self.head is not None and self.head > _HEAD:
                self.send_400_response("The head of the request is too long.")

        def on_headers_complete(self) -> None:
            self.head = None
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self.head = 0
            super().on_message_complete()

    return Bounded


def answer(folder: str | Path, path: str, items: Items | None = None) -> tuple[int, bytes]:
    """The status and body of one GET request, answered without a server."""
    app, engine, keys = _built(folder, items, "127.0.0.1", (), None, True)
    try:
        session = keys.enter(keys.login())
        return asyncio.run(_asked(app, path, f"Bearer {session}"))
    finally:
        engine.close()


def _built(
    folder: str | Path, items: Items | None, host: str, hosts: tuple[str, ...], tokens: Mapping[str, str] | None,
    metrics: bool, database: Database | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    for module in ("fastapi", "apsw"):
        optional(module, "serve")
    from ._app import application
    from ._engine import Engine
    from ._safety import Keys, Safety

    keys = Keys()
    for token, scope in (tokens or {}).items():
        keys.add(token, scope)
    if not _is_local(host) and not tokens:
        raise ServiceError(
            f"Other machines reach {host}: a service there needs a token of at least 16 bytes (--token SCOPE=TOKEN). "
            "Without one, it listens on 127.0.0.1 alone."
        )
    engine = Engine(Path(folder), items, database=database)
    names = frozenset({*LOCAL, host.lower(), *(name.lower() for name in hosts)})
    return Safety(application(engine, keys, metrics=metrics), keys, names), engine, keys


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, so that asyncio sends parts of an answer at once: else a body waits 40 ms for its head's receipt.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(256)
    except OSError as error:
        found.close()
        raise ServiceError(f"Cannot listen on {host}:{port}: {error.strerror}. Use -p 0 for a free port.") from None
    return found


async def _asked(app: Any, path: str, credentials: str) -> tuple[int, bytes]:
    target, _, query = path.partition("?")
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
             "path": unquote(target), "raw_path": target.encode(), "query_string": query.encode(), "root_path": "",
             "headers": [(b"host", b"localhost"), (b"authorization", credentials.encode())],
             "client": ("127.0.0.1", 0), "server": ("127.0.0.1", 0)}  # fmt: skip
    parts: dict[str, Any] = {"status": 500, "body": b""}
    body: list[dict[str, Any]] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if body:
            return body.pop()
        await asyncio.Event().wait()  # the caller stays until it is answered
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            parts["status"] = message["status"]
        else:
            parts["body"] += message.get("body", b"")

    await app(scope, receive, send)
    return parts["status"], parts["body"]
