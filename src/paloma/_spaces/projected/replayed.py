"""A journal read without matrices of its classes (theory 9): for very many classes.

With the points of the journal in the coordinates of the basis, what a class learned is a weighted sum of squares of
differences of inner products, which all classes share. P_+ adds the few directions of negative eigenvalues:

    z^T P_+(A_c) z = z^T (lam U + mu I) z - mu^2 sum_p step_p (y_a - y_b)^2 + |F_c z|^2,    y = points z,

over the pairs p = (a, b) of the class, and F_c^T F_c the negative part of A_c = lam U + mu L_c turned positive.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._compiled.dense import mirror_upper, pair_forms
from ..._compiled.pairs import differences
from ..._compiled.scratch import Scratch
from ..._core.cone import smaller_side
from ..._rows import row_products
from ..._threads import sharing
from ..._typing import Array
from ..._validation import read_only
from ..dense.matrices import PairRows
from ..dense.metric import ZERO, DenseMetric, groups
from ..pairs import Pairs

# Queries whose products with all points are held at a time: they stay in a cache.
TILE = 128


@dataclass(eq=False)
class Replay:
    """What a read-out asks of matrices, of a distance: U, and the L_c of a class when it is asked for.

    points : in the coordinates of the basis, in scaled units. steps : the net step of each pair. mu : weight of L_c.
    """

    points: Array
    pairs: Pairs
    steps: Array
    mu: float
    shared: Array

    symmetric = plain = True

    @cached_property
    def start(self) -> Array:
        return np.eye(self.points.shape[1], dtype=self.points.dtype)

    def own(self) -> Array:
        """As in `Matrices`."""
        own = np.zeros(int(self.pairs.codes.max(initial=-1)) + 2, bool)
        own[self.pairs.codes[self.pairs.codes >= 0]] = True
        return own

    def readout(self, code: int | None, blend: float) -> Array:
        """U (code None) or L of a class."""
        return self.shared if code is None else self.moved(self.start.copy(), code, self.mu)

    def blended(self, code: int, blend: float) -> list[tuple[float, Array]]:
        """The same as a weighted sum."""
        return [(1.0, self.readout(code, blend))]

    def moved(self, matrix: Array, code: int, weight: float) -> Array:
        """matrix - weight sum_p step_p v v^T over the pairs of a class, v their differences; in place."""
        rows, steps = self.of_class(code)
        PairRows(rows, rows, Scratch()).subtract([(matrix, slice(0, len(rows)))], weight * steps, True)
        mirror_upper(matrix)
        return matrix

    def of_class(self, code: int) -> tuple[Array, Array]:
        """The differences of the pairs of a class, and their steps."""
        part = self.pairs.of_class(code)
        rows = np.empty((part.stop - part.start, self.points.shape[1]), self.points.dtype)
        one = self.points.dtype.type(1.0)
        differences(self.points, self.pairs.anchors[part], self.pairs.candidates[part], one, rows)
        return rows, self.steps[part]


class ReplayedMetric(DenseMetric):
    """The read-out of M_c made p.s.d. as a whole, values and search factors without its matrix."""

    _state: Any  # a Replay
    _by_halves = False  # there are no matrices to read
    _known: tuple[list[int], Array, Array, Array, Array] | None = None

    @cached_property
    def _factors(self) -> dict[int, tuple[bool, Array]]:
        return {}

    @property
    def _unit(self) -> float:
        return self._strength[1] * self._square

    @cached_property
    def _rest(self) -> Array:
        """What the metrics of all classes have in common beside P_+(A_c)."""
        return self._sum(*self._common(False))

    @cached_property
    def _most(self) -> Array:
        """The same with what the A_c have in common."""
        lam, mu = self.locality.lam, self.locality.mu
        return self._sum((1.0, self._rest), (self._unit * lam, self._shared), (self._unit * mu, self._state.start))

    def _factor(self, code: int) -> tuple[bool, Array]:
        """(True, F) with P_+(A_c) = A_c + F^T F, or (False, F) with P_+(A_c) = F^T F; in the units of X."""
        if code not in self._factors:
            lam, mu = self.locality.lam, self.locality.mu
            matrix = self._state.moved(self._sum((lam, self._shared), (mu, self._state.start)), code, mu * mu)
            negative, values, vectors = smaller_side(matrix)
            factor = (vectors * np.sqrt(np.abs(values) * values.dtype.type(self._unit))).T
            if not (negative or len(factor) or self._rest.any()):
                warnings.warn(ZERO, RuntimeWarning, stacklevel=5)
            self._factors[code] = negative, np.ascontiguousarray(factor)
        return self._factors[code]

    def _mapped(self, X: Any, codes: Array) -> Array:
        """M_c x of each row under the metric of its resolved code."""
        mapped, members = np.empty(X.shape, X.dtype), groups(codes)
        with sharing(max((len(rows) for _, rows in members), default=0), *self._state.start.shape):
            for code, rows in members:
                mapped[rows] = X[rows] @ self.matrix(code) if code < 0 else self._image(X[rows], code)
        return mapped

    def _image(self, rows: Array, code: int) -> Array:
        """Rows under the metric of one class."""
        added, factor = self._factor(code)
        image = rows @ (self._most if added else self._rest) + (rows @ factor.T) @ factor
        if added:
            pairs, steps = self._state.of_class(code)
            image -= ((rows @ pairs.T) * (self._unit * self._state.mu**2 * steps).astype(rows.dtype)) @ pairs
        return image

    def query_forms(self, Q: Array, codes: Array) -> Array:
        """q^T M_c q for each query and each of these resolved codes, (n_queries, n_codes)."""
        forms, classes = np.empty((Q.shape[0], len(codes))), codes >= 0
        forms[:, ~classes] = super().query_forms(Q, codes[~classes])
        if not classes.any():
            return forms
        with sharing(TILE, *self._state.start.shape):
            for a in range(0, Q.shape[0], TILE):
                forms[a : a + TILE, classes] = self._class_forms(Q[a : a + TILE], codes[classes].tolist())
        return forms

    def _class_forms(self, Q: Array, codes: list[int]) -> Array:
        factors = [self._factor(code) for code in codes]
        forms = row_products(Q @ self._most, Q)[None] - self._learned(Q, codes)
        for k, (added, factor) in enumerate(factors):
            images = Q @ factor.T
            forms[k] = (forms[k] if added else row_products(Q @ self._rest, Q)) + row_products(images, images)
        return forms.T

    def _learned(self, Q: Array, codes: list[int]) -> Array:
        """What the pairs of classes take away from the forms, (n_codes, n_queries)."""
        if self._known is None or self._known[0] != codes:
            self._known = codes, *self._pairs_of(codes)
        _, points, ends, steps, edges = self._known
        out = np.zeros((len(codes), len(Q)))
        pair_forms(read_only(points @ Q.T), ends, steps, edges, out)
        return out

    def _pairs_of(self, codes: list[int]) -> tuple[Array, Array, Array, Array]:
        """The points of the pairs of classes, about their mean; the two of each pair, its step, where classes end."""
        pairs, parts = self._state.pairs, [self._state.pairs.of_class(code) for code in codes]
        rows = np.concatenate([np.arange(part.start, part.stop) for part in parts])
        both = np.stack([pairs.anchors[rows], pairs.candidates[rows]])
        touched, ends = np.unique(both, return_inverse=True)
        points = self._state.points[touched]
        points = points - points.mean(axis=0)
        edges = np.cumsum([part.stop - part.start for part in parts])
        return points, ends.reshape(both.shape), self._unit * self._state.mu**2 * self._state.steps[rows], edges
