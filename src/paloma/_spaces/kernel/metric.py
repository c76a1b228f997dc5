"""The read-out of index space: similarities and distances under kernels, for pairs and for search (theory 4).

Items are transformed once, g(x) = S_c k_x with S_c = lam^2 sum A + mu^2 A_c of the item's class; then
s(q, x) = k(q, x) + k_q^T g(x), and d(q, x) = s(q, q) - 2 s(q, x) + s(x, x) under the symmetric S_c of a distance.
"""

import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..._compiled.scratch import Scratch
from ..._core.hedge import followed
from ..._core.locality import SHARED, Locality
from ..._rows import evenly_spaced, row_products
from ..._search.tiles import ITEM_TILE, QUERY_TILE, Factors, Items, nearest
from ..._typing import Array
from ..dense.metric import ZERO, groups
from .support import Support, applied, first_equal

# Pairs that are valued at once.
PAIR_TILE = 256
# Items that are compared with each other to see whether all distances are 0.
LOOKED_AT = 64
# A kernel of smaller weight changes no digit of the result.
NEGLIGIBLE = 1e-17


class KernelMetric:
    """Sum over kernels of weight times measure, under the net steps of an index.

    blend : how far the averaged steps are moved toward the last ones; 1 reads the last ones.
    strength : (s, t), how far the measures follow what was learned, and its local part (theory 22).
    """

    of_differences = bounded = has_floor = False

    def __init__(
        self, index: Support, locality: Locality, weights: Array, blend: float,
        strength: tuple[float, float] = (1.0, 1.0),
    ) -> None:  # fmt: skip
        self.locality, self.symmetric = locality, index.distances
        self.start, self.pairs, self.dtype = index.start, index.pairs, index.dtype
        support = np.flatnonzero(index.held)
        self.points = None if index.points is None else index.points[support]
        self._raw_selfs = index.raw_selfs[:, support]
        self._column = np.zeros(len(index.held), np.int64)
        self._column[support] = np.arange(len(support))
        self._steps = index.pairs.averaged(blend)
        self.cache = index.cache
        self._kernels = index.kernels
        self._follow(weights, strength)

    def _follow(self, weights: Array, strength: tuple[float, float]) -> None:
        """Read the kernels with these weights, of full strength, at this one."""
        mixed, self._strengths = followed(weights, strength)
        self.parts = [(int(r), self._kernels[r], float(mixed[r])) for r in np.flatnonzero(mixed > NEGLIGIBLE)]

    @property
    def n_support(self) -> int:
        return self._raw_selfs.shape[1]

    def numbers(self, X: Array) -> Array:
        """With a precomputed kernel: numbers of the training rows that these rows are; -1 for others."""
        return self.parts[0][1].numbers(X)

    def resolve(self, codes: Array) -> Array:
        """Codes as this metric tells them apart: one shared code if global."""
        return codes.astype(np.int32) if self.locality.is_local else np.full(len(codes), SHARED, np.int32)

    def _shares(self, r: int, code: int) -> tuple[float, float]:
        """Coefficients of sum A and of A_c in the form of a code; the shared part by itself is U."""
        (s, t), lam, mu = self._strengths[r], self.locality.lam, self.locality.mu
        if code == SHARED:
            return s * lam, 0.0
        return (s - t) * lam + t * lam * lam, (t * mu * mu if code >= 0 else 0.0)

    def images(self, r: int, values: Array, codes: Array) -> Array:
        """g(x) = S_c k_x for each row of kernel values with the support."""
        out = np.zeros_like(values)
        for code, rows in groups(codes):
            for share, part in zip(self._shares(r, code), (slice(None), self.pairs.of_class(code)), strict=True):
                steps = self._steps[r, part]
                if share and steps.any():
                    arguments = (values[rows], self._column, self.symmetric, False)
                    out[rows] += values.dtype.type(share) * applied(self.pairs, part, steps, *arguments)
        return out

    def with_support(self, r: int, kernel: Any, X: Array) -> Array:
        """Kernel values of rows with the support."""
        if self.points is None:
            return np.zeros((len(X), 0), self.dtype)
        return kernel(X, self.points, right=self._raw_selfs[r])

    def values(self, left: Array, right: Array, codes: Array) -> Array:
        """Measure of each pair (query row, candidate row) under the candidate's class; float64."""
        codes, out = self.resolve(codes), np.zeros(len(left))
        order = np.lexsort((np.arange(len(left)), codes))
        for a in range(0, len(left), PAIR_TILE):
            rows = order[a : a + PAIR_TILE]
            for r, kernel, weight in self.parts:
                out[rows] += weight * self._tile_values(r, kernel, left[rows], right[rows], codes[rows])
        return out

    def _tile_values(self, r: int, kernel: Any, left: Array, right: Array, codes: Array) -> Array:
        first, second = self.with_support(r, kernel, left), self.with_support(r, kernel, right)
        start = kernel.pairs(left, right)
        if self.symmetric:
            start = kernel.selfs(left) + kernel.selfs(right) - 2.0 * start
            first = second = first - second
        learned: Array | float = 0.0
        if self.n_support:
            learned = row_products(first, self.images(r, second, codes))
        return self.start * start + learned

    def own_forms(self, r: int, kernel: Any, X: Array, values: Array, codes: Array) -> Array:
        """s(x, x) of each row under one code per row."""
        learned = row_products(values, self.images(r, values, codes)) if self.n_support else 0.0
        return self.start * kernel.selfs(X) + learned

    def items(self, X: Array, codes: Array) -> "KernelItems | RepeatedItems":
        """Items ready to be searched; equal ones have equal values."""
        codes = self.resolve(codes)
        first = first_equal(np.column_stack([X, codes.astype(X.dtype)]))
        distinct = np.unique(first)
        items = KernelItems(self, X[distinct], codes[distinct])
        return items if len(distinct) == len(X) else RepeatedItems(items, X, np.searchsorted(distinct, first))

    def at_start(self) -> Self:
        """The same at strength 0, unless all values are 0 then."""
        if not self.start:
            return self
        start, n = copy(self), len(self._kernels)
        start._follow(np.full(n, 1.0 / n), (0.0, 0.0))
        return start


@dataclass
class KernelTiles(Items):
    """Items whose product with queries is a kernel's, not an inner product."""

    owner: "KernelItems" = None  # type: ignore[assignment]

    def tile(self, sides: Factors, part: slice, scratch: Scratch) -> Array:
        return self.owner.products(sides, part)


class KernelItems:
    """Items under the kernel measures of their classes; what `paloma._search.LocalItems` is for matrices.

    The transformed items are kept if they fit into the cache of kernel values, else formed again for each tile.
    """

    def __init__(self, metric: KernelMetric, X: Array, codes: Array) -> None:
        self.metric, self.X, self.codes = metric, X, metric.resolve(codes)
        self.distinct, columns = np.unique(self.codes, return_inverse=True)
        self.columns = columns.astype(np.int32)
        self.points = [kernel.points(X) for _, kernel, _ in metric.parts]
        self.tiles = [slice(a, min(a + ITEM_TILE, len(X))) for a in range(0, len(X), ITEM_TILE)]
        self.kept: dict[int, list[Array]] | None = None
        if len(X) * metric.n_support * len(metric.parts) * metric.dtype.itemsize <= metric.cache:
            self.kept = {part.start: self._mapped(part) for part in self.tiles}
        self.constants = np.zeros(len(X))
        if metric.symmetric:
            self.constants = np.concatenate([self._forms(X[part], self.codes[part]) for part in self.tiles])
            self._warn_if_zero()

    def _warn_if_zero(self) -> None:
        """No step keeps a distance under kernels above 0: tell if none of a few, of items that differ, is."""
        spread = evenly_spaced(np.arange(len(self.X)), LOOKED_AT)
        values = self.metric.values(self.X[spread[:-1]], self.X[spread[1:]], self.codes[spread[1:]])
        if len(values) and (values <= 0.0).all():
            warnings.warn(ZERO, RuntimeWarning, stacklevel=2)

    def _mapped(self, part: slice) -> list[Array]:
        """g(x) of a tile of items, for each kernel."""
        metric, codes = self.metric, self.codes[part]
        rows = self.X[part]
        return [metric.images(r, metric.with_support(r, kernel, rows), codes) for r, kernel, _ in metric.parts]

    def _forms(self, X: Array, codes: Array) -> Array:
        """Combined s(x, x) of rows, one code per row."""
        metric, out = self.metric, np.zeros(len(X))
        for r, kernel, weight in metric.parts:
            out += weight * metric.own_forms(r, kernel, X, metric.with_support(r, kernel, X), codes)
        return out

    def _table(self, Q: Array) -> Array:
        if not self.metric.symmetric:
            return np.zeros((len(Q), len(self.distinct)))
        return np.stack([self._forms(Q, np.full(len(Q), code, np.int32)) for code in self.distinct], axis=1)

    def _sides(self, Q: Array) -> Factors:
        metric = self.metric
        return (Q, *(metric.with_support(r, kernel, Q) for r, kernel, _ in metric.parts))

    def products(self, sides: Factors, part: slice) -> Array:
        """s(q, x) of queries and a tile of items."""
        Q, metric = sides[0], self.metric
        total = np.zeros((len(Q), part.stop - part.start), metric.dtype)
        mapped = self._mapped(part) if self.kept is None else self.kept[part.start]
        for k, (_, kernel, weight) in enumerate(metric.parts):
            scores = sides[1 + k] @ mapped[k].T
            if metric.start:
                scores += kernel(Q, self.points[k][part])
            scores *= scores.dtype.type(weight)
            total += scores
        return total

    @property
    def alpha(self) -> float:
        return -2.0 if self.metric.symmetric else -1.0

    def search(self, Q: Array, k: int, own: Array | None = None) -> tuple[Array, Array]:
        """The k nearest items of each query: values (squared distance, or minus similarity), ascending, and numbers."""
        arguments = (len(self.X), lambda part: (), self.alpha, self._table, self.columns, self.constants, self._sides)
        return nearest(lambda part: Q[part], len(Q), KernelTiles(*arguments, owner=self), k, own=own)

    def own_values(self, Q: Array, code: int) -> Array | None:
        """As `LocalItems.own_values`; None if the kernel does not know them."""
        if self.metric.symmetric or any(kernel.precomputed for _, kernel, _ in self.metric.parts):
            return None
        return -self.metric.values(Q, Q, np.full(len(Q), code, np.int32))

    def rough_values(self, Q: Array, out: Array) -> None:
        """As `all_values`, which forms none of them again."""
        out[...] = self.all_values(Q)

    def all_values(self, Q: Array) -> Array:
        """(n_queries, n_items) values: squared distances, or minus similarities."""
        out = np.empty((len(Q), len(self.X)), self.metric.dtype)
        for a in range(0, len(Q), QUERY_TILE):
            rows = slice(a, a + QUERY_TILE)
            table, sides = self._table(Q[rows]), self._sides(Q[rows])
            for part in self.tiles:
                out[rows, part] = (
                    self.alpha * self.products(sides, part) + table[:, self.columns[part]] + self.constants[part]
                )
        return out


class RepeatedItems:
    """Items some of which are equal: each distinct one is valued once, so that rounding does not tell equals apart.

    X : all rows. place : for each of them, its number among the distinct items.
    """

    def __init__(self, items: KernelItems, X: Array, place: Array) -> None:
        self._items, self.X, self._place, self.metric = items, X, place, items.metric
        self._members = np.argsort(place, kind="stable")
        self._sizes = np.bincount(place)
        self._starts = np.cumsum(self._sizes) - self._sizes

    def search(self, Q: Array, k: int, own: Array | None = None) -> tuple[Array, Array]:
        """As `KernelItems.search`; of equal values the lower number comes first."""
        reach = k + (own is not None)
        values, found = self._items.search(Q, min(reach, len(self._sizes)))
        width = min(reach, int(self._sizes.max()))
        rank = np.arange(width)
        inside = rank < self._sizes[found][:, :, None]
        numbers = self._members[self._starts[found][:, :, None] + np.minimum(rank, self._sizes[found][:, :, None] - 1)]
        if own is not None:
            inside &= numbers != own[:, None, None]
        every = np.where(inside, values[:, :, None], np.inf).reshape(len(Q), -1)
        numbers = numbers.reshape(len(Q), -1)
        order = np.lexsort((numbers, every), axis=1)[:, :k]
        return np.take_along_axis(every, order, 1), np.take_along_axis(numbers, order, 1)

    def own_values(self, Q: Array, code: int) -> Array | None:
        """As `KernelItems.own_values`."""
        return self._items.own_values(Q, code)

    def rough_values(self, Q: Array, out: Array) -> None:
        """As `KernelItems.rough_values`."""
        out[...] = self.all_values(Q)

    def all_values(self, Q: Array) -> Array:
        """As `KernelItems.all_values`."""
        return self._items.all_values(Q)[:, self._place]
