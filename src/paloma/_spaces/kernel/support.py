"""Index space: what was learned as net steps of pairs of points, for one kernel or several (theory 4 and 9).

A step tau on a triplet adds tau to the pair (p, p+) and -tau to (p, p-). With A_c the sparse matrix of the net steps on
pairs whose candidate has class c, every form is its start plus a form on kernel values k_x = (k(x, x_r))_r,

    U = U_0 + lam sum_c A_c,    L_c = L_0 + mu A_c,    lam U + mu L_c = start + lam^2 sum_c A_c + mu^2 A_c  (Fact 2),

for a distance with (e_a - e_c)(e_a - e_c)^T for each pair instead of e_a e_c^T, subtracted.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._compiled.index import add_product, gather
from ..._compiled.pairs import paired
from ..._typing import Array
from ..pairs import Pairs
from .functions import Kernel

# Vectors that S is applied to at once: enough to fill vector registers, few enough to stay in a core's own memory.
SPREAD_WIDTH = 32
# Of a full support this part is forgotten at once, so that forgetting is rare.
FORGOTTEN = 8


@dataclass
class Source:
    """Rows that are being learned from: the point of each row, a row of each point, and kernel values if kept.

    gram : for each kernel the values of row `cached[point]` with all points, or None.
    """

    X: Array
    points: Array
    rows: Array
    cached: Array = field(default_factory=lambda: np.empty(0, np.int64))
    gram: list[Array] | None = None


class Support:
    """Points, and net steps of pairs of them. `held` marks the support: the points that some step touched.

    budget : most points of the support. A step that needs more is not taken; or, if `forgetting`, the eighth of the
        support whose last step is oldest is forgotten first with all its pairs, and the step is computed again.
    cache : bytes of kernel values to keep while rows are learned from.
    """

    def __init__(self, kernels: list[Kernel], dtype: Any, distances: bool, start: float, budget: int | None,
                 forgetting: bool, cache: float) -> None:  # fmt: skip
        self.kernels, self.dtype, self.distances, self.start = kernels, np.dtype(dtype), distances, start
        self.budget, self.forgetting, self.cache = budget, forgetting, cache
        self.points: Array | None = None
        self.held = np.empty(0, bool)
        self.last = np.empty(0, np.int64)
        self.raw_selfs = np.empty((len(kernels), 0))
        self.pairs = Pairs.none(len(kernels))
        self.source: Source | None = None

    @property
    def n_support(self) -> int:
        return int(np.count_nonzero(self.held))

    @property
    def room(self) -> int:
        """Points that the support can still take in."""
        return (np.iinfo(np.int64).max if self.budget is None else self.budget) - self.n_support

    # -- points ----------------------------------------------------------------------------------------------

    def enter(self, X: Array, triplets: Array, codes: Array) -> tuple[Array, Array]:
        """Number the points and pairs of triplets: (n, 3) points and (n, 2) pairs. X is known again over epochs."""
        if self.source is None or self.source.X is not X:
            self.source = Source(X, np.full(len(X), -1), np.full(len(self.held), -1))
        touched = np.unique(triplets)
        new = touched[self.source.points[touched] < 0]
        if len(new):
            self._enter_rows(self.source, new)
        numbered = self.source.points[triplets]
        anchors = np.repeat(numbered[:, 0], 2)
        self.pairs, members = self.pairs.listed(codes.ravel(), anchors, numbered[:, 1:].ravel(), len(self.held))
        return numbered, members.reshape(-1, 2)

    def _enter_rows(self, source: Source, new: Array) -> None:
        """Give rows their points, equal rows the same one; the values among them are computed if they fit."""
        rows = source.X[new]
        raw = np.array([kernel.raw_selfs(rows) for kernel in self.kernels])
        points, before = self.kernels[0].points(rows), len(self.held)
        every = points if self.points is None else np.concatenate([self.points, points])
        first = first_equal(every)[before:]
        fresh = np.unique(first[first >= before])
        place = np.where(first < before, first, before + np.searchsorted(fresh, first))
        n_new = len(fresh)
        self.points = every[np.concatenate([np.arange(before), fresh])]
        self.raw_selfs = np.hstack([self.raw_selfs, raw[:, fresh - before]])
        self.held = np.concatenate([self.held, np.zeros(n_new, bool)])
        self.last = np.concatenate([self.last, np.full(n_new, -1)])
        source.points[new] = place
        source.rows = np.concatenate([source.rows, np.full(n_new, -1)])
        source.rows[place] = new
        self._fill_cache(source)

    def _fill_cache(self, source: Source) -> None:
        known = np.flatnonzero(source.rows >= 0)
        source.gram = None
        if len(known) * len(self.held) * len(self.kernels) * self.dtype.itemsize <= self.cache:
            source.cached = np.full(len(self.held), -1)
            source.cached[known] = np.arange(len(known))
            every = np.arange(len(self.held))
            source.gram = [self._fresh_values(r, known, every) for r in range(len(self.kernels))]

    def _fresh_values(self, r: int, left: Array, right: Array) -> Array:
        """Values of the r-th kernel between points that are rows of the source, and any points."""
        assert self.source is not None
        assert self.points is not None
        raw = self.raw_selfs[r]
        return self.kernels[r](self.source.X[self.source.rows[left]], self.points[right], raw[left], raw[right])

    def selfs(self, r: int, points: Array) -> Array:
        """k(x, x) of points under the r-th kernel."""
        return self.kernels[r].selfs(points, self.raw_selfs[r, points])

    def close(self) -> None:
        """Forget the rows' source, and every point outside the support."""
        if self.source is None:
            return
        self.source = None
        kept = np.flatnonzero(self.held)
        place = np.full(len(self.held), -1)
        place[kept] = np.arange(len(kept))
        used = np.flatnonzero((self.pairs.steps != 0).any(axis=0) | (self.pairs.means != 0).any(axis=0))
        self.pairs = self.pairs.kept(used, place)
        self.points = None if self.points is None else self.points[kept]
        self.held, self.last, self.raw_selfs = self.held[kept], self.last[kept], self.raw_selfs[:, kept]

    # -- learning --------------------------------------------------------------------------------------------

    def values_with(self, r: int, points: Array) -> tuple[Array, Array, Array]:
        """Kernel values of points with the support: (values, row of each point in them, column of each point)."""
        source = self.source
        assert source is not None
        if source.gram is not None:
            return source.gram[r], source.cached[points], np.arange(len(self.held))
        support = np.flatnonzero(self.held)
        column = np.zeros(len(self.held), np.int64)
        column[support] = np.arange(len(support))
        return self._fresh_values(r, points, support), np.arange(len(points)), column

    def gram(self, r: int, points: Array) -> Array:
        """Kernel values among points."""
        source = self.source
        assert source is not None
        if source.gram is None:
            return self._fresh_values(r, points, points)
        out = np.empty((len(points), len(points)), self.dtype)
        gather(source.gram[r], source.cached[points], points, out)
        return out

    def forms(
        self, pairs: slice, weights: Array, known: tuple[Array, Array, Array], left: Array, right: Array
    ) -> Array:
        """k_p^T S k_q of pairs, or (k_p - k_q)^T S (k_p - k_q), S made of these listed pairs with these weights.

        known : what `values_with` gave; left, right : numbers of its points.
        """
        values, row, column = known
        if not weights.any():
            return np.zeros(len(left))
        needed = np.unique(np.concatenate([left, right]) if self.distances else left)
        place = np.zeros(len(row), np.int64)
        place[needed] = np.arange(len(needed))
        images = applied(self.pairs, pairs, weights, values[row[needed]], column, self.distances)
        cross = paired(images, values, place[left], row[right])
        if not self.distances:
            return cross
        own = paired(images, values, np.arange(len(needed)), row[needed])
        return own[place[left]] - 2.0 * cross + own[place[right]]

    def touch(self, points: Array, when: Array) -> None:
        """Take points of steps into the support; `when` numbers the triplets in order."""
        self.held[points.ravel()] = True
        np.maximum.at(self.last, points.ravel(), np.repeat(when, points.shape[1]))

    def forget(self) -> None:
        """Drop the part of the support whose last step is oldest, at least three points."""
        assert self.budget is not None
        support = np.flatnonzero(self.held)
        oldest = support[np.argsort(self.last[support], kind="stable")][: max(3, -(-self.budget // FORGOTTEN))]
        self.held[oldest] = False
        gone = ~(self.held[self.pairs.anchors] & self.held[self.pairs.candidates])
        self.pairs.steps[:, gone] = 0.0
        self.pairs.means[:, gone] = 0.0

    # -- mixing ----------------------------------------------------------------------------------------------

    def fork(self) -> "Support":
        """A copy to learn from here on."""
        out = copy.copy(self)
        out.pairs, out.held, out.last = copy.deepcopy((self.pairs, self.held, self.last))
        return out

    @classmethod
    def mixed(cls, forks: list["Support"], weights: Array) -> "Support":
        """Weighted mean of closed forks: their points together, equal ones once, each step times its fork's weight."""
        out, some = forks[0].fork(), [fork for fork in forks if fork.points is not None]
        if not some:
            return out
        points = np.concatenate([fork.points for fork in some])
        first = first_equal(points)
        kept = np.unique(first)
        place = np.searchsorted(kept, first)
        out.points, out.raw_selfs = points[kept], np.hstack([fork.raw_selfs for fork in some])[:, kept]
        out.held, out.last = np.ones(len(kept), bool), np.full(len(kept), -1)
        np.maximum.at(out.last, place, np.concatenate([fork.last for fork in some]))
        out.pairs, begin = Pairs.none(len(out.kernels)), 0
        for fork, weight in zip(forks, weights, strict=True):
            own, every = place[begin : begin + len(fork.held)], np.arange(len(fork.pairs))
            begin += len(own)
            out.pairs = out.pairs.with_more(fork.pairs.times(weight).kept(every, own))
        return out


def applied(pairs: Pairs, part: slice, weights: Array, rows: Array, column: Array, distances: bool,
            transposed: bool = True) -> Array:  # fmt: skip
    """S^T k (transposed) or S k for each row k of kernel values, S made of a part of the pairs; rows likewise."""
    out = np.empty_like(rows)
    first, second = pairs.anchors[part], pairs.candidates[part]
    if not transposed:
        first, second = second, first
    for a in range(0, len(rows), SPREAD_WIDTH):
        columns = np.ascontiguousarray(rows[a : a + SPREAD_WIDTH].T)
        image = np.zeros_like(columns)
        add_product(columns, first, second, weights, column, distances, image)
        out[a : a + SPREAD_WIDTH] = image.T
    return out


def first_equal(points: Array) -> Array:
    """For each point the number of the first that equals it, bit by bit."""
    flat = np.ascontiguousarray(points.reshape(len(points), -1))
    words = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
    _, first, inverse = np.unique(words, return_index=True, return_inverse=True)
    return first[inverse]
