"""Exhaustive nearest neighbours by tiles of one matrix product and a partial top-k, memory bounded by the tile.

A squared distance splits into d(q, x) = a_c(q) - 2 q^T (M_c x) + x^T M_c x (spec.md 11): the middle term is one product
over all items, whatever their class; the first is a table over classes, the last a constant of the item.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ._kernels.sweep import row_products
from ._kernels.topk import merge_tile

Array = NDArray[Any]
QUERY_TILE, ITEM_TILE = 512, 2048


@dataclass
class Items:
    """The item side of a search: value(q, i) = alpha q.rows_i + table(q)[classes_i] + constants_i, small is near.

    `rows(slice)` gives the item factors of a tile, `table(Q)` the (n_queries, n_classes) table.
    """

    n: int
    rows: Callable[[slice], Array]
    alpha: float
    table: Callable[[Array], Array]
    classes: Array
    constants: Array


def nearest(
    queries: Callable[[slice], Array],
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
    buffer = np.empty(0)
    for a in range(0, n_queries, QUERY_TILE):
        part = slice(a, min(a + QUERY_TILE, n_queries))
        rows = queries(part)
        table = items.table(rows).astype(np.float64, copy=False)
        for start in range(0, items.n, ITEM_TILE):
            stop = min(start + ITEM_TILE, items.n)
            tile = items.rows(slice(start, stop))
            size = len(rows) * len(tile)
            if buffer.size < size or buffer.dtype != tile.dtype:
                buffer = np.empty(size, tile.dtype)
            scores = np.matmul(rows, tile.T, out=buffer[:size].reshape(len(rows), len(tile)))
            merge_tile(
                scores, items.alpha, table, items.classes[start:stop], items.constants[start:stop], start,
                own[part], query_classes[part], others, best[part], ids[part],
            )  # fmt: skip
    return best, ids


def squared_norms(rows: Array) -> Array:
    """|x|^2 of each row."""
    return row_products(rows, rows)


class Metric(Protocol):
    """What search needs of a learnt metric; see `paloma._representation.metric`."""

    symmetric: bool

    def resolve(self, codes: Array) -> Array: ...

    def values(self, left: Array, right: Array, codes: Array) -> Array: ...

    def item_side(self, X: Array, codes: Array) -> tuple[Array, Array]: ...

    def query_forms(self, Q: Array, codes: Array) -> Array: ...


class LocalItems:
    """Items under the metrics of their classes, ready to be searched; holds X and one mapped copy of it.

    Data are centred first (a common shift leaves differences unchanged), which keeps the expansion from cancelling, and
    the values of the neighbours found are formed again directly.
    """

    SPARE = 4

    def __init__(self, metric: Metric, X: Array, codes: Array) -> None:
        self.metric, self.X = metric, X
        self.codes = metric.resolve(codes)
        distinct, columns = np.unique(self.codes, return_inverse=True)
        d = X.shape[1]
        self.centre = X.mean(axis=0, dtype=np.float64).astype(X.dtype) if metric.symmetric else np.zeros(d, X.dtype)
        self.mapped, self.constants = metric.item_side(X - self.centre if metric.symmetric else X, self.codes)
        self.distinct, self.columns = distinct, columns.astype(np.int32)
        if not metric.symmetric:
            self.constants[:] = 0.0

    @property
    def items(self) -> Items:
        """The item side of the search, over the arrays held here."""
        alpha = -2.0 if self.metric.symmetric else -1.0
        return Items(len(self.X), self.mapped.__getitem__, alpha, self._table, self.columns, self.constants)

    def _table(self, rows: Array) -> Array:
        if self.metric.symmetric:
            return self.metric.query_forms(rows, self.distinct)
        return np.zeros((len(rows), len(self.distinct)))

    def search(self, Q: Array, k: int, own: Array | None = None) -> tuple[Array, Array]:
        """The k nearest items of each query: values (squared distance, or minus similarity), ascending, and numbers."""
        reach = min(k + self.SPARE, len(self.X) - (own is not None))
        _, ids = nearest(lambda part: Q[part] - self.centre, len(Q), self.items, reach, own=own)
        values = np.concatenate(
            [self._direct(Q[a : a + QUERY_TILE], ids[a : a + QUERY_TILE]) for a in range(0, len(Q), QUERY_TILE)]
        )
        order = np.argsort(values, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(values, order, 1), np.take_along_axis(ids, order, 1)

    def _direct(self, Q: Array, ids: Array) -> Array:
        flat = ids.ravel()
        left, right = np.repeat(Q, ids.shape[1], axis=0), self.X[flat]
        if self.metric.symmetric:
            left = right = left - right
        values = self.metric.values(left, right, self.codes[flat])
        return (values if self.metric.symmetric else -values).reshape(ids.shape)

    def all_values(self, Q: Array) -> Array:
        """(n_queries, n_items) values; those that nearly cancelled are formed again directly."""
        rows = Q - self.centre
        items = self.items
        constants, forms = items.constants, items.table(rows)[:, items.classes]
        values = items.alpha * (rows @ self.mapped.T) + forms + constants
        if self.metric.symmetric:
            cancelled = 1e-6 if Q.dtype == np.float64 else 1e-3
            q, i = np.nonzero(np.abs(values) <= cancelled * (np.abs(forms) + np.abs(constants)))
            for a in range(0, len(q), ITEM_TILE):
                part = slice(a, a + ITEM_TILE)
                delta = Q[q[part]] - self.X[i[part]]
                values[q[part], i[part]] = self.metric.values(delta, delta, self.codes[i[part]])
        return values


def majority(codes: Array) -> Array:
    """Most frequent code in each row of neighbours, nearest first; a tie goes to the nearest among the tied."""
    votes = (codes[:, :, None] == codes[:, None, :]).sum(axis=2)
    return np.take_along_axis(codes, votes.argmax(axis=1)[:, None], axis=1)[:, 0]
