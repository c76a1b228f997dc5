"""How a service comes to know what it knows: entries of the journal, learned in order by one thread.

What is known is the journal replayed, to the bit. An entry is acknowledged when it is on disk; it is part of the
model a moment later, and a caller who names its number waits for that.
"""

import asyncio
import fcntl
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .._version import __version__
from ..exceptions import ServiceError
from ..feedback import FeedbackSearch
from . import _forms as form
from ._database import Database, SearchTable, owner_in
from ._items import Items
from ._journal import Entry, Journal, New
from ._pictures import MOST_PIXELS, kind_of
from ._said import in_words
from ._served import Served, Unknown
from ._snapshots import Snapshots

_AT_ONCE = 1024  # entries that are learned together
_PAUSE = 0.02  # seconds from learning to learning, unless somebody waits for it: several entries are one round
_REST = 9.0  # times what preparing searches took that nothing is prepared: a tenth of a core at most
T = TypeVar("T")
PATIENCE = 10.0  # seconds that an answer waits for the statement it was asked to include


class Late(RuntimeError):
    """The model has not heard a statement in time."""


class Engine:
    """One process owns a folder: its journal, and the model in memory."""

    def __init__(
        self, folder: Path, items: Items | None = None, *, vfs: str | None = None, database: Database | None = None
    ) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ServiceError(f"{folder} cannot be a folder, because there is a file of that name.") from None
        table = None if database is None else database.opened(owner_in(folder))
        self._lock_file = _locked(folder)
        self._journal = Journal(folder / "journal.sqlite", vfs=vfs)
        self._snapshots = Snapshots(folder / "snapshots")
        self._served = self._restored(items)
        if table is not None:
            self._served.table = SearchTable(table, self._served.findable)
        self._ends = False
        self.writable = self.learning = True
        self._since = time.time()
        self._counts = {"searches": 0, "statements": 0, "refused_writes": 0}
        self._coming: dict[str, float] = {}  # ids of new items, and the entry that the model must hear to know them
        self._waiting: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._told, self._wanted, self._waits = threading.Event(), threading.Event(), threading.Lock()
        self._learned, self._closing = threading.Event(), threading.Event()
        self._learner = threading.Thread(target=self._learn, name="paloma-learner", daemon=True)
        self._preparer = threading.Thread(target=self._prepare, name="paloma-preparer", daemon=True)
        self._learner.start()
        self._preparer.start()

    @property
    def seq(self) -> int:
        """The number of the last entry that is part of the model."""
        return self._served.seq

    def close(self) -> None:
        """Apply what was acknowledged, then let the folder go."""
        self._ends = True
        self._told.set()
        self._wanted.set()
        self._learner.join()
        self._closing.set()
        self._learned.set()
        self._preparer.join()
        if self._served.table is not None:
            self._served.table.close()
        self._snapshots.close(self._served)
        self._journal.close()
        self._lock_file.close()

    # -- entries -------------------------------------------------------------------------------------------------------

    async def state(self, said: form.Statement) -> dict[str, Any]:
        """Acknowledge a statement."""
        return await self._tell(await self._stated(said))

    async def state_all(self, said: Sequence[form.Statement]) -> dict[str, Any]:
        """Acknowledge several statements, which share a commit."""
        entries = await self._saved(self._journal.append(*[await self._stated(each) for each in said]))
        return {"seq": max(entry.seq for entry in entries), "statements": [entry.seq for entry in entries]}

    async def _stated(self, said: form.Statement) -> New:
        body = form.plain(said)
        kept = await self._sure(said.key, lambda again: self._served.sound(body, said.user, again=again))
        return New(said.key, said.user, kept)

    async def _sure(self, key: str, check: Callable[[bool], T]) -> T:
        """What a check finds; if it misses something, once more, as a client may know more than the model.

        What it misses may be acknowledged, but not heard yet. If the key was used before, it may be gone since: the
        check is told that this is said `again`.
        """
        try:
            return check(False)
        except Unknown:
            again = self._journal.find(key) is not None
            if not again:
                await self.heard(self._journal.last)
            return check(again)

    async def undo(self, asked: form.Undo) -> dict[str, Any]:
        """Acknowledge that statements are taken back."""
        body = form.plain(asked)
        if not body:
            raise ValueError("Say what to take back: statement, of_user, since or until.")
        first = self._journal.find(asked.key)
        await self.heard(self._journal.last if first is None else first)
        items = self._served.items_of(body) if first is None else self._served.taken(first)
        told = await self._tell(New(asked.key, asked.user, {"kind": "undo", **body}))
        return {**told, "items": items}

    async def rollback(self, act: form.Rollback) -> dict[str, Any]:
        """Take back everything after a statement."""
        self._check_said(act.seq)
        return await self._tell(New(act.key, "", {"kind": "undo", "after": act.seq}))

    async def publish(self, act: form.Publication) -> dict[str, Any]:
        """Let searches that ask for the published model have that of a statement."""
        self._check_said(act.seq or 0)
        body = {} if act.seq is None else {"after": act.seq}
        return await self._tell(New(act.key, "", {"kind": "publish", **body}))

    async def add(self, new: form.Items) -> dict[str, Any]:
        """Acknowledge new items."""
        rows, items = self._served.rows_of(new.items)
        entry, ids = New(new.key, "", {"kind": "add", "items": items}, rows), [item.id for item in new.items]
        if self._journal.find(new.key) is not None:
            return await self._tell(entry)
        self._coming = {id: seq for id, seq in self._coming.items() if seq > self.seq}
        self._served.check_new(new.items, self._coming)
        self._coming |= dict.fromkeys(ids, inf)
        try:
            told = await self._tell(entry)
        except BaseException:
            for id in ids:
                del self._coming[id]
            raise
        self._coming |= dict.fromkeys(ids, told["seq"])
        return told

    async def show(self, id: str, key: str, data: bytes) -> dict[str, Any]:
        """Acknowledge an item's picture."""
        if (kind := kind_of(data)) is None:
            raise ValueError(f"That is no PNG, JPEG, GIF or WebP of at most {MOST_PIXELS:,} pixels.")
        await self._sure(key, lambda again: None if again else self._known(id))
        return await self._tell(New(key, "", {"kind": "picture", "id": id, "type": kind}, data))

    async def remove(self, gone: form.Removal) -> dict[str, Any]:
        """Acknowledge that items are gone."""
        await self._sure(gone.key, lambda again: None if again else self._known(*gone.ids))
        return await self._tell(New(gone.key, "", {"kind": "remove", "ids": gone.ids}))

    async def _tell(self, new: New) -> dict[str, Any]:
        entry = (await self._saved(self._journal.append(new)))[0]
        return {"seq": entry.seq, "at": entry.at}

    async def _saved(self, waiting: "Future[list[Entry]]") -> list[Entry]:
        try:
            entries = await asyncio.wrap_future(waiting)
        except RuntimeError:
            self.writable = False
            self._counts["refused_writes"] += 1
            raise
        self.writable = True
        self._counts["statements"] += len(entries)
        self._told.set()
        return entries

    async def heard(self, after: int) -> None:
        """Wait until the model has heard an entry."""
        if after <= self.seq:
            return
        self._check_said(after)
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        with self._waits:
            if after <= self.seq:  # heard in the meantime, by a learner that has looked who waits
                return
            self._waiting.append((after, loop, done))
        self._wanted.set()
        try:
            await asyncio.wait_for(done, PATIENCE)
        except TimeoutError:
            raise Late(f"The model has not heard statement {after} within {PATIENCE:.0f} seconds.") from None

    # -- the learner's thread ------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        try:
            _warm_up()
            while self._awaited():
                if entries := list(self._journal.after(self.seq, limit=_AT_ONCE)):
                    self._served.note(entries)
                    heard = self._served.learn()
                    self._wake()
                    self._learned.set()
                    if self._served.table is not None:
                        self._served.table.changed()
                    self._snapshots.heard(heard, self._served)
        except BaseException:
            self.learning = False  # searches go on with what was learned; a restart replays the journal
            raise

    def _prepare(self) -> None:
        """Keep searches prepared, in a thread of its own: with many items it takes longer than anybody should wait."""
        while not self._closing.is_set():
            self._learned.wait()
            self._learned.clear()
            begun = time.monotonic()
            self._served.prepare()
            self._closing.wait(_REST * (time.monotonic() - begun))

    def _awaited(self) -> bool:
        """Wait until there is something to learn; False once everything is learned and the service ends."""
        self._wanted.wait(_PAUSE)
        self._wanted.clear()
        while not self._ends and self._journal.last <= self.seq:
            self._told.wait(1.0)
            self._told.clear()
        return not self._ends or self._journal.last > self.seq

    def _wake(self) -> None:
        with self._waits:
            ready = [each for each in self._waiting if each[0] <= self.seq]
            self._waiting = [each for each in self._waiting if each[0] > self.seq]
        for _, loop, done in ready:
            loop.call_soon_threadsafe(_done, done)

    def _restored(self, items: Items | None) -> Served:
        """Every entry since the beginning; the items that came with the command are the first ones."""
        served = Served()
        if self._journal.last == 0 and items is not None:
            parts = [New(f"import-{told[0]['id']}", "", {"kind": "add", "items": told}, rows)
                     for rows, told in items.parts()]  # fmt: skip
            if items.features is not None:
                parts[0].body["features"] = items.features
            self._journal.append(*parts).result()  # one commit: all of them are there after a kill, or none
        last = 0
        while entries := list(self._journal.after(last, limit=_AT_ONCE)):
            served.note(entries)
            last = entries[-1].seq
        self._snapshots.heard(served.learn(self._snapshots.state_for(served)), served)
        return served

    # -- answers -------------------------------------------------------------------------------------------------------

    def search(self, query: dict[str, Any], asked: form.Search) -> dict[str, Any]:
        """The nearest items."""
        self._counts["searches"] += 1
        self._check_query(query)
        return self._served.search(query, asked.k, asked.user, asked.metric, asked.where)

    def compare(self, query: dict[str, Any], asked: form.Search) -> dict[str, Any]:
        """One query under three metrics."""
        self._check_query(query)
        found = {name: self._served.search(query, asked.k, asked.user, name, asked.where)
                 for name in ("start", "before", "now")}  # fmt: skip
        return {"seq": found["now"]["seq"], **{name: each["results"] for name, each in found.items()}}

    def explain(self, query: dict[str, Any], other: str, asked: form.Explain) -> dict[str, Any]:
        """Why an item is near."""
        self._check_query(query)
        self._known(other)
        return self._served.explain(query, other, asked.user, asked.most)

    def suggest(self, n: int, user: str) -> dict[str, Any]:
        """What to mark next."""
        return self._served.suggest(n, user)

    def quality(self) -> dict[str, Any]:
        """The progressive curve and the guard."""
        return self._served.quality()

    def users(self) -> dict[str, Any]:
        """Who spoke."""
        return {"users": self._served.users()}

    def item(self, id: str) -> dict[str, Any]:
        """One item as clients see it."""
        self._known(id)
        return self._served.items.item(id)

    def sample(self) -> dict[str, Any]:
        """A random item."""
        return {"items": self._served.items.sample()}

    def page(self, cursor: str, limit: int, find: str) -> dict[str, Any]:
        """Items in the order in which they came."""
        items, more = self._served.items.page(_place(cursor), limit, find)
        return {"items": items, "next": None if more is None else _cursor(more)}

    def history(self, cursor: str, limit: int, user: str) -> dict[str, Any]:
        """Statements, newest first; items that came and went are not statements."""
        seq, lines = _place(cursor) or 2**62, list[dict[str, Any]]()
        while len(lines) < limit and (entries := self._journal.before(seq, limit)):
            for entry in entries:
                seq, body = entry.seq, entry.body
                if body["kind"] not in ("add", "picture", "remove") and (not user or entry.user == user):
                    lines.append({"seq": seq, "user": entry.user, "at": entry.at, "kind": body["kind"],
                                  "text": in_words(body), "undone": self._served.undone(seq)})  # fmt: skip
                if len(lines) == limit:
                    break
        return {"seq": self.seq, "statements": lines, "next": _cursor(seq) if len(lines) == limit else None}

    def picture(self, id: str) -> tuple[bytes, str]:
        """An item's picture and its type."""
        self._known(id)
        found = self._served.items.picture(id, self._journal.rows)
        if found is None:
            raise Unknown(f"Item {id!r} has no picture.")
        return found

    def model_file(self) -> bytes:
        """The model as the bytes of a model file."""
        return self._served.model_file()

    def health(self) -> dict[str, Any]:
        """Whether the service can take statements, and how far it is."""
        status = "ok" if self.writable and self.learning else "read-only" if self.learning else "not learning"
        table = self._served.table
        where = {} if table is None else {"candidates": "memory" if table.written is None else "database"}
        return {"status": status, "seq": self.seq, "acknowledged": self._journal.last, **where}

    def about(self) -> dict[str, Any]:
        """Versions and sizes."""
        n, d = len(self._served.items), self._served.items.width
        return {"paloma": __version__, "items": n, "features": d, "seq": self.seq, "published": self._served.published,
                "text": f"paloma {__version__}, {n:,} items of {d:,} features"}  # fmt: skip

    def counters(self) -> str:
        """Prometheus's text format."""
        table = self._served.table
        counts = self._counts | ({} if table is None else {"database_searches": table.n_searches})
        lines = [f"# TYPE paloma_{name}_total counter\npaloma_{name}_total {value}" for name, value in counts.items()]
        gauges = {"seq": self.seq, "acknowledged": self._journal.last, "items": len(self._served.items),
                  "kept_statements": self._served.n_statements, "failed_snapshots": self._snapshots.failed,
                  "up_seconds": round(time.time() - self._since, 1)}  # fmt: skip
        lines += [f"# TYPE paloma_{name} gauge\npaloma_{name} {value}" for name, value in gauges.items()]
        return "\n".join([*lines, ""])

    def _check_said(self, seq: int) -> None:
        if seq > self._journal.last:
            raise ValueError(f"There is no statement {seq} yet; the last one is {self._journal.last}.")

    def _known(self, *ids: str) -> None:
        for id in ids:
            if not self._served.items.has(id):
                raise Unknown(f"There is no item {id[:80]!r}.")

    def _check_query(self, query: dict[str, Any]) -> None:
        self._known(*([query["item"]] if "item" in query else query.get("items", [])))
        self._served.check_vector(query.get("vector"))


def _warm_up() -> None:
    """Learn something of no matter, so that the loops are compiled, or loaded, before somebody waits for them."""
    search = FeedbackSearch(np.random.default_rng(0).normal(size=(24, 64)))
    for k in range(9):
        search.mark(k, [k + 1], [k + 2], user=("anna", None)[k % 2])
        search.metric_matrix("anna")


def _done(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


def _place(cursor: str) -> int:
    found = int(cursor, 36) if cursor else 0
    if not 0 <= found < 2**62:
        raise ValueError("That cursor was given by no answer.")
    return found


def _cursor(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


def _locked(folder: Path) -> Any:
    """The folder's lock, held until the process ends."""
    file = (folder / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        owner = file.read(40).strip() or "unknown"
        file.close()
        raise ServiceError(
            f"{folder} is served already, by process {owner}. Stop it, or serve another folder."
        ) from None
    file.seek(0)
    file.truncate()
    file.write(str(os.getpid()))
    file.flush()
    return file
