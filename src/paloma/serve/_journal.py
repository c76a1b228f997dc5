"""The journal of a service: what was said, in order, on disk before it is acknowledged.

One SQLite file, one writer thread. Entries that wait are committed together, so that many clients share one flush of
the disk. An entry is never changed; undoing is an entry of its own. What a service knows is a function of its journal.
"""

import itertools
import json
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from ..exceptions import ServiceError

# Releases of SQLite that can lose committed data: the reset of a write-ahead log may race with a checkpoint.
_LOSING = ((3, 7, 0), (3, 51, 2))
_BATCH = 256  # entries of one commit at most
_TABLES = """
    CREATE TABLE IF NOT EXISTS entry (
        seq INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, user TEXT NOT NULL, at REAL NOT NULL,
        body TEXT NOT NULL, rows BLOB
    ) STRICT;
"""


@dataclass(frozen=True)
class New:
    """An entry that is to be: what is said, by whom; `rows` are vectors that come along, or a picture, as bytes."""

    key: str
    user: str
    body: dict[str, Any]
    rows: bytes | None = None


@dataclass(frozen=True)
class Entry:
    """One acknowledged entry: who said it, when, and what, as JSON."""

    seq: int
    key: str
    user: str
    at: float
    text: str
    rows: bytes | None = None

    @property
    def body(self) -> dict[str, Any]:
        """What was said."""
        found: dict[str, Any] = json.loads(self.text)
        return found


class Conflict(ValueError):
    """A key that was used before, for something else."""


class Unsaved(RuntimeError):
    """The disk refused an entry: it is not acknowledged, and nothing changed."""


class Journal:
    """Append-only entries with keys; `append` returns a future that is done once the entry is on disk."""

    def __init__(self, path: str | Path, *, vfs: str | None = None) -> None:
        _refuse_losing_sqlite()
        self._path, self._vfs = str(path), vfs
        self._reading = threading.Lock()
        try:
            self._reader = self._connect()
            for statement in ("PRAGMA journal_mode=WAL", _TABLES):
                self._reader.execute(statement)
            self.last = _last(self._reader)
        except apsw.Error as error:
            raise ServiceError(f"{path} cannot be opened as a journal: {error}.") from None
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="paloma-journal", daemon=True)
        self._writer.start()

    def append(self, *entries: New) -> "Future[list[Entry]]":
        """Queue entries, which share a commit. The future holds them as first acknowledged.

        It raises Unsaved if none of them is on disk, and Conflict if one is not, because of its key.
        """
        rows = [(each.key, each.user, json.dumps(each.body, sort_keys=True, allow_nan=False), each.rows)
                for each in entries]  # fmt: skip
        waiting = _Waiting(rows, Future())
        self._waiting.put(waiting)
        return waiting.done

    def after(self, seq: int, *, limit: int = -1) -> Iterator[Entry]:
        """Acknowledged entries of higher numbers, in order; what a picture's brought is left out (`rows`)."""
        with self._reading:
            found = self._reader.execute(
                "SELECT seq, key, user, at, body, CASE WHEN rows IS NOT NULL AND json_extract(body, '$.kind') = 'add' "
                "THEN rows END FROM entry WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit)
            ).fetchall()  # fmt: skip
        return itertools.starmap(Entry, found)

    def rows(self, seq: int) -> bytes:
        """What came along with an acknowledged entry."""
        with self._reading:
            found: bytes = self._reader.execute("SELECT rows FROM entry WHERE seq = ?", (seq,)).get
        return found

    def find(self, key: str) -> int | None:
        """Number of the acknowledged entry that has this key, if there is one."""
        with self._reading:
            found = self._reader.execute("SELECT seq FROM entry WHERE key = ?", (key,)).fetchone()
        return None if found is None else int(found[0])

    def before(self, seq: int, limit: int) -> list[Entry]:
        """The last acknowledged entries of lower numbers, newest first."""
        with self._reading:
            found = self._reader.execute(
                "SELECT seq, key, user, at, body, NULL FROM entry WHERE seq < ? ORDER BY seq DESC LIMIT ?", (seq, limit)
            ).fetchall()
        return list(itertools.starmap(Entry, found))

    def close(self) -> None:
        """Write what waits, then close the file."""
        self._waiting.put(None)
        self._writer.join()
        with self._reading:
            self._reader.close()

    # -- the writer thread ---------------------------------------------------------------------------------------------

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self._path, vfs=self._vfs)
        connection.set_busy_timeout(10_000)
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def _write(self) -> None:
        connection: apsw.Connection | None = None
        while (first := self._waiting.get()) is not None:
            batch, ends = [first], False
            while sum(len(each.rows) for each in batch) < _BATCH and not self._waiting.empty():
                more = self._waiting.get()
                if more is None:
                    ends = True
                    break
                batch.append(more)
            try:
                if connection is None:
                    connection = self._connect()
                    self.last = _last(connection)
                self._commit(connection, batch)
            except (apsw.Error, OSError) as error:
                _close(connection)
                connection = None
                for waiting in batch:
                    waiting.done.set_exception(Unsaved(f"The journal could not be written: {error}."))
            if ends:
                break
        _close(connection)

    def _commit(self, connection: apsw.Connection, batch: "Sequence[_Waiting]") -> None:
        """Insert a batch and commit it; futures are resolved afterwards, in order."""
        results: list[list[Entry | Conflict]] = []
        seq, now = self.last, time.time()
        connection.execute("BEGIN IMMEDIATE")
        try:
            for waiting in batch:
                results.append([])
                for key, user, body, rows in waiting.rows:
                    row = connection.execute(
                        "SELECT seq, key, user, at, body, rows FROM entry WHERE key = ?", (key,)
                    ).fetchone()
                    if row is None:
                        seq += 1
                        row = (seq, key, user, now, body, rows)
                        connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", row)
                    same = (row[2], row[4], row[5]) == (user, body, rows)
                    results[-1].append(Entry(*row) if same else _conflict(key, row[0]))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.last = seq
        for waiting, found in zip(batch, results, strict=True):
            refused = [each for each in found if isinstance(each, Conflict)]
            if refused:
                waiting.done.set_exception(refused[0])
            else:
                waiting.done.set_result([each for each in found if isinstance(each, Entry)])


@dataclass(frozen=True)
class _Waiting:
    rows: list[tuple[str, str, str, bytes | None]]
    done: "Future[list[Entry]]"


def is_empty(path: Path) -> bool:
    """Whether a file is no journal yet, or one without entries, as a start leaves it that was killed early."""
    if not path.exists():
        return True
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(10_000)
        return _last(connection) == 0
    except apsw.SQLError:  # no table
        return True
    except apsw.Error:
        return False
    finally:
        connection.close()


def _last(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM entry").get)


def _conflict(key: str, seq: int) -> Conflict:
    return Conflict(f"The key {key!r} was used before, for another statement (number {seq}). Use a fresh key.")


def _close(connection: apsw.Connection | None) -> None:
    if connection is not None:
        connection.close()


def _refuse_losing_sqlite() -> None:
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if _LOSING[0] <= version[:3] <= _LOSING[1]:
        raise ServiceError(
            f"SQLite {apsw.sqlite_lib_version()} can lose committed data (releases 3.7.0 to 3.51.2). "
            "Install a newer apsw: pip install -U apsw."
        )
