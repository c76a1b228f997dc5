"""The items of a service: their rows, what people see of them, and which of them are gone."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from sys import intern
from typing import Any

import numpy as np

from .._typing import Array
from . import _pictures
from ._items import rows_from_bytes


class Catalog:
    """Items in the order in which they came. One that is removed keeps its place, and is found no more."""

    def __init__(self) -> None:
        self._told: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}
        self._blocks: list[Array] = []
        self._gone: set[int] = set()
        self._features: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self._told) - len(self._gone)

    @property
    def n_rows(self) -> int:
        """Items that ever came."""
        return len(self._told)

    @property
    def n_gone(self) -> int:
        """Items that were removed."""
        return len(self._gone)

    @property
    def width(self) -> int:
        """Features of an item; 0 as long as there is none."""
        return self._blocks[0].shape[1] if self._blocks else 0

    @property
    def ids(self) -> list[str]:
        """Ids of all items that ever came."""
        return [told["id"] for told in self._told]

    @property
    def gone(self) -> Array:
        """Numbers of the items that were removed."""
        return np.array(sorted(self._gone), np.intp)

    def between(self, start: int, stop: int) -> list[str]:
        """Ids of the items numbered start to stop - 1, in the order in which they came."""
        return [told["id"] for told in self._told[start:stop]]

    def feature(self, k: int) -> str:
        """The name of a feature, or its number."""
        return self._features[k] if k < len(self._features) else f"feature {k + 1}"

    def add(self, told: list[dict[str, Any]], data: bytes, features: Sequence[str] = ()) -> None:
        """Take in items of an entry; those of an id that is taken, or of another width, lost a race and stay out."""
        rows = rows_from_bytes(data, len(told))
        if self.width not in (0, rows.shape[1]):
            return
        new = []
        for k, item in enumerate(told):
            if item["id"] not in self._places:
                item["id"] = intern(item["id"])
                self._places[item["id"]] = len(self._told)
                self._told.append(item)
                new.append(k)
        self._blocks.append(rows[new])
        self._features = self._features or features

    def remove(self, ids: Iterable[str]) -> None:
        """Items that are to be found no more."""
        self._gone |= {self._places[id] for id in ids if id in self._places}

    def rows(self) -> Array:
        """(n, d) rows of all items that ever came; for the thread that adds them."""
        if len(self._blocks) != 1:
            self._blocks = [np.concatenate(self._blocks)]
        return self._blocks[0]

    def share(self, rows: Array) -> None:
        """Hold the same rows in somebody else's memory."""
        self._blocks = [rows]

    def known(self, id: str) -> bool:
        """Whether an item of this id ever came."""
        return id in self._places

    def has(self, id: str) -> bool:
        """Whether an item can be found."""
        return id in self._places and self._places[id] not in self._gone

    def row(self, id: str) -> Array:
        """An item's vector. Any thread may ask: blocks stay as they are."""
        place = self._places[id]
        for block in self._blocks:
            if place < len(block):
                return np.asarray(block[place])
            place -= len(block)
        raise LookupError(id)

    def fits(self, id: str, where: dict[str, Any]) -> bool:
        """Whether an item can be found and has these values in its payload; `label` is one of them."""
        told = self._told[self._places[id]]
        values = {"label": told.get("label"), **told.get("payload", {})}
        return self.has(id) and all(name in values and _same(values[name], value) for name, value in where.items())

    def item(self, id: str) -> dict[str, Any]:
        """An item as clients see it."""
        told = self._told[self._places[id]]
        return {"id": id, "label": told.get("label"), "text": told.get("text"), "picture": "picture" in told,
                "payload": told.get("payload", {})}  # fmt: skip

    def page(self, place: int, limit: int, words: str = "") -> tuple[list[dict[str, Any]], int | None]:
        """Items from a place on whose id, label, text or payload has all words, and the place after them."""
        found: list[dict[str, Any]] = []
        wanted = words.lower().split()
        while place < len(self._told) and len(found) < limit:
            told = self._told[place]
            text = _text(told) if wanted else ""
            if place not in self._gone and all(word in text for word in wanted):
                found.append(self.item(told["id"]))
            place += 1
        return found, place if place < len(self._told) else None

    def sample(self) -> list[dict[str, Any]]:
        """One item at random, if there is any."""
        if not len(self):
            return []
        rng = np.random.default_rng()
        while (place := int(rng.integers(len(self._told)))) in self._gone:
            pass
        return [self.item(self._told[place]["id"])]

    def show(self, id: str, seq: int) -> None:
        """Let an item have the picture that an entry brought."""
        if id in self._places:
            self._told[self._places[id]]["picture"] = f"entry:{seq}"

    def picture(self, id: str, brought: Callable[[int], bytes]) -> tuple[bytes, str] | None:
        """An item's picture: pixels that came with it, a file that was named, or what an entry `brought`."""
        named = self._told[self._places[id]].get("picture")
        if named is None:
            return None
        kind, _, rest = named.partition(":")
        if kind == "pixels":
            pixels = bytes.fromhex(rest)
            return _pictures.png(pixels, round(len(pixels) ** 0.5)), "image/png"
        if kind == "entry":
            data = brought(int(rest))
            return data, _pictures.kind_of(data) or "application/octet-stream"
        return _pictures.read(Path(rest))


def _same(one: Any, other: Any) -> bool:
    """Whether two values of a payload are the same: true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _text(told: dict[str, Any]) -> str:
    """What people may look for, in lower case."""
    words = (told["id"], told.get("label"), told.get("text"), *told.get("payload", {}).values())
    return " ".join(str(word) for word in words if word is not None).lower()
