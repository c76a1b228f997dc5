"""Requests to an ASGI application without a server."""

import asyncio
import json
from typing import Any


class Client:
    """One caller of an application: `headers` go with every request. The event loop lives as long as the client."""

    def __init__(self, app: Any, **headers: str) -> None:
        self.app, self.headers = app, {"host": "localhost", **headers}
        self.loop = asyncio.new_event_loop()

    def close(self) -> None:
        self.loop.close()

    def ask(
        self, method: str, path: str, body: Any = None, raw: bytes | None = None, **headers: str
    ) -> tuple[int, Any]:
        """Status and parsed answer; `raw` is sent as it is, `body` as JSON."""
        status, data, _ = self.answer(method, path, body, raw, **headers)
        return status, json.loads(data) if data[:1] in (b"{", b"[") else data

    def answer(
        self, method: str, path: str, body: Any = None, raw: bytes | None = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        kind = {"content-type": "application/json", "content-length": str(len(data))} if data else {}
        kind = kind or ({"content-type": "application/json"} if method == "POST" else {})
        sent = {**self.headers, **kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.loop.run_until_complete(self._run(method, path, data, sent))

    async def _run(self, method: str, path: str, data: bytes, headers: dict[str, str]) -> Any:
        target, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": target, "raw_path": target.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        found: dict[str, Any] = {"body": b""}
        body = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if body:
                return body.pop()
            return await asyncio.Event().wait()  # the client stays

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                found["status"], found["headers"] = message["status"], message["headers"]
            else:
                found["body"] += message.get("body", b"")

        await self.app(scope, receive, send)
        return found["status"], found["body"], {k.decode(): v.decode() for k, v in found["headers"]}
