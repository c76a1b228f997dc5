"""The routes. Each one says what it needs (`needs`), checks its form, and asks the engine."""

import asyncio
import hashlib
import inspect
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException as StarletteError

from .._version import __version__
from . import _forms as form
from ._engine import Engine, Late
from ._journal import Conflict, Unsaved
from ._pictures import KINDS
from ._safety import SCOPES, Keys, cookie_of
from ._served import Unknown

PAGE = Path(__file__).parent / "page"
PREFIX = "/api/v1"
_FILES = {
    "style.css": "text/css", "app.js": "text/javascript", "api.js": "text/javascript", "cards.js": "text/javascript",
    "chart.js": "text/javascript", "icon.svg": "image/svg+xml",
}  # fmt: skip

Limit = Annotated[int, Query(ge=1, le=1000)]
User = Annotated[str, Query(max_length=200)]
Words = Annotated[str, Query(max_length=200)]
After = Annotated[int, Query(ge=0, le=2**62)]
Key = Annotated[form.Key, Query()]
Cursor = Annotated[str, Query(max_length=64, pattern=r"^[A-Za-z0-9_-]*$")]


def needs(scope: str) -> Any:
    """A route's guard: callers whose token allows less are refused."""

    async def check(request: Request) -> None:  # a plain function would wait for a thread
        allowed = request.scope.get("state", {}).get("scope")
        if allowed is None:
            raise HTTPException(401, "This needs a token: send it as 'Authorization: Bearer TOKEN'.",
                                {"www-authenticate": "Bearer"})  # fmt: skip
        if SCOPES.index(allowed) < SCOPES.index(scope):
            raise HTTPException(403, f"This needs a token with the scope {scope!r}; yours has {allowed!r}.")

    return Depends(check)


class Brief(APIRoute):
    """A route that takes one form: its bytes are checked in one step, where FastAPI takes several for any route."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Whether the caller may; then what the bytes say; then the answer."""
        asks = [each.annotation for each in inspect.signature(self.endpoint).parameters.values()]
        if len(asks) != 1 or not (isinstance(asks[0], type) and issubclass(asks[0], form.Form)):
            return super().get_route_handler()
        answer, read = self.endpoint, asks[0].model_validate_json
        checks = [each.dependency for each in self.dependencies]

        async def handle(request: Request) -> Response:
            for check in checks:
                await check(request)
            try:
                asked = read(await request.body())
            except ValidationError as error:
                found = error.errors(include_url=False, include_context=False, include_input=False)
                raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in found]) from None
            response: Response = await answer(asked)
            return response

        return handle


def application(engine: Engine, keys: Keys, *, metrics: bool = False) -> FastAPI:
    """The application without its outer layer (see `_safety.Safety`)."""
    app = FastAPI(title="paloma", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.router.route_class = Brief
    _errors(app)
    _saying(app, engine)  # routes are tried in this order: the busiest ones first
    _reading(app, engine)
    _keeping(app, engine, metrics)
    _page(app, keys)
    return app


def _page(app: FastAPI, keys: Keys) -> None:
    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        if request.scope.get("state", {}).get("scope") is None:
            return HTMLResponse("<!doctype html><title>paloma</title><p>Open the address that "
                                "<code>paloma serve</code> printed: it logs you in.", 401)  # fmt: skip
        return FileResponse(PAGE / "index.html", media_type="text/html")

    @app.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in _FILES:
            raise HTTPException(404, "There is no such file.")
        return FileResponse(PAGE / name, media_type=_FILES[name])

    @app.get("/login", include_in_schema=False)
    async def login(request: Request, token: Annotated[str, Query(max_length=200)] = "") -> Response:
        session = keys.enter(token)
        if session is None:
            raise HTTPException(401, "This login was used before or is unknown. Restart the service for a fresh one.")
        answer = RedirectResponse("/", 303)
        name = cookie_of(request.headers.get("host", ""))
        answer.set_cookie(name, session, httponly=True, samesite="strict")
        return answer

    @app.get(f"{PREFIX}/openapi.json", include_in_schema=False, dependencies=[needs("read")])
    async def openapi() -> dict[str, Any]:
        return app.openapi()

    @app.get("/docs/api", include_in_schema=False, dependencies=[needs("read")])
    async def reference() -> HTMLResponse:
        return HTMLResponse(_reference(app.openapi()))


def _reading(app: FastAPI, engine: Engine) -> None:
    read = [needs("read")]

    @app.post(f"{PREFIX}/search", dependencies=read)
    async def search(asked: form.Search) -> JSONResponse:
        """The nearest items of a query, each under the metric of whoever asks."""
        return await _soon(engine, asked.after, lambda: engine.search(_query(asked), asked))

    @app.post(f"{PREFIX}/compare", dependencies=read)
    async def compare(asked: form.Search) -> JSONResponse:
        """The same query without feedback, before the last statement, and now."""
        return await _soon(engine, asked.after, lambda: engine.compare(_query(asked), asked))

    @app.post(f"{PREFIX}/explain", dependencies=read)
    async def explain(asked: form.Explain) -> JSONResponse:
        """Each feature's share of the squared distance between the query and an item, now and without feedback."""
        return await _soon(engine, asked.after, lambda: engine.explain(_query(asked), asked.other, asked))

    @app.get(f"{PREFIX}/suggest", dependencies=read)
    async def suggest(n: Limit = 12, user: User = "", after: After = 0) -> JSONResponse:
        """A query and items whose marks teach most."""
        return await _soon(engine, after, lambda: engine.suggest(n, user))

    @app.get(f"{PREFIX}/quality", dependencies=read)
    async def quality(after: After = 0) -> JSONResponse:
        """How well statements were ranked before they were learned, with and without feedback, and the guard."""
        return await _soon(engine, after, engine.quality)

    @app.get(f"{PREFIX}/users", dependencies=read)
    async def users(after: After = 0) -> JSONResponse:
        """Everybody who said something."""
        return await _soon(engine, after, engine.users)

    @app.get(f"{PREFIX}/items", dependencies=read)
    async def items(cursor: Cursor = "", limit: Limit = 100, find: Words = "") -> JSONResponse:
        """Items page by page: those that have the words of `find` in what is shown; pass `next` on as `cursor`."""
        return await _soon(engine, 0, lambda: engine.page(cursor, limit, find))

    @app.get(f"{PREFIX}/items/sample", dependencies=read)
    async def sample() -> JSONResponse:
        """An item drawn at random, to begin with."""
        return await _soon(engine, 0, engine.sample)

    # Ids may be paths of files, and servers decode the slashes in them.
    @app.get(f"{PREFIX}/items/{{id:path}}/picture", dependencies=read, response_class=Response)
    async def picture(id: str, request: Request) -> Response:
        """An item's picture; or an item whose id ends in `/picture`, if its slash was sent as %2F."""
        if not request.scope.get("raw_path", b"/picture").endswith(b"/picture"):
            return await item(f"{id}/picture")
        data, kind = await asyncio.to_thread(engine.picture, id)
        mark = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        headers = {"etag": mark, "content-security-policy": "default-src 'none'; sandbox"}
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=kind, headers=headers)

    @app.get(f"{PREFIX}/items/{{id:path}}", dependencies=read)
    async def item(id: str) -> JSONResponse:
        """One item."""
        return await _soon(engine, 0, lambda: engine.item(id))

    @app.get(f"{PREFIX}/statements", dependencies=read)
    async def history(cursor: Cursor = "", limit: Limit = 100, user: User = "", after: After = 0) -> JSONResponse:
        """What was said, newest first."""
        return await _soon(engine, after, lambda: engine.history(cursor, limit, user))

    @app.get(f"{PREFIX}/version", dependencies=read)
    async def about() -> JSONResponse:
        """Versions, and what is served."""
        return JSONResponse(engine.about())


def _saying(app: FastAPI, engine: Engine) -> None:
    say = [needs("feedback")]

    @app.post(f"{PREFIX}/statements", dependencies=say, status_code=201)
    async def statement(said: form.Statement) -> JSONResponse:
        """Feedback; answered once it is on disk. A key that was used before gives the first answer again."""
        return JSONResponse(await engine.state(said), 201)

    @app.post(f"{PREFIX}/statements/batch", dependencies=say, status_code=201)
    async def statements(said: form.Statements) -> JSONResponse:
        """Several statements; answered once all of them are on disk."""
        return JSONResponse(await engine.state_all(said.statements), 201)

    @app.post(f"{PREFIX}/undo", dependencies=say, status_code=201)
    async def undo(asked: form.Undo) -> JSONResponse:
        """Take back statements: the model becomes what it would be if they had never been said."""
        return JSONResponse(await engine.undo(asked), 201)


def _keeping(app: FastAPI, engine: Engine, metrics: bool) -> None:
    own = [needs("admin")]

    @app.post(f"{PREFIX}/items", dependencies=own, status_code=201)
    async def add(new: form.Items) -> JSONResponse:
        """Add items."""
        return JSONResponse(await engine.add(new), 201)

    sent = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in dict.fromkeys(KINDS.values())}

    @app.post(f"{PREFIX}/items/{{id:path}}/picture", dependencies=own, status_code=201,
              openapi_extra={"requestBody": {"required": True, "content": sent}})  # fmt: skip
    async def show(id: str, key: Key, request: Request) -> JSONResponse:
        """Give an item a picture, the bytes of a file, in place of the one that it had."""
        return JSONResponse(await engine.show(id, key, await request.body()), 201)

    @app.post(f"{PREFIX}/items/remove", dependencies=own, status_code=201)
    async def remove(gone: form.Removal) -> JSONResponse:
        """Remove items."""
        return JSONResponse(await engine.remove(gone), 201)

    @app.post(f"{PREFIX}/models/publish", dependencies=own, status_code=201)
    async def publish(act: form.Publication) -> JSONResponse:
        """Let searches with the metric "published" rank by the model of statement `seq`, whatever is said later."""
        return JSONResponse(await engine.publish(act), 201)

    @app.post(f"{PREFIX}/models/rollback", dependencies=own, status_code=201)
    async def rollback(act: form.Rollback) -> JSONResponse:
        """Take back everything that was said after statement `seq`."""
        return JSONResponse(await engine.rollback(act), 201)

    @app.get(f"{PREFIX}/models/download", dependencies=own, response_class=Response)
    async def download() -> Response:
        """The model as a model file, for `paloma.load`."""
        data = await asyncio.to_thread(engine.model_file)
        return Response(data, media_type="application/octet-stream",
                        headers={"content-disposition": 'attachment; filename="model.paloma"'})  # fmt: skip

    @app.get(f"{PREFIX}/health")
    async def health() -> JSONResponse:
        """Whether statements can be taken; searching goes on if not."""
        return JSONResponse(engine.health(), 200 if engine.writable and engine.learning else 503)

    if metrics:

        @app.get(f"{PREFIX}/metrics", dependencies=own, response_class=PlainTextResponse)
        async def counters() -> PlainTextResponse:
            """Counters in Prometheus's text format."""
            return PlainTextResponse(engine.counters(), media_type="text/plain; version=0.0.4")


async def _soon(engine: Engine, after: int, answer: Callable[[], dict[str, Any]]) -> JSONResponse:
    """An answer from a model that has heard statement `after`."""
    await engine.heard(after)
    return await asyncio.to_thread(lambda: JSONResponse(answer()))


def _query(asked: form.Query) -> dict[str, Any]:
    """The one way in which a query was given."""
    given = {name: value for name in ("item", "items", "vector") if (value := getattr(asked, name)) is not None}
    if len(given) != 1:
        raise HTTPException(422, "Give exactly one of item, items and vector.")
    return given


def _errors(app: FastAPI) -> None:
    """One shape for all errors, which repeats nothing that was sent."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        found = [{"where": ".".join(str(part)[:80] for part in each["loc"])[:300], "what": str(each["msg"])[:300]}
                 for each in error.errors()[:20]]  # fmt: skip
        first = found[0] if found else {"where": "body", "what": "invalid"}
        return JSONResponse({"error": f"{first['where']}: {first['what']}", "details": found}, 422)

    @app.exception_handler(StarletteError)
    async def refused(_: Request, error: StarletteError) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    for kind, status in (
        (Conflict, 409),
        (Unknown, 404),
        (Unsaved, 503),
        (Late, 503),
        (ValueError, 422),
    ):

        @app.exception_handler(kind)
        async def told(_: Request, error: Exception, status: int = status) -> JSONResponse:
            return JSONResponse({"error": str(error)}, status, {"retry-after": "1"} if status == 503 else None)


def _reference(described: dict[str, Any]) -> str:
    """The routes as a plain page, made from OpenAPI's description."""
    from html import escape

    lines = ["<!doctype html><meta charset=utf-8><title>paloma: API</title><link rel=stylesheet href=/page/style.css>",
             f"<main><h1>API</h1><p>Described by <a href={PREFIX}/openapi.json>openapi.json</a>.</p><dl>"]  # fmt: skip
    for path, methods in described["paths"].items():
        for method, about in methods.items():
            lines.append(f"<dt><code>{method.upper()} {escape(path)}</code><dd>{escape(about.get('description', ''))}")
    return "\n".join([*lines, "</dl></main>"])
