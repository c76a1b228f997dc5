"""Items and a `FeedbackSearch` over them: a function of the journal, entry by entry."""

import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from .._typing import Array
from ..feedback import FeedbackSearch, Statement
from ..persist import save
from . import _forms as form
from . import _pictures
from ._items import rows_from_bytes, rows_to_bytes
from ._journal import Entry

MAX_ITEMS = 2_000_000
KEPT_BEFORE = 1024  # features up to which the metric before the last statement is kept
CURVE = 200  # points of the curve of quality


class Unknown(LookupError):
    """No such item or statement."""


class Served:
    """What a service knows after so many entries. Entries are applied by one thread; answers may come from any.

    Items that are removed are found no more, but what was said about them stays learned.
    """

    def __init__(self) -> None:
        self.seq = 0
        self._told: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}
        self._rows: list[Array] = []
        self._gone: set[int] = set()
        self._search: FeedbackSearch | None = None
        self._statements: dict[int, dict[str, Any]] = {}
        self._undone: set[int] = set()
        self._users: dict[str, int] = {}
        self._before: dict[str, Array] = {}
        self._curve: list[dict[str, float]] = []
        self._lock = threading.RLock()

    # -- applying entries ----------------------------------------------------------------------------------------------

    def apply(self, entry: Entry, *, replayed: bool = False) -> None:
        """Take in the next entry; one that is replayed was answered long ago, so nobody compares with before it."""
        with self._lock:
            kind = entry.body["kind"]
            if kind == "add":
                self._add(entry)
            elif kind == "remove":
                self._gone |= {self._places[id] for id in entry.body["ids"] if id in self._places}
            elif kind == "undo":
                self._undo(entry)
            else:
                self._hear(entry, replayed)
            self.seq = entry.seq

    def _add(self, entry: Entry) -> None:
        told = entry.body["items"]
        rows = rows_from_bytes(entry.rows or b"", len(told))
        new = [k for k, item in enumerate(told) if item["id"] not in self._places]
        for k in new:
            self._places[told[k]["id"]] = len(self._told)
            self._told.append(told[k])
        self._rows.append(rows[new])
        self._search = None

    def _hear(self, entry: Entry, replayed: bool) -> None:
        """Learn a statement; one that cannot be learned (a race with another) changes nothing."""
        said = _said(entry)
        search = self._searching()
        if self.shape[1] <= KEPT_BEFORE and not replayed:
            self._before[entry.user] = search.metric_matrix(entry.user or None)
        try:
            search.tell(said)
        except ValueError:
            return
        self._statements[entry.seq] = said
        self._users[entry.user] = self._users.get(entry.user, 0) + 1
        self._note()

    def _undo(self, entry: Entry) -> None:
        gone = self._meant(entry.body)
        for seq in gone:
            self._statements.pop(seq)
            self._undone.add(seq)
        if gone:
            self._before.clear()
            search = self._searching()
            for seq in gone:
                search.undo(seq)
            self._note()

    def _meant(self, body: dict[str, Any]) -> list[int]:
        """Numbers of the statements that an undo means."""
        since, until = body.get("since", -np.inf), body.get("until", np.inf)
        return [
            seq for seq, said in self._statements.items()
            if (body.get("statement") in (None, seq)) and (body.get("of_user") in (None, said.get("user", "")))
            and since <= said["time"] < until and seq > body.get("after", 0)
        ]  # fmt: skip

    def _searching(self) -> FeedbackSearch:
        """The search over all items; new items begin it anew, and it hears again what was said."""
        if self._search is None:
            if len(self._told) < 2:
                raise ValueError("There is nothing to search yet: add at least two items.")
            search = FeedbackSearch(np.concatenate(self._rows), [item["id"] for item in self._told])
            for said in self._statements.values():
                search.tell(said)
            self._rows = [np.concatenate(self._rows)]
            self._search = search
        return self._search

    def _note(self) -> None:
        quality = self._searching().quality()
        self._curve.append({"seq": self.seq + 1, "now": quality.now, "start": quality.before})
        if len(self._curve) > 2 * CURVE:
            self._curve = self._curve[::2]

    # -- checks before an entry is written -----------------------------------------------------------------------------

    def check(self, body: dict[str, Any]) -> None:
        """Refuse a statement that could not be learned."""
        with self._lock:
            for id in _mentioned(body):
                if not self.has(id):
                    raise Unknown(f"There is no item {id[:80]!r}.")
            self.check_vector(body.get("vector"))
            Statement.from_dict(_statement(0, body, "", 0.0))

    def check_vector(self, vector: Sequence[float] | None) -> None:
        """Refuse a query of another number of features."""
        if vector is not None and len(vector) != self.shape[1]:
            raise ValueError(f"A vector has {self.shape[1]} numbers here, got {len(vector)}.")

    def rows_of(self, items: Sequence[form.Item]) -> tuple[bytes, list[dict[str, Any]]]:
        """New items as the journal keeps them; refused if one does not fit."""
        with self._lock:
            d = self.shape[1]
            seen = set[str]()
            for item in items:
                if d and len(item.vector) != d:
                    raise ValueError(f"Item {item.id[:80]!r} has {len(item.vector)} numbers, expected {d}.")
                if item.id in self._places or item.id in seen:
                    raise ValueError(f"There is an item {item.id[:80]!r} already; ids are used once.")
                seen.add(item.id)
            if len(self._told) + len(items) > MAX_ITEMS:
                raise ValueError(f"A service holds at most {MAX_ITEMS:,} items.")
        told = [item.model_dump(exclude={"vector"}, exclude_unset=True, exclude_none=True) for item in items]
        return rows_to_bytes(np.array([item.vector for item in items])), told

    # -- answers -------------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Items that can be found, and their features."""
        return len(self._told) - len(self._gone), self._rows[0].shape[1] if self._rows else 0

    def has(self, id: str) -> bool:
        """Whether an item can be found."""
        return id in self._places and self._places[id] not in self._gone

    def search(self, query: dict[str, Any], k: int, user: str, metric: str, where: dict[str, Any]) -> dict[str, Any]:
        """The k nearest items under the metric of a user: as it is now, before its last statement, or at the start."""
        with self._lock:
            search, asked, seq = self._searching(), self._asked(query), self.seq
            before = self._before.get(user) if metric == "before" else None
        ids: Sequence[Any]
        n, own = len(search), {self._places[id] for id in query.get("items", [])}
        wanted = k + len(self._gone) + len(own)
        while True:
            count = min(wanted, n - isinstance(asked, str))
            if before is None:
                distances, ids = search.search(asked, count, user=user or None, feedback=metric != "start")
            else:
                distances, ids = self._under(before, asked, count)
            found = [(value, id) for value, id in zip(distances, ids, strict=True) if self._fits(str(id), where, own)]
            if len(found) >= k or count >= n - isinstance(asked, str):
                break
            wanted = 4 * count
        results = [{**self.item(str(id)), "score": float(value)} for value, id in found[:k]]
        return {"seq": seq, "results": results}

    def _under(self, metric: Array, asked: Any, count: int) -> tuple[Array, list[str]]:
        """Nearest items under a metric that was kept."""
        X = self._rows[0]
        row = X[self._places[asked]] if isinstance(asked, str) else np.asarray(asked, np.float64)
        differences = X - row
        values = ((differences @ metric) * differences).sum(axis=1)
        if isinstance(asked, str):
            values[self._places[asked]] = np.inf
        order = np.argsort(values, kind="stable")[:count]
        return np.sqrt(np.maximum(values[order], 0.0)), [self._told[place]["id"] for place in order]

    def _asked(self, query: dict[str, Any]) -> Any:
        """A query as `FeedbackSearch` takes it: an item, or a row; several items are their mean."""
        if "item" in query:
            return query["item"]
        if "items" in query:
            return np.mean([self._row(id) for id in query["items"]], axis=0).tolist()
        return query["vector"]

    def _row(self, id: str) -> Array:
        place = self._places[id]
        return np.asarray(self._rows[0][place])

    def _fits(self, id: str, where: dict[str, Any], own: set[int]) -> bool:
        place = self._places[id]
        told = self._told[place]
        values = {"label": told.get("label"), **told.get("payload", {})}
        return place not in self._gone and place not in own and all(values.get(k) == v for k, v in where.items())

    def explain(self, query: dict[str, Any], other: str, user: str, most: int) -> dict[str, Any]:
        """Shares of features in the squared distance of a query and an item."""
        with self._lock:
            found = self._searching().explain(self._asked(query), other, user=user or None)
            seq = self.seq
        order = np.argsort(-np.abs(found.features), kind="stable")[:most]
        parts = [{"name": f"feature {k + 1}", "now": float(found.features[k]), "start": float(found.features_before[k])}
                 for k in order]  # fmt: skip
        return {"seq": seq, "now": found.now, "start": found.before, "parts": parts}

    def suggest(self, n: int, user: str) -> dict[str, Any]:
        """A query, and the results whose marks teach most."""
        with self._lock:
            search = self._searching()
            asked = search.suggest(1, k=min(n + len(self._gone), len(search) - 1), user=user or None)
            seq = self.seq
        asked = [each for each in asked if self.has(str(each.query))]
        if not asked:
            return {"seq": seq, "items": []}
        items = [self.item(str(id)) for id in asked[0].show if self.has(str(id))]
        return {"seq": seq, "query": self.item(str(asked[0].query)), "items": items[:n]}

    def quality(self) -> dict[str, Any]:
        """The progressive curve in words and numbers."""
        with self._lock:
            found = self._searching().quality()
            return {"seq": self.seq, "text": str(found), "strength": found.strength, "judged": found.n_judged,
                    "distrusted": list(found.distrusted), "curve": list(self._curve)}  # fmt: skip

    def users(self) -> list[str]:
        """Who said something."""
        with self._lock:
            return sorted(self._users)

    def item(self, id: str) -> dict[str, Any]:
        """An item as clients see it."""
        told = self._told[self._places[id]]
        return {"id": id, "label": told.get("label"), "text": told.get("text"), "picture": "picture" in told,
                "payload": told.get("payload", {})}  # fmt: skip

    def sample(self) -> list[dict[str, Any]]:
        """One item at random."""
        rng = np.random.default_rng()
        left = [place for place in rng.integers(0, max(len(self._told), 1), 64) if place < len(self._told)]
        found = [place for place in left if place not in self._gone][:1]
        return [self.item(self._told[place]["id"]) for place in found]

    def page(self, place: int, limit: int) -> tuple[list[dict[str, Any]], int | None]:
        """Items from a place on, and the place after them."""
        found: list[dict[str, Any]] = []
        while place < len(self._told) and len(found) < limit:
            if place not in self._gone:
                found.append(self.item(self._told[place]["id"]))
            place += 1
        return found, place if place < len(self._told) else None

    def picture(self, id: str) -> tuple[bytes, str] | None:
        """An item's picture: pixels that came with it, or a file that was named when it was read."""
        named = self._told[self._places[id]].get("picture")
        if named is None:
            return None
        kind, _, rest = named.partition(":")
        if kind == "pixels":
            pixels = bytes.fromhex(rest)
            return _pictures.png(pixels, round(len(pixels) ** 0.5)), "image/png"
        return _pictures.read(Path(rest))

    def undone(self, seq: int) -> bool:
        """Whether a statement was taken back."""
        return seq in self._undone

    def items_of(self, body: dict[str, Any]) -> list[str]:
        """Items that the statements speak of which an undo means; `Unknown` if it means none."""
        with self._lock:
            gone = self._meant(body)
            if "statement" in body and not gone:
                raise Unknown(f"There is no statement {body['statement']} to take back.")
            return sorted({str(id) for seq in gone for id in _items_said(self._statements[seq])})

    def text_of(self, entry: Entry) -> str:
        """An entry in words."""
        body = entry.body
        if body["kind"] == "undo":
            what = {"statement": "statement {}", "of_user": "everything of {}", "after": "everything after {}"}
            said = [text.format(body[name]) for name, text in what.items() if name in body]
            return "took back " + (", ".join(said) or "a span of time")
        counts = {"relevant": "right", "irrelevant": "wrong"}
        parts = [f"{len(body[name])} {word}" for name, word in counts.items() if body.get(name)]
        if body["kind"] == "compare":
            parts = [f"{body['nearer']} nearer than {body['farther']}"]
        if body["kind"] in ("together", "label"):
            parts = [f"{len(body['items'])} items {'belong together' if body['kind'] == 'together' else 'labeled'}"]
            return parts[0]
        query = body.get("item") or ("a vector" if "vector" in body else f"{len(body.get('items', []))} items")
        return f"{' and '.join(parts)} for {query}"

    def model_file(self) -> bytes:
        """The search with everything it was told, as a model file."""
        with self._lock, TemporaryDirectory() as folder:
            path = Path(folder) / "model.paloma"
            save(self._searching(), path)
            return path.read_bytes()


def _mentioned(body: dict[str, Any]) -> list[str]:
    single = [body[name] for name in ("item", "nearer", "farther") if name in body]
    return [*single, *(id for name in ("items", "relevant", "irrelevant") for id in body.get(name, []))]


def _items_said(said: dict[str, Any]) -> list[Any]:
    sets = [id for each in said.get("sets", ()) for id in each]
    return [*said.get("relevant", ()), *said.get("irrelevant", ()), *sets]


def _said(entry: Entry) -> dict[str, Any]:
    return _statement(entry.seq, entry.body, entry.user, entry.at)


def _statement(seq: int, body: dict[str, Any], user: str, at: float) -> dict[str, Any]:
    """A statement of the service in the terms of `paloma.feedback`."""
    said: dict[str, Any] = {"id": seq, "time": at} | ({"user": user} if user else {})
    if body["kind"] == "together":
        return {**said, "sets": [body.get("items", [])]}
    if body["kind"] == "label":
        labels = body.get("labels", [])
        if len(labels) != len(body.get("items", [])):
            raise ValueError("label needs items, and labels: one for each of them.")
        return {**said, "sets": [[id for id, own in zip(body["items"], labels, strict=True) if own == each]
                                 for each in sorted(set(labels))]}  # fmt: skip
    query = body["item"] if "item" in body else body.get("vector")
    if body["kind"] == "compare":
        if "nearer" not in body or "farther" not in body:
            raise ValueError("compare needs nearer and farther.")
        return {**said, "query": query, "relevant": [body["nearer"]], "irrelevant": [body["farther"]]}
    return {**said, "query": query, "relevant": body.get("relevant", []), "irrelevant": body.get("irrelevant", [])}
