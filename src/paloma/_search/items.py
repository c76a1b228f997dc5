"""Items under the metrics of their classes, ready to be searched."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from .._compiled.scratch import Scratch
from .._rows import squared_norms
from .._threads import in_threads, in_turn, sharing
from .._typing import Array
from . import pruning
from .codes import Codes, smallest
from .euclid import center_of, minus
from .tiles import ITEM_TILE, QUERY_TILE, Factors, Items, certified, nearest, product_of

# Candidates of one query are the nearest of this many times as many by bytes.
MANY = 8
# Pairs whose values are formed directly at a time, so that caches hold their differences.
PAIRS = 4096
# Differences are those of mapped rows if there are so many times as many pairs as rows, and if the square of a
# difference is at least this share of that of the query: nearer ones lose digits.
FEWER, APART = 2, 1 / 8
# A center, and rows that were mapped about it.
About = tuple[Array | None, Array]


class Metric(Protocol):
    """What search needs of a learned metric; see `paloma._core.space.Metric`."""

    symmetric: bool
    of_differences: bool

    @property
    def has_floor(self) -> bool: ...

    def resolve(self, codes: Array) -> Array: ...

    def values(self, left: Array, right: Array, codes: Array) -> Array: ...

    def item_side(self, X: Any, codes: Array) -> tuple[Factors, Array]: ...

    def query_side(self, Q: Any, codes: Array | None = None) -> Factors: ...

    def query_forms(self, Q: Array, codes: Array) -> Array: ...


class Mapping(Metric, Protocol):
    """A metric on mapped rows, by another one inside."""

    def mapped(self, X: Any) -> Any: ...


class LocalItems:
    """Items under the metrics of their classes, ready to be searched; holds X and one mapped copy of it, and a byte for
    each number of that once candidates of a single query were asked for.

    Dense data is centered first (a common shift leaves differences unchanged), which keeps the expansion from
    canceling, and the values of the neighbors found are formed again directly.

    by : the metric that maps rows and asks `metric`, if any.
    """

    def __init__(self, metric: Metric, X: Any, codes: Array, by: Mapping | None = None) -> None:
        self.metric, self._inside, self._by = by or metric, metric, by
        self.center = center_of(X) if metric.symmetric else None
        codes = metric.resolve(codes)
        with self._sharing(X):
            self._hold(X, codes, *self._map(X, codes))

    @staticmethod
    def _sharing(Q: Any) -> Any:
        """The threads that a tile of products with these rows is worth."""
        return sharing(min(Q.shape[0], QUERY_TILE), ITEM_TILE, Q.shape[1])

    def _map(self, X: Any, codes: Array) -> tuple[Factors, Array]:
        mapped, constants = self.metric.item_side(self._centered(X), codes)
        if not self.metric.symmetric:
            return mapped, np.zeros(len(constants))
        if codes.ndim == 2:  # sum_r pi_r(x) a_r(q) joins the product (theory 11)
            mapped = (*mapped, (-0.5 * codes).astype(X.dtype))
        return mapped, constants

    def _hold(self, X: Any, codes: Array, mapped: Factors, constants: Array) -> None:
        self.X, self.codes, self.mapped, self.constants = X, codes, mapped, constants
        self._bytes: Codes | None = None
        self.soft = codes.ndim == 2
        if self.soft:
            self.distinct, columns = self.metric.resolve(np.arange(codes.shape[1])), np.zeros(len(codes), np.intp)
        else:
            self.distinct, columns = np.unique(codes, return_inverse=True)
        self.columns = columns.astype(np.int32)
        if self.metric.symmetric:
            self.extent = float(np.sqrt(np.abs(constants).max(initial=0.0)))
        else:
            self.extent = self._extent(mapped)

    def _extent(self, mapped: Factors) -> float:
        """The largest norm of an item."""
        return float(np.sqrt(np.sum([squared_norms(f) for f in mapped], axis=0).max(initial=0.0)))

    def revised(self, X: Any, codes: Array, kept: Array) -> "LocalItems":
        """The items X: those numbered `kept` here, in this order, and then new ones. Maps the new ones alone."""
        if sp.issparse(X):
            return LocalItems(self._inside, X, codes, self._by)
        codes, n = self.metric.resolve(codes), len(kept)
        mapped, constants = self._map(X[n:], codes[n:])
        factors = tuple(np.concatenate([old[kept], new]) for old, new in zip(self.mapped, mapped, strict=True))
        revised = copy(self)
        revised._hold(X, codes, factors, np.concatenate([self.constants[kept], constants]))
        if self._bytes is not None:
            revised._bytes = self._bytes.revised(kept, mapped[0])
        return revised

    def _centered(self, rows: Any) -> Any:
        return minus(rows, self.center)

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
            rows, forms = self._centered(Q[part]), list[Array]()

            def table(tile: Any) -> Array:
                forms.append(self._table(tile))
                return forms[-1]

            mine = None if own is None else own[part]
            if self._has_floor and pruning.pays(self.items, len(self.distinct), rows.shape[1], len(part), reach):
                floored: Any = self.metric
                mine = np.full(len(part), -1, np.int64) if mine is None else mine
                values, ids, largest = pruning.nearest(rows, self.items, reach, mine, floored, self.distinct)
                return values, ids, self._rounding(rows, largest[:, None])
            found = nearest(lambda tile: rows[tile], rows.shape[0], replace(self.items, table=table), reach, own=mine)
            return *found, self._rounding(rows, np.concatenate(forms))

        with self._sharing(Q):
            each, mapped = in_threads if self._has_floor else in_turn, self._mapped_if_fewer(Q, k)
            direct = partial(self._formed, mapped=mapped)
            return certified(Q, k, self.X.shape[0] - (own is not None), rough, direct, each)

    @property
    def _has_floor(self) -> bool:
        """Whether bounds on the forms of all classes may leave out most of them."""
        return self.metric.has_floor and not (self.soft or sp.issparse(self.X))

    def candidates(self, Q: Any, n: int) -> Array:
        """Numbers of the n nearest items of each query, up to rounding."""
        rows = self._centered(self._like_items(Q))
        dense = len(self.mapped) == 1 and not sp.issparse(self.mapped[0])
        if rows.shape[0] == 1 and dense and MANY * n < self.X.shape[0]:
            return self._of_one(rows, n)
        with self._sharing(rows):
            return nearest(lambda tile: rows[tile], rows.shape[0], self.items, n)[1]

    def _of_one(self, row: Array, n: int) -> Array:
        """Candidates of one query: those in question by bytes, then by the numbers themselves."""
        if self._bytes is None:
            self._bytes = Codes.of(self.mapped[0])
        (side,), forms = self._sides(row), self._table(row)[0]
        scale = -0.5 * self.items.alpha
        offsets = forms.astype(np.float32).take(self.columns)
        offsets += self.constants
        found = smallest(self._bytes.values(scale * side[0], offsets), MANY * n)
        products = self.mapped[0][found] @ side[0]
        values = self.constants[found] + forms[self.columns[found]] - 2.0 * scale * products
        return found[np.lexsort((found, values))[None, :n]]

    def _rounding(self, rows: Any, forms: Array) -> Array:
        """Bound on the rounding error of the expanded values of each query; `forms` are those of the table."""
        eps = float(np.finfo(self.X.dtype).eps) * np.sqrt(self.X.shape[1])
        if not self.metric.symmetric:
            return eps * np.sqrt(squared_norms(rows)) * self.extent
        if self.soft:
            forms = self.metric.query_forms(rows, self.distinct)
        return eps * (np.sqrt(np.abs(forms).max(axis=1)) + self.extent) ** 2

    def _formed(self, Q: Any, ids: Array, mapped: About | None) -> Array:
        """Values of the items of these numbers, (n_queries, n), formed directly, as a search returns them."""
        values = self._pairs(Q, np.repeat(np.arange(Q.shape[0]), ids.shape[1]), ids.ravel(), mapped)
        return (values if self.metric.symmetric else -values).reshape(ids.shape)

    def _pairs(self, Q: Any, numbers: Array, ids: Array, mapped: About | None = None) -> Array:
        """Values of pairs (number of a query, number of an item), formed directly; `mapped`: see `_mapped_if_fewer`."""
        values, codes = np.empty(len(ids)), self.codes[ids]
        order = np.arange(len(ids)) if self.soft else np.argsort(codes, kind="stable")
        metric, pairs = self._of_pairs(Q, mapped)
        for a in range(0, len(ids), PAIRS):
            part = order[a : a + PAIRS]
            values[part] = metric.values(*pairs(numbers[part], ids[part]), codes[part])
        return values

    def _mapped_if_fewer(self, Q: Any, k: int) -> About | None:
        """The center of the items and, about it, all of them mapped, if mapping rows costs less than mapping the
        differences of k pairs of each query.

        It is the center of today's items, not of those that came first: so a copy from a file gives the same values.
        """
        by, n = self._by, Q.shape[0]
        if by is None or not self.metric.symmetric or sp.issparse(Q) or n * k < FEWER * (n + len(self.X)):
            return None
        center = center_of(self.X)
        return center, by.mapped(minus(self.X, center))

    def _of_pairs(self, Q: Any, mapped: About | None) -> tuple[Metric, Callable[[Array, Array], tuple[Any, Any]]]:
        """A metric, and what gives it both sides of pairs, by parts: rows, or for a distance their differences."""
        if not self.metric.symmetric:
            return self.metric, lambda numbers, ids: (Q[numbers], self.X[ids])

        def apart(numbers: Array, ids: Array) -> tuple[Any, Any]:
            gaps = Q[numbers] - self.X[ids]
            return gaps, gaps

        by = self._by
        if by is None or mapped is None:
            return self.metric, apart
        center, right = mapped
        centered = minus(Q, center)
        left, norms = by.mapped(centered), squared_norms(centered)

        def mapped_apart(numbers: Array, ids: Array) -> tuple[Array, Array]:
            gaps, images = Q[numbers] - self.X[ids], left[numbers] - right[ids]
            near = squared_norms(gaps) < APART * norms[numbers]
            images[near] = by.mapped(gaps[near])
            return images, images

        return self._inside, mapped_apart

    def own_values(self, Q: Any, code: int) -> Array | None:
        """Minus the similarity of each query with itself under the metric of a code; None for a distance."""
        if self.metric.symmetric:
            return None
        Q = self._like_items(Q)
        return -self.metric.values(Q, Q, np.full(Q.shape[0], code, np.int32))

    def rough_values(self, Q: Any, out: Array) -> None:
        """(n_queries, n_items) values as the product gives them: those that nearly cancel are off by rounding."""
        rows, items = self._centered(self._like_items(Q)), self.items
        np.multiply(product_of(self._sides(rows), self.mapped, Scratch()), items.alpha, out=out)
        if self.metric.symmetric:
            forms = items.table(rows)
            out += forms if forms.shape[1] == 1 else forms.take(items.classes, axis=1)
        out += items.constants

    def all_values(self, Q: Any) -> Array:
        """(n_queries, n_items) values; those that nearly canceled are formed again directly."""
        Q = self._like_items(Q)
        rows, items = self._centered(Q), self.items
        forms = items.table(rows).take(items.classes, axis=1)
        with self._sharing(rows):
            product = product_of(self._sides(rows), self.mapped, Scratch())
        values = items.alpha * product + forms + items.constants
        if self.metric.symmetric:
            canceled = 1e-6 if values.dtype == product.dtype else 1e-3
            q, i = np.nonzero(np.abs(values) <= canceled * (np.abs(forms) + np.abs(items.constants)))
            for a in range(0, len(q), ITEM_TILE):
                part = slice(a, a + ITEM_TILE)
                values[q[part], i[part]] = self._pairs(Q, q[part], i[part])
        return values
