"""Items under one metric: exact values of pairs, and vectors for inner-product search (theory 11), soft classes too.

An item with shares pi of classes has the metric sum_c pi_c M_c. Values and search vectors are linear in M, so both are
weighted sums over the item's classes.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._core.locality import SHARED
from .._reading import Reader
from .._rows import squared_norms
from .._search.euclid import center_of, minus
from .._search.tiles import ITEM_TILE, best_of, certified
from .._typing import Array
from .._validation import of_kind, read_only
from ._shelf import Shelf

Rough = Callable[[Array, int], tuple[Array, Array]]
# Pairs of a row and a class that are looked at directly at a time.
PAIRS = 1 << 16


class View:
    """The items of a shelf as a learner sees them. Small values are near: squared distances, or minus similarities."""

    def __init__(self, reader: Reader, shelf: Shelf, center: Array | None = None) -> None:
        if shelf.X.shape[1] != reader.n_features:
            raise ValueError(
                f"The metric now has {reader.n_features} features, but the items of the index have {shelf.X.shape[1]}."
            )
        self.reader, self.shelf, self.center = reader, shelf, center
        self.shares, self._places, self._known = _regions(reader, shelf) if reader.regions else _classes(reader, shelf)
        self.hard = bool(self.shares.nnz == len(shelf))
        if center is None and reader.measure.is_distance:
            self.center = center_of(shelf.X)

    def revised(self, shelf: Shelf) -> "View":
        """Other items under the same metric, in the same coordinates."""
        return View(self.reader, shelf, self.center)

    def of_group(self, group: Any) -> "View":
        """The same items, all of them under the metric of a group."""
        out = copy(self)
        out._places, out._known = np.broadcast_to(0, len(self.shelf)), self.reader.codes(np.array([group]), 1, "group")
        out.hard = True
        return out

    @property
    def codes(self) -> Array:
        """The code of the class of each share."""
        return self._known[self._places]

    def queries(self, Q: Any) -> Any:
        """Rows of the items' kind, checked, in the learner's precision."""
        return of_kind(self.reader.rows(Q), sp.issparse(self.shelf.X))

    def values(self, Q: Any, places: Array) -> Array:
        """Values of the items `places`, (n_queries, m), formed directly; infinite where a place is -1."""
        items = np.maximum(places, 0)
        step = max(1, PAIRS * len(self.shelf) // (self.shares.nnz * max(1, places.shape[1])))
        tiles = [slice(a, a + step) for a in range(0, len(places), step)]
        values = np.concatenate([self._pairs(Q[part], items[part]) for part in tiles] or [np.empty(places.shape)])
        return np.where(places >= 0, self.reader.measure.near(values), np.inf)

    def _pairs(self, Q: Any, items: Array) -> Array:
        flat = items.ravel()
        owner, entry, weight = self._entries(flat)
        left, right = Q[owner // items.shape[1]], self.shelf.X[flat[owner]]
        values = self.reader.values(left, right, self._known[self._places[entry]])
        return (values if weight is None else np.bincount(owner, weight * values, len(flat))).reshape(items.shape)

    def _entries(self, items: Array) -> tuple[Array, Array, Array | None]:
        """Shares of these items, one after the other: which of `items` each belongs to, its number, its weight."""
        if self.hard:
            return np.arange(len(items)), items, None
        start, stop = (self.shares.indptr[items + end].astype(np.int64) for end in (0, 1))
        owner = np.repeat(np.arange(len(items)), stop - start)
        first = np.cumsum(stop - start) - (stop - start)
        entry = np.arange(len(owner)) + (start - first)[owner]
        return owner, entry, self.shares.data[entry]

    def item_vectors(self, first: int = 0) -> Array:
        """Search vectors of the items from number `first` on."""
        tiles = range(first, len(self.shelf), ITEM_TILE)
        return np.concatenate([self._vectors(np.arange(a, min(a + ITEM_TILE, len(self.shelf)))) for a in tiles])

    def _vectors(self, items: Array) -> Array:
        owner, entry, weight = self._entries(items)
        rows, codes = self._centered(self.shelf.X[items[owner]]), self._known[self._places[entry]]
        vectors: Any = self.reader.item_vectors(rows, codes)
        if sp.issparse(vectors):
            raise TypeError("This backend stores dense vectors, but X is sparse: use backend='exact'.")
        if weight is None:
            return vectors
        sums = sp.csr_matrix((weight.astype(vectors.dtype), (owner, np.arange(len(owner)))), (len(items), len(owner)))
        return sums @ vectors

    def query_vectors(self, Q: Any) -> Array:
        """Search vectors of queries; minus the inner product with an item's is its value."""
        rows = self._centered(Q)
        vectors: Any = self.reader.query_vectors(rows if sp.issparse(rows) else read_only(rows))
        return vectors.toarray() if sp.issparse(vectors) else vectors

    def _centered(self, rows: Any) -> Any:
        return minus(rows, self.center)

    def best_of(self, Q: Any, places: Array, k: int) -> tuple[Array, Array]:
        """The k best of these candidates by their direct values."""
        return best_of(Q, places, k, self.values)

    def certified(self, Q: Any, k: int, rough: Rough, extent: float, precision: Any) -> tuple[Array, Array]:
        """The k nearest by rough inner products of search vectors, looked at directly.

        rough : gives minus the products, and items, of (query vectors, reach).
        extent : largest norm of an item vector.  precision : the kind of number that the products were formed in.
        """
        vectors = self.query_vectors(Q)
        eps = float(np.finfo(precision).eps) * np.sqrt(vectors.shape[1])

        def attempt(part: Array, reach: int) -> tuple[Array, Array, Array]:
            asked = np.ascontiguousarray(vectors[part])
            return *rough(asked, reach), eps * extent * np.sqrt(squared_norms(asked))

        return certified(Q, k, len(self.shelf), attempt, self.values)


def extent(vectors: Array) -> float:
    """The largest norm of a search vector."""
    return float(np.sqrt(squared_norms(vectors).max()))


def _classes(reader: Reader, shelf: Shelf) -> tuple[sp.csr_matrix, Array, Array]:
    """Shares of classes of each item; for each of them the number of the class; and the codes of all classes."""
    names = shelf.labels.labels
    known = reader.codes(names, len(names), "labels") if len(names) else np.empty(0, np.int32)
    return shelf.shares, shelf.shares.indices, np.r_[SHARED, known].astype(np.int32)


def _regions(reader: Reader, shelf: Shelf) -> tuple[sp.csr_matrix, Array, Array]:
    """The same of regions: where an item lies decides, whatever its class."""
    places = reader.candidates(shelf.X, None, "items")
    if places.ndim == 2:
        shares = sp.csr_matrix(places)
        return shares, shares.indices, reader.order
    n = len(places)
    return sp.csr_matrix((np.ones(n), np.arange(n), np.arange(n + 1)), (n, n)), places, reader.order
