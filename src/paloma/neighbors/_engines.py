"""How the items of a view are searched: the protocol, and the exhaustive engines that need no other library.

An engine never changes: adding and removing make a new one, so that a search under way keeps what it began with.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp

from .._search.items import LocalItems
from .._search.tiles import SPARE, Items, nearest
from .._typing import Array
from ._view import PAIRS, View, extent


class Engine(Protocol):
    """Finds items of a view; `settings` are those of the backend."""

    @classmethod
    def build(cls, view: View, settings: Any) -> Self:
        """All items of a view."""

    @classmethod
    def restored(cls, view: View, settings: Any, memo: dict[str, Any]) -> Self:
        """As `build`, but what outlives this process is taken as it was left."""

    def memo(self) -> dict[str, Any]:
        """Plain data that `restored` needs."""

    def clear(self) -> None:
        """Take away what outlives this process: no items are left."""

    def revised(self, view: View, kept: Array) -> Self:
        """The items of a revised view: those numbered `kept` here, in this order, and then new ones."""

    def search(self, Q: Any, k: int) -> tuple[Array, Array]:
        """Direct values, ascending, and numbers of the k nearest items."""

    def candidates(self, Q: Any, n: int, least: int) -> Array:
        """Numbers of about n near items, at least `least`, in no particular order; -1 where there are fewer."""


@dataclass(frozen=True)
class NoSettings:
    """A backend without settings."""


class InMemory:
    """Engines that hold everything in this process."""

    @classmethod
    def restored(cls, view: View, settings: Any, memo: dict[str, Any]) -> Self:
        return cls.build(view, settings)  # type: ignore[attr-defined]

    def memo(self) -> dict[str, Any]:
        return {}

    def clear(self) -> None:
        pass


class Tiles(InMemory):
    """Exact, by tiles of one matrix product: `paloma._search`, or for soft classes `Vectors` or `Sums`."""

    def __init__(self, view: View, items: Any) -> None:
        self.view, self._items = view, items

    @classmethod
    def build(cls, view: View, settings: Any = None) -> Self:
        if view.hard:
            return cls(view, view.reader.items(view.shelf.X, view.codes))
        return cls(view, Vectors(view, view.item_vectors()) if view.reader.is_explicit else Sums(view))

    def revised(self, view: View, kept: Array) -> "Tiles":
        if view.hard and isinstance(self._items, LocalItems):
            return Tiles(view, self._items.revised(view.shelf.X, view.codes, kept))
        if not view.hard and isinstance(self._items, Vectors):
            return Tiles(view, self._items.revised(view, kept))
        return Tiles.build(view)

    def search(self, Q: Any, k: int) -> tuple[Array, Array]:
        values, places = self._items.search(Q, k)
        return values, places

    def candidates(self, Q: Any, n: int, least: int) -> Array:
        return self._items.candidates(Q, n) if isinstance(self._items, LocalItems) else self.search(Q, n)[1]

    def ranking(self, Q: Any) -> Array:
        """Numbers of all items, nearest first, (n_queries, n_items)."""
        out = np.empty((Q.shape[0], len(self.view.shelf)), np.int64)
        step = max(1, PAIRS * 64 // len(self.view.shelf))
        for a in range(0, Q.shape[0], step):
            out[a : a + step] = np.argsort(self._items.all_values(Q[a : a + step]), axis=1, kind="stable")
        return out


class Vectors:
    """Items of soft classes as search vectors: one product, whatever the number of classes (theory 11)."""

    def __init__(self, view: View, vectors: Array) -> None:
        self.view, self._vectors = view, vectors
        self._extent = extent(vectors)

    def revised(self, view: View, kept: Array) -> "Vectors":
        new = [view.item_vectors(len(kept))] if len(kept) < len(view.shelf) else []
        return Vectors(view, np.concatenate([self._vectors[kept], *new]))

    def search(self, Q: Any, k: int) -> tuple[Array, Array]:
        return self.view.certified(Q, k, self._rough, self._extent, self._vectors.dtype)

    def all_values(self, Q: Any) -> Array:
        return -(self.view.query_vectors(Q) @ self._vectors.T)

    def _rough(self, queries: Array, reach: int) -> tuple[Array, Array]:
        vectors, n = self._vectors, len(self._vectors)
        zeros = np.zeros(n)
        items = Items(n, lambda part: (vectors[part],), -1.0, _no_table, zeros.astype(np.int32), zeros)
        return nearest(lambda part: queries[part], len(queries), items, reach)


class Sums:
    """Items of soft classes for metrics without search vectors: each class of an item is scored, and summed up."""

    def __init__(self, view: View) -> None:
        shares = view.shares
        owner = np.repeat(np.arange(len(view.shelf)), np.diff(shares.indptr))
        self.view, self._items = view, view.reader.items(view.shelf.X[owner], view.codes)
        self._sums = sp.csr_matrix((shares.data, np.arange(shares.nnz), shares.indptr), (len(view.shelf), shares.nnz))

    def search(self, Q: Any, k: int) -> tuple[Array, Array]:
        step = max(1, PAIRS * 16 // self._sums.shape[1])
        tiles = [Q[a : a + step] for a in range(0, Q.shape[0], step)]
        values = np.concatenate([self.all_values(rows) for rows in tiles])
        return self.view.best_of(Q, np.argsort(values, axis=1, kind="stable")[:, : k + SPARE[0]], k)

    def all_values(self, Q: Any) -> Array:
        return (self._sums @ self._items.all_values(Q).T).T


def _no_table(rows: Array) -> Array:
    return np.zeros((len(rows), 1))
