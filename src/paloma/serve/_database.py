"""Candidates from PostgreSQL: items under the metric that all users share, in a table that anybody may read.

A thread of its own writes the table when what was learned has changed. Searches take candidates from it and are ranked
under the newest metric; as long as the database does not answer they begin in memory, as without it.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._typing import Array
from ..feedback import FeedbackSearch
from ..neighbors import Superseded, VectorTable

# Candidates: so many for each result, and at least; at most; and of those that a filter leaves, for each result.
CANDIDATES, LEAST, MOST, ENOUGH = 10, 200, 10_000, 5
_MORE = 4  # times as many if a filter leaves too few
_REST = 9.0  # times what writing took that nothing is written: a tenth of a core at most
_FIRST, _LAST = 0.5, 30.0  # seconds from one attempt to the next if the database does not answer
_CHUNK = 4096  # rows that are mapped at a time
_log = logging.getLogger("paloma.serve")


@dataclass(frozen=True)
class Database:
    """Where candidates come from: `address` as libpq takes it; `table` a name or `schema.name`; `graph` for HNSW.

    Examples
    --------
    >>> Database("postgresql://me:secret@host/shop")
    Database(table='paloma_search', graph=False)
    """

    address: str = field(repr=False)
    table: str = "paloma_search"
    graph: bool = False

    def opened(self, owner: str) -> VectorTable:
        """The table of an owner; that of somebody else is refused, if the database answers yet."""
        schema, dot, name = self.table.rpartition(".")
        table = VectorTable(self.address, (schema, name) if dot else name, owner, graph=self.graph)
        with suppress(ConnectionError):
            table.check()
        return table


@dataclass(frozen=True, eq=False)
class Written:
    """What the table holds: `n_rows` items that ever came, less those that are gone, mapped by `root` around `center`.

    of : what it was made of; while this is the same, the table is up to date.
    """

    of: tuple[Any, ...]
    publication: int
    n_rows: int
    n_items: int
    center: Array
    root: Array

    def mapped(self, row: Array) -> Array:
        """A query as the table's vectors are."""
        with np.errstate(over="ignore"):
            return np.asarray((row - self.center) @ self.root, np.float32)


class SearchTable:
    """The table of a service, kept up to date; `written` is None as long as it cannot be searched.

    findable : gives the search, and the numbers of its items that are gone.
    """

    def __init__(self, table: VectorTable, findable: Callable[[], tuple[FeedbackSearch | None, Array]]) -> None:
        self._table, self._findable = table, findable
        self.written: Written | None = None
        self.n_searches = 0
        self._problem, self._pause = "", _FIRST
        self._writing, self._lock = False, threading.Lock()
        self._told, self._ending = threading.Event(), threading.Event()
        self._told.set()
        self._writer = threading.Thread(target=self._keep, name="paloma-table", daemon=True)
        self._writer.start()

    def changed(self) -> None:
        """Something was learned, or items came or went."""
        self._told.set()

    def close(self) -> None:
        """Stop writing; the table stays as it is."""
        self._ending.set()
        self._told.set()
        self._writer.join()
        self._table.close()

    # -- searching -----------------------------------------------------------------------------------------------------

    def near(self, written: Written, row: Array, k: int, keep: Callable[[str], bool]) -> list[str] | None:
        """Ids of candidates that are to be kept for the k nearest; None: the table cannot tell."""
        vector, n = written.mapped(row), max(CANDIDATES * k, LEAST)
        most = min(self._table.most or MOST, MOST)
        try:
            while n <= most and np.isfinite(vector).all():
                found = self._found(written, vector, min(n, written.n_items))
                kept = [id for id in found if keep(id)]
                if len(kept) >= ENOUGH * k or len(found) == written.n_items:
                    self.n_searches += 1
                    return kept
                n *= _MORE
        except (ConnectionError, Superseded) as error:
            self._lost(written, error)
        return None

    def _found(self, written: Written, vector: Array, n: int) -> list[str]:
        found = self._table.near(vector, n, written.publication)
        if len(found) < n and self._table.most is None:
            raise Superseded("Somebody else removed items from the table.")
        return found

    def _lost(self, written: Written, error: Exception) -> None:
        """Search in memory until the table is written again, unless that is just being done."""
        with self._lock:
            if self.written is not written or (self._writing and isinstance(error, Superseded)):
                return
            self.written = None
        self._say(str(error))
        self._told.set()

    # -- the writer's thread -------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        while not self._ending.is_set():
            self._told.wait()
            self._told.clear()
            if not self._ending.is_set():
                self._ending.wait(self._follow())

    def _follow(self) -> float:
        """Write the table unless it is up to date; seconds until it is looked at again."""
        begun = time.monotonic()
        try:
            self._write()
        except Exception as error:  # whatever it is, searches go on in memory
            known = isinstance(error, ConnectionError | ValueError)
            self._say(str(error) if known else type(error).__name__)
            self._told.set()
            pause, self._pause = self._pause, min(2.0 * self._pause, _LAST)
            return pause
        self._pause = _FIRST
        return _REST * (time.monotonic() - begun)

    def _write(self) -> None:
        search, gone = self._findable()
        if search is None:
            return
        of = (search, search.state, len(gone))
        if self.written is not None and self.written.of == of:
            return
        center, root = search.X.mean(axis=0, dtype=np.float64), _root(search.metric_matrix())
        kept, ids = np.setdiff1d(np.arange(len(search)), gone), search.ids
        if not len(kept):
            self.written = None
            return
        rows = ((search.X[part] - center) @ root for part in np.split(kept, range(_CHUNK, len(kept), _CHUNK)))
        vectors = np.concatenate([each.astype(np.float32) for each in rows])
        self._writing = True
        try:
            publication = self._table.write([str(ids[place]) for place in kept], vectors)
            with self._lock:
                self.written = Written(of, publication, len(search), len(kept), center, root)
        finally:
            self._writing = False
        self._say("")

    def _say(self, problem: str) -> None:
        """Log when something goes wrong, and when nothing does any more."""
        if problem and not self._problem:
            what = "not in use, and candidates come from memory" if self.written is None else "not up to date"
            _log.warning("The search table in PostgreSQL is %s: %s", what, problem)
        elif self._problem and not problem:
            _log.warning("The search table in PostgreSQL is up to date again.")
        self._problem = problem


def _root(metric: Array) -> Array:
    """The symmetric W of W W = M: plain Euclid among rows times W is the distance under M."""
    values, directions = np.linalg.eigh(metric)
    return np.asarray((directions * np.sqrt(np.maximum(values, 0.0))) @ directions.T)


def owner_in(folder: Path) -> str:
    """Who writes: a name that is drawn once and kept in the folder of a service."""
    file = folder / "owner"
    known = file.read_text(encoding="ascii") if file.exists() else ""
    if not known:
        known = secrets.token_hex(8)
        file.write_text(known, encoding="ascii")
    return known
