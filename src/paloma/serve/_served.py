"""What a service knows: items, the log of what was said, and a `FeedbackSearch` over both.

The search is a function of items and log alone, to the bit, whatever came and went on the way: entries are noted first,
which is quick, and then the search follows what was noted, from the state of a snapshot on if there is one.
"""

import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from .._typing import Array
from ..feedback import FeedbackSearch, FeedbackState, Statement
from ..persist import save
from . import _forms as form
from . import _said
from ._catalog import Catalog
from ._database import SearchTable, Written
from ._items import rows_to_bytes
from ._journal import Entry

MAX_ITEMS = 2_000_000
_MATRICES = 8  # metrics of earlier moments that are kept
_POINTS = 200  # of the curve of quality
_NEW = 1000  # items at most that came after the table was written and are ranked beside its candidates
_QUESTIONS = (30, 1000)  # suggested ones, the best of which is asked that is about an item that is not gone


class Unknown(LookupError):
    """No such item or statement."""


class Served:
    """Entries are noted and learned by one thread; answers may come from any, and never wait for learning."""

    def __init__(self) -> None:
        self.seq = 0
        self.items = Catalog()
        self.table: SearchTable | None = None  # where candidates come from if not from memory
        self._pending: dict[int, Statement] = {}  # those that the search has not heard
        self._heard = array("q")  # those that it has, in order
        self._digest = sha256(), 0  # of the numbers of the first so many of them
        self._undone: set[int] = set()
        self._taken: dict[int, list[str]] = {}  # what each undo's statements speak of
        self._users: set[str] = set()
        self._search: FeedbackSearch | None = None
        self._noted = 0
        self._lost: list[int] = []
        self._lock = threading.RLock()
        self.published = 0  # the model of this entry is
        self._matrices: dict[Any, Array] = {}
        self._past = threading.Lock()  # what was is not read while it changes

    # -- entries -------------------------------------------------------------------------------------------------------

    def note(self, entries: Sequence[Entry]) -> None:
        """Write down what entries say; `learn` makes the search follow."""
        with self._lock:
            for entry in entries:
                body = entry.body
                if body["kind"] == "add":
                    self.items.add(body["items"], entry.rows or b"", body.get("features", ()))
                elif body["kind"] == "picture":
                    self.items.show(body["id"], entry.seq)
                elif body["kind"] == "remove":
                    self.items.remove(body["ids"])
                elif body["kind"] == "undo":
                    gone = self._meant(body)
                    self._taken[entry.seq] = _items_of(gone)
                    for said in gone:
                        seq = int(said.id)
                        self._undone.add(seq)
                        if self._pending.pop(seq, None) is None:
                            self._lost.append(seq)
                elif body["kind"] == "publish":
                    self.published = body.get("after", entry.seq)
                else:
                    self._pending[entry.seq] = _said.statement(entry.seq, body, entry.user, entry.at)
                    self._users.add(entry.user)
                self._noted = entry.seq

    def learn(self, state: FeedbackState | None = None) -> int:
        """Make the search that of the items and the log; how many statements were heard for that.

        state : what the first statements of the log led to before, with the same items.
        """
        with self._lock:
            search, noted, new, lost = self._search, self._noted, list(self._pending.values()), self._lost
            self._lost = []
            fresh = self.items.n_rows > 1 and (search is None or len(search) < self.items.n_rows)
            log = self._all() if fresh else []
            if fresh:
                search = FeedbackSearch(self.items.rows(), self.items.ids)
        heard = len(log) - (state.n if state else 0)
        if search is not None and fresh:
            search.resume(log, state)
            with self._past:
                self._heard, self._digest = array("q", (int(said.id) for said in log)), (sha256(), 0)
                self._matrices.clear()
        elif search is not None:
            if lost:
                heard = len(self._heard)
                with self._past:
                    search.undo(lost)
                    self._heard, self._digest = array("q", map(int, search.said)), (sha256(), 0)
                    self._matrices.clear()
            told = search.tell_all(new, prepare=False)
            self._heard.extend(map(int, told))
            heard += len(told)
        with self._lock:
            if search is not None and fresh:
                self.items.share(search.X)
            if search is not None:
                for said in new:
                    self._pending.pop(int(said.id), None)
            self._search, self.seq = search, noted
        return heard

    def prepare(self) -> None:
        """Let searches begin from what was learned last; any thread may, and none has to wait for it."""
        if self._search is not None:
            self._search.prepare()

    def findable(self) -> tuple[FeedbackSearch | None, Array]:
        """The search, and the numbers of its items that are gone."""
        with self._lock:
            return self._search, self.items.gone

    def _all(self) -> list[Statement]:
        """What was said and not taken back."""
        heard = [] if self._search is None else self._search.log
        return [*(said for said in heard if int(said.id) not in self._undone), *self._pending.values()]

    def _meant(self, body: dict[str, Any]) -> list[Statement]:
        """The statements that an undo means."""
        if "statement" in body:
            seq = body["statement"]
            found = self._pending.get(seq)
            if found is None and self._search is not None and seq not in self._undone:
                found = self._search.statement(seq)
            return [] if found is None else [found]
        since, until = body.get("since", -np.inf), body.get("until", np.inf)
        return [
            said for said in self._all()
            if int(said.id) > body.get("after", 0) and since <= (said.time or 0.0) < until
            and body.get("of_user") in (None, said.user or "")
        ]  # fmt: skip

    @property
    def learned(self) -> tuple[int, str, FeedbackState] | None:
        """Number of items, the digest of the numbers of the statements of all full pages, and the state they led to.

        Only what came since the last time is read for that.
        """
        search = self._search
        if search is None or search.state.n == 0:
            return None
        state, (digest, n) = search.state, self._digest
        digest.update(self._heard[n : state.n])
        self._digest = digest, state.n
        return len(search), digest.hexdigest(), state

    def follows(self, n_items: int, n: int, told: str) -> bool:
        """Whether the log begins with n statements, about so many items, whose numbers have this digest."""
        numbers = array("q", (int(said.id) for said in self._all()[:n]))
        return self.items.n_rows == n_items and len(numbers) == n and sha256(numbers).hexdigest() == told

    # -- checks before an entry is written -----------------------------------------------------------------------------

    def sound(self, body: dict[str, Any], user: str, *, again: bool = False) -> dict[str, Any]:
        """A statement as the journal keeps it; refused if it could not be learned. Items as a query are their mean.

        again : it was said before, so that its items may be gone by now.
        """
        for id in _said.mentioned(body):
            if not (self.items.known(id) if again else self.items.has(id)):
                raise Unknown(f"There is no item {id[:80]!r}.")
        self.check_vector(body.get("vector"))
        if body["kind"] in ("mark", "compare") and "items" in body and "vector" not in body:
            body = {**body, "vector": self.mean(body["items"])}
            del body["items"]
        _said.statement(0, body, user, 0.0)
        return body

    def check_vector(self, vector: Sequence[float] | None) -> None:
        """Refuse a query of another number of features."""
        if vector is not None and len(vector) != self.items.width:
            raise ValueError(f"A vector has {self.items.width} numbers here, got {len(vector)}.")

    def check_new(self, items: Sequence[form.Item], coming: Collection[str]) -> None:
        """Refuse items of ids that are taken, or that are `coming` already."""
        seen = set(coming)
        for item in items:
            if self.items.known(item.id) or item.id in seen:
                raise ValueError(f"There is an item {item.id[:80]!r} already; ids are used once.")
            seen.add(item.id)
        if self.items.n_rows + len(seen) > MAX_ITEMS:
            raise ValueError(f"A service holds at most {MAX_ITEMS:,} items.")

    def rows_of(self, items: Sequence[form.Item]) -> tuple[bytes, list[dict[str, Any]]]:
        """Items as the journal keeps them; refused if one has another number of features."""
        d = self.items.width or len(items[0].vector)
        for item in items:
            if len(item.vector) != d:
                raise ValueError(f"Item {item.id[:80]!r} has {len(item.vector)} numbers, expected {d}.")
        told = [item.model_dump(exclude={"vector"}, exclude_unset=True, exclude_none=True) for item in items]
        return rows_to_bytes(np.array([item.vector for item in items])), told

    # -- answers -------------------------------------------------------------------------------------------------------

    def search(self, query: dict[str, Any], k: int, user: str, metric: str, where: dict[str, Any]) -> dict[str, Any]:
        """The k nearest items under a metric of a user (see `form.Search`)."""
        written = self.table.written if self.table is not None and metric != "start" else None
        seq, search = self.seq, self._searching()  # after the table: the search knows all of its items
        asked = self._asked(query)
        matrix = self._earlier(search, user, metric) if metric in ("before", "published") else None
        own = set(query.get("items", []))

        def fits(id: str) -> bool:
            return id not in own and self.items.fits(id, where)

        def nearest(n: int, **given: Any) -> list[tuple[float, str]]:
            found = search.search(asked, n, user=user or None, feedback=metric != "start", metric=matrix, **given)
            return [(float(value), str(id)) for value, id in zip(*found, strict=True) if fits(str(id))]

        among = None if written is None else self._among(written, query, k, fits, len(search))
        if among is None:
            most = len(search) - isinstance(asked, str)
            count = min(k + self.items.n_gone + len(own), most)
            while len(found := nearest(count)) < k and count < most:
                count = min(4 * count, most)
        else:
            found = nearest(min(k, len(among)), among=among) if among else []
        return {"seq": seq, "results": [{**self.items.item(id), "score": value} for value, id in found[:k]]}

    def _among(
        self, written: Written, query: dict[str, Any], k: int, fits: Callable[[str], bool], n_rows: int
    ) -> list[str] | None:
        """Items that are ranked: candidates of the table, and what came since it was written; None: all of them.

        n_rows : items that the search knows.
        """
        new, asked = self.items.between(written.n_rows, n_rows), query.get("item")
        row = self.items.row(asked) if asked is not None else np.array(self._asked(query))

        def other(id: str) -> bool:
            return id != asked and fits(id)

        if self.table is None or len(new) > _NEW or (found := self.table.near(written, row, k, other)) is None:
            return None
        return [*found, *filter(other, new)]

    def _searching(self) -> FeedbackSearch:
        if self._search is None:
            raise ValueError("There is nothing to search yet: add at least two items.")
        return self._search

    def _asked(self, query: dict[str, Any]) -> Any:
        """A query as `FeedbackSearch` takes it: an item, or a row; several items are their mean."""
        if "items" in query:
            return self.mean(query["items"])
        return query.get("item", query.get("vector"))

    def mean(self, ids: Sequence[str]) -> list[float]:
        """What several items have in common: the mean of their vectors."""
        found: list[float] = np.mean([self.items.row(id) for id in ids], axis=0).tolist()
        return found

    def _earlier(self, search: FeedbackSearch, user: str, metric: str) -> Array:
        """The metric of a user as it was before his last statement and everything after it, or as it is published.

        What was taken back since is taken back from both.
        """
        who = user if user and user in self._users else None
        with self._past:
            n = search.n_before(who) if metric == "before" else bisect_right(self._heard, self.published)
            key = search, who, n
            if key not in self._matrices:
                while len(self._matrices) >= _MATRICES:
                    del self._matrices[next(iter(self._matrices))]
                self._matrices[key] = search.metric_matrix(who, after=min(n, len(search.said)))
            return self._matrices[key]

    def explain(self, query: dict[str, Any], other: str, user: str, most: int) -> dict[str, Any]:
        """Shares of features in the squared distance of a query and an item."""
        seq, found = self.seq, self._searching().explain(self._asked(query), other, user=user or None)
        order = np.argsort(-np.abs(found.features), kind="stable")[:most]
        now, start = found.features.tolist(), found.features_before.tolist()
        parts = [{"name": self.items.feature(k), "now": now[k], "start": start[k]} for k in order]
        return {"seq": seq, "now": found.now, "start": found.before, "parts": parts}

    def suggest(self, n: int, user: str) -> dict[str, Any]:
        """A query, and the results whose marks teach most."""
        seq, search = self.seq, self._searching()
        most, asked = min(n + self.items.n_gone, len(search) - 1), list[Any]()
        for n_asked in _QUESTIONS if self.items.n_gone else (1,):
            found = search.suggest(n_asked, k=most, user=user or None)
            asked = [each for each in found if self.items.has(str(each.query))]
            if asked:
                break
        if not asked:
            return {"seq": seq, "items": []}
        items = [self.items.item(str(id)) for id in asked[0].show if self.items.has(str(id))]
        return {"seq": seq, "query": self.items.item(str(asked[0].query)), "items": items[:n]}

    def quality(self) -> dict[str, Any]:
        """The progressive curve in words and numbers."""
        seq, search = self.seq, self._searching()
        found = search.quality()
        curve = [{"judged": int(n), "start": start, "now": now} for n, start, now in search.curve(_POINTS).tolist()]
        return {"seq": seq, "text": str(found), "statements": found.n_statements, "judged": found.n_judged,
                "now": found.now, "start": found.before, "strength": found.strength,
                "distrusted": list(found.distrusted), "curve": curve}  # fmt: skip

    @property
    def n_statements(self) -> int:
        """Statements that were not taken back."""
        with self._lock:
            return len(self._pending) + len(self._heard) - len(self._lost)

    def users(self) -> list[str]:
        """Who said something."""
        with self._lock:
            return sorted(self._users)

    def undone(self, seq: int) -> bool:
        """Whether a statement was taken back."""
        return seq in self._undone

    def items_of(self, body: dict[str, Any]) -> list[str]:
        """Items that the statements speak of which an undo means; `Unknown` if it means none."""
        with self._lock:
            gone = self._meant(body)
            if "statement" in body and not gone:
                raise Unknown(f"There is no statement {body['statement']} to take back.")
            return _items_of(gone)

    def taken(self, seq: int) -> list[str]:
        """Items that the statements speak of which an entry took back."""
        return self._taken.get(seq, [])

    def model_file(self) -> bytes:
        """The search with everything it was told, as a model file."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.paloma"
            save(self._searching(), path)
            return path.read_bytes()


def _items_of(statements: Sequence[Statement]) -> list[str]:
    return sorted({str(id) for said in statements for id in said.items})
