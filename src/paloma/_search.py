"""Exhaustive nearest neighbours by tiles of one matrix product and a partial top-k, memory bounded by the tile.

A squared distance splits into d(q, x) = a_c(q) - 2 q^T (M_c x) + x^T M_c x (spec.md 11): the middle term is one product
over all items, whatever their class; the first is a table over classes, the last a constant of the item.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._kernels.scratch import Scratch
from ._kernels.sweep import row_products
from ._kernels.topk import merge_tile

Array = NDArray[Any]
Factors = tuple[Any, ...]
QUERY_TILE, ITEM_TILE = 1024, 1024
# Candidates beyond k that are looked at directly; more of them only for queries where rounding could matter.
SPARE = (4, 64, 512)


@dataclass
class Items:
    """The item side of a search: value(q, i) = alpha q.x_i + table(q)[classes_i] + constants_i, small is near.

    `rows(slice)` gives the factors of a tile of items, `sides(Q)` those of queries (their products add up to q.x), and
    `table(Q)` the (n_queries, n_classes) table.
    """

    n: int
    rows: Callable[[slice], Factors]
    alpha: float
    table: Callable[[Any], Array]
    classes: Array
    constants: Array
    sides: Callable[[Any], Factors] = lambda rows: (rows,)

    def tile(self, sides: Factors, part: slice, scratch: Scratch) -> Array:
        """q.x of queries, given by their factors, and a tile of items."""
        return _product(sides, self.rows(part), scratch)


def _product(queries: Factors, items: Factors, scratch: Scratch) -> Array:
    """Sum of the products of matching factors, dense or CSR, as a dense tile."""
    total: Any = None
    for k, (q, x) in enumerate(zip(queries, items, strict=True)):
        if sp.issparse(q) or sp.issparse(x):
            product = q @ x.T
            product = product.toarray() if sp.issparse(product) else np.asarray(product)
        else:
            product = scratch.take(f"product {k}", (len(q), len(x)), x.dtype)
            np.matmul(q, x.T, out=product)
        total = product if total is None else np.add(total, product, out=total)
    return total


def nearest(
    queries: Callable[[slice], Any],
    n_queries: int,
    items: Items,
    k: int,
    *,
    own: Array | None = None,
    query_classes: Array | None = None,
    others: bool = False,
) -> tuple[Array, Array]:
    """The k nearest items of each query, values and numbers; where fewer qualify, inf and -1.

    own : item that is the query itself, never returned (-1: none).
    others : only items of a class other than the query's.
    """
    best = np.full((n_queries, k), np.inf)
    ids = np.full((n_queries, k), -1, np.int64)
    own = np.full(n_queries, -1, np.int64) if own is None else own
    query_classes = np.zeros(n_queries, np.int32) if query_classes is None else query_classes
    scratch = Scratch()
    for a in range(0, n_queries, QUERY_TILE):
        part = slice(a, min(a + QUERY_TILE, n_queries))
        rows = queries(part)
        table = items.table(rows).astype(np.float64, copy=False)
        factors = items.sides(rows)
        for start in range(0, items.n, ITEM_TILE):
            stop = min(start + ITEM_TILE, items.n)
            scores = items.tile(factors, slice(start, stop), scratch)
            merge_tile(
                scores, items.alpha, table, items.classes[start:stop], items.constants[start:stop], start,
                own[part], query_classes[part], others, best[part], ids[part],
            )  # fmt: skip
    return best, ids


def mutual_nearest(items: Items, k: int) -> Array:
    """Numbers of the k nearest items of another class for each item itself, -1 where fewer qualify.

    For a symmetric value, alpha q.x + constants of both: each tile of products serves its rows and its columns.
    """
    best, ids = np.full((items.n, k), np.inf), np.full((items.n, k), -1, np.int64)
    tiles = [slice(a, min(a + ITEM_TILE, items.n)) for a in range(0, items.n, ITEM_TILE)]
    scratch, none = Scratch(), np.full(ITEM_TILE, -1, np.int64)

    def merge(scores: Array, queries: slice, others: slice) -> None:
        table = np.repeat(items.constants[queries, None], int(items.classes.max()) + 1, axis=1)
        merge_tile(
            scores, items.alpha, table, items.classes[others], items.constants[others], others.start,
            none[: len(scores)], items.classes[queries], True, best[queries], ids[queries],
        )  # fmt: skip

    for number, queries in enumerate(tiles):
        rows = items.rows(queries)
        for others in tiles[number:]:
            scores = _product(rows, items.rows(others), scratch)
            merge(scores, queries, others)
            if others is not queries:
                merge(np.ascontiguousarray(scores.T), others, queries)
    return ids


def squared_norms(rows: Any) -> Array:
    """|x|^2 of each row, dense or CSR."""
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), np.float64).ravel()
    return row_products(rows, rows)


def certified(
    Q: Any,
    k: int,
    n: int,
    rough: Callable[[Array, int], tuple[Array, Array, Array]],
    direct: Callable[[Any, Array], Array],
) -> tuple[Array, Array]:
    """The k nearest of n items from rough values: those of candidates beyond k are formed again directly.

    `rough(numbers of queries, reach)` gives values, items and a bound on the values' error for each query;
    `direct(rows, items)` exact values. Where rounding could have kept a nearer item out, more candidates are taken.
    """
    values, ids = np.empty((Q.shape[0], k)), np.empty((Q.shape[0], k), np.int64)
    unsure = np.arange(Q.shape[0])
    for reach in sorted({min(k + spare, n) for spare in SPARE}):
        estimates, found, error = rough(unsure, reach)
        values[unsure], ids[unsure] = best_of(Q[unsure], found, k, direct)
        unsure = unsure[~(estimates[:, -1] - error > values[unsure, -1])]
        if not len(unsure):
            break
    return values, ids


def best_of(Q: Any, ids: Array, k: int, direct: Callable[[Any, Array], Array]) -> tuple[Array, Array]:
    """The k best of each query's candidates by their direct values; of equal ones the lower number comes first."""
    tiles = [slice(a, a + QUERY_TILE) for a in range(0, Q.shape[0], QUERY_TILE)]
    values = np.concatenate([direct(Q[part], ids[part]) for part in tiles])
    order = np.lexsort((ids, values), axis=1)[:, :k]
    return np.take_along_axis(values, order, 1), np.take_along_axis(ids, order, 1)


class Metric(Protocol):
    """What search needs of a learnt metric; see `paloma._representation.metric`."""

    symmetric: bool
    of_differences: bool

    def resolve(self, codes: Array) -> Array: ...

    def values(self, left: Array, right: Array, codes: Array) -> Array: ...

    def item_side(self, X: Any, codes: Array) -> tuple[Factors, Array]: ...

    def query_side(self, Q: Any, codes: Array | None = None) -> Factors: ...

    def query_forms(self, Q: Array, codes: Array) -> Array: ...


def items_of(metric: Any, X: Any, codes: Array) -> Any:
    """Items under a metric, ready to be searched: `LocalItems`, unless the metric has a kind of its own."""
    return metric.items(X, codes) if hasattr(metric, "items") else LocalItems(metric, X, codes)


class LocalItems:
    """Items under the metrics of their classes, ready to be searched; holds X and one mapped copy of it.

    Dense data are centred first (a common shift leaves differences unchanged), which keeps the expansion from
    cancelling, and the values of the neighbours found are formed again directly.
    """

    def __init__(self, metric: Metric, X: Any, codes: Array) -> None:
        self.metric, self.centre = metric, None
        if metric.symmetric and not sp.issparse(X):
            self.centre = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        codes = metric.resolve(codes)
        self._hold(X, codes, *self._map(X, codes))

    def _map(self, X: Any, codes: Array) -> tuple[Factors, Array]:
        mapped, constants = self.metric.item_side(self._centred(X), codes)
        if not self.metric.symmetric:
            return mapped, np.zeros(len(constants))
        if codes.ndim == 2:  # sum_r pi_r(x) a_r(q) joins the product (spec.md 11)
            mapped = (*mapped, (-0.5 * codes).astype(X.dtype))
        return mapped, constants

    def _hold(self, X: Any, codes: Array, mapped: Factors, constants: Array) -> None:
        self.X, self.codes, self.mapped, self.constants = X, codes, mapped, constants
        self.soft = codes.ndim == 2
        if self.soft:
            self.distinct, columns = self.metric.resolve(np.arange(codes.shape[1])), np.zeros(len(codes), np.intp)
        else:
            self.distinct, columns = np.unique(codes, return_inverse=True)
        self.columns = columns.astype(np.int32)
        if self.metric.symmetric:
            self.extent = float(np.sqrt(np.abs(constants).max(initial=0.0)))
        else:
            self.extent = float(np.sqrt(np.sum([squared_norms(f) for f in mapped], axis=0).max(initial=0.0)))

    def revised(self, X: Any, codes: Array, kept: Array) -> "LocalItems":
        """The items X: those numbered `kept` here, in this order, and then new ones. Maps the new ones alone."""
        if sp.issparse(X):
            return LocalItems(self.metric, X, codes)
        codes, n = self.metric.resolve(codes), len(kept)
        mapped, constants = self._map(X[n:], codes[n:])
        factors = tuple(np.concatenate([old[kept], new]) for old, new in zip(self.mapped, mapped, strict=True))
        revised = copy(self)
        revised._hold(X, codes, factors, np.concatenate([self.constants[kept], constants]))
        return revised

    def _centred(self, rows: Any) -> Any:
        return rows if self.centre is None else rows - self.centre

    def _like_items(self, Q: Any) -> Any:
        """Queries of the items' kind, dense or CSR."""
        if sp.issparse(self.X):
            return Q if sp.issparse(Q) else sp.csr_matrix(Q)
        return Q.toarray() if sp.issparse(Q) else Q

    def _tile(self, part: slice) -> Factors:
        return tuple(factor[part] for factor in self.mapped)

    def _table(self, rows: Any) -> Array:
        if self.metric.symmetric and not self.soft:
            return self.metric.query_forms(rows, self.distinct)
        return np.zeros((rows.shape[0], len(self.distinct)))

    @property
    def items(self) -> Items:
        """The item side of the search, over the arrays held here."""
        alpha, n = (-2.0 if self.metric.symmetric else -1.0), self.X.shape[0]
        return Items(n, self._tile, alpha, self._table, self.columns, self.constants, self._sides)

    def _sides(self, rows: Any) -> Factors:
        sides = self.metric.query_side(rows, self.distinct)
        if self.soft and self.metric.symmetric:
            return (*sides, self.metric.query_forms(rows, self.distinct).astype(self.X.dtype))
        return sides

    def search(self, Q: Any, k: int, own: Array | None = None) -> tuple[Array, Array]:
        """The k nearest items of each query: values (squared distance, or minus similarity), ascending, and numbers."""
        Q = self._like_items(Q)

        def rough(part: Array, reach: int) -> tuple[Array, Array, Array]:
            rows, forms = self._centred(Q[part]), list[Array]()

            def table(tile: Any) -> Array:
                forms.append(self._table(tile))
                return forms[-1]

            mine = None if own is None else own[part]
            found = nearest(lambda tile: rows[tile], rows.shape[0], replace(self.items, table=table), reach, own=mine)
            return *found, self._rounding(rows, np.concatenate(forms))

        return certified(Q, k, self.X.shape[0] - (own is not None), rough, self._direct)

    def _rounding(self, rows: Any, forms: Array) -> Array:
        """Bound on the rounding error of the expanded values of each query; `forms` are those of the table."""
        eps = float(np.finfo(self.X.dtype).eps) * np.sqrt(self.X.shape[1])
        if not self.metric.symmetric:
            return eps * np.sqrt(squared_norms(rows)) * self.extent
        if self.soft:
            forms = self.metric.query_forms(rows, self.distinct)
        return eps * (np.sqrt(np.abs(forms).max(axis=1)) + self.extent) ** 2

    def _direct(self, Q: Any, ids: Array) -> Array:
        numbers = np.repeat(np.arange(Q.shape[0]), ids.shape[1])
        values = self._pairs(Q[numbers], ids.ravel())
        return (values if self.metric.symmetric else -values).reshape(ids.shape)

    def _pairs(self, left: Any, ids: Array) -> Array:
        """Values of pairs (query row, item number), formed directly."""
        right = self.X[ids]
        if self.metric.symmetric:
            left = right = left - right
        return self.metric.values(left, right, self.codes[ids])

    def all_values(self, Q: Any) -> Array:
        """(n_queries, n_items) values; those that nearly cancelled are formed again directly."""
        Q = self._like_items(Q)
        rows, items = self._centred(Q), self.items
        forms = items.table(rows)[:, items.classes]
        product = _product(self._sides(rows), self.mapped, Scratch())
        values = items.alpha * product + forms + items.constants
        if self.metric.symmetric:
            cancelled = 1e-6 if values.dtype == product.dtype else 1e-3
            q, i = np.nonzero(np.abs(values) <= cancelled * (np.abs(forms) + np.abs(items.constants)))
            for a in range(0, len(q), ITEM_TILE):
                part = slice(a, a + ITEM_TILE)
                values[q[part], i[part]] = self._pairs(Q[q[part]], i[part])
        return values


def majority(codes: Array) -> Array:
    """Most frequent code in each row of neighbours, nearest first; a tie goes to the nearest among the tied."""
    votes = (codes[:, :, None] == codes[:, None, :]).sum(axis=2)
    return np.take_along_axis(codes, votes.argmax(axis=1)[:, None], axis=1)[:, 0]
