"""The read-out of several modalities: d(q, x) = sum_r theta_r d_r(q, x), each on its own columns (theory 5)."""

import warnings
from typing import Any

import numpy as np

from ..._core.locality import SHARED, UNSEEN, Locality
from ..._rows import products
from ..._search.items import LocalItems
from ..._typing import Array, Rows
from ..dense.matrices import Matrices
from ..dense.metric import ZERO, DenseMetric, groups, refuse_dense, resolved


class GramMetric:
    """M_c = F_c^T F_c with F_c = [sqrt(lam) W; sqrt(mu) W_c]: p.s.d. by itself, and never a d x d matrix.

    The factors are the first `rank` rows of the columns `part` of the matrices in `state`; blend as in `DenseMetric`.
    """

    symmetric = of_differences = True
    bounded = has_floor = False

    def __init__(
        self, state: Matrices, part: slice, rank: int, locality: Locality, blend: float, factor: float
    ) -> None:
        self._state, self._block, self._blend = state, (slice(0, rank), part), blend
        self.locality = locality
        self._factor, self._own = state.start.dtype.type(factor), state.own()
        self._factors: dict[int, Array] = {}

    @property
    def unseen(self) -> float:
        return float(self.locality.lam)

    def resolve(self, codes: Array) -> Array:
        """As in `DenseMetric`."""
        return resolved(codes, self._own, self.locality.is_local)

    def factor(self, code: int) -> Array:
        """F of a resolved code, in the units of X."""
        if code not in self._factors:
            self._factors[code] = np.ascontiguousarray(self._build(code)) * self._factor
            if not self._factors[code].any():
                warnings.warn(ZERO, RuntimeWarning, stacklevel=2)
        return self._factors[code]

    def _build(self, code: int) -> Array:
        shared = self._state.readout(None, self._blend)[self._block]
        if code == SHARED:
            return shared
        local = self._state.start if code == UNSEEN else self._state.readout(code, self._blend)
        weights = np.sqrt([self.locality.lam, self.locality.mu]).astype(shared.dtype)
        return np.vstack([weights[0] * shared, weights[1] * local[self._block]])

    def matrix(self, code: int) -> Array:
        """M_c as a dense matrix."""
        return self.factor(code).T @ self.factor(code)

    def values(self, left: Array, right: Array, codes: Array) -> Array:
        """Squared distances of differences; float64."""
        out = np.empty(len(left))
        for code, rows in groups(self.resolve(codes)):
            z = left[rows] @ self.factor(code).T
            out[rows] = products(z, z)
        return out

    def images(self, X: Array, codes: Array) -> tuple[tuple[Array, ...], Array]:
        """M_c x of each row, and x^T M_c x."""
        mapped, constants = np.empty(X.shape, X.dtype), np.empty(len(X))
        for code, rows in groups(self.resolve(codes)):
            z = X[rows] @ self.factor(code).T
            mapped[rows], constants[rows] = z @ self.factor(code), products(z, z)
        return (mapped,), constants

    def query_forms(self, Q: Array, codes: Array) -> Array:
        """q^T M_c q for each query and each of these resolved codes."""
        images = [Q @ self.factor(int(code)).T for code in codes]
        return np.stack([products(z, z) for z in images], axis=1) if images else np.empty((len(Q), 0))

    def start_forms(self, Q: Array) -> Array:
        """q^T M q under the start."""
        z = Q @ (self._state.start[self._block] * self._factor).T
        return products(z, z)

    @property
    def n_components(self) -> int:
        """Rows of `components`."""
        return int(self._block[0].stop)

    def components(self) -> Array:
        """(rank, d) map whose Euclidean distances are those of the shared part."""
        return self.factor(SHARED)


class GroupedMetric:
    """Metrics on groups of columns, added up with weights: block-diagonal if the groups do not overlap."""

    symmetric = of_differences = True
    bounded = has_floor = False

    def __init__(
        self, members: list[DenseMetric] | list[GramMetric], columns: list[Array], weights: Array, d: int
    ) -> None:
        self.locality, self.d, self._columns = members[0].locality, d, columns
        self._members: list[tuple[Any, Array, float]] = list(zip(members, columns, weights.tolist(), strict=True))

    @property
    def unseen(self) -> float:
        return min(float(metric.unseen) for metric, _, _ in self._members)

    def resolve(self, codes: Array) -> Array:
        """A class is told apart if one modality does."""
        resolved = np.stack([metric.resolve(codes) for metric, _, _ in self._members])
        return resolved.max(axis=0)

    def matrix(self, code: int) -> Array:
        """M_c over all columns, 0 where a column is in no group."""
        refuse_dense(self.d)
        out = np.zeros((self.d, self.d), self._members[0][0].matrix(SHARED).dtype)
        for metric, columns, weight in self._members:
            inside = metric.matrix(int(metric.resolve(np.array([code]))[0]))
            out[np.ix_(columns, columns)] += weight * inside
        return out

    def values(self, left: Array, right: Array, codes: Array) -> Array:
        """Squared distances of differences; float64."""
        out = np.zeros(len(left))
        for metric, columns, weight in self._members:
            v = left[:, columns]
            out += weight * metric.values(v, v, codes)
        return out

    def images(self, X: Array, codes: Array) -> tuple[tuple[Array, ...], Array]:
        """M_c x of each row, and x^T M_c x."""
        mapped, constants = np.zeros(X.shape, X.dtype), np.zeros(len(X))
        for metric, columns, weight in self._members:
            (part,), forms = metric.images(X[:, columns], codes)
            mapped[:, columns] += weight * part
            constants += weight * forms
        return (mapped,), constants

    item_side = images

    def query_side(self, Q: Array, codes: Array | None = None) -> tuple[Array, ...]:
        """The queries themselves."""
        return (Q,)

    def query_forms(self, Q: Array, codes: Array) -> Array:
        """q^T M_c q for each query and each of these resolved codes."""
        forms = [w * m.query_forms(Q[:, columns], m.resolve(codes)) for m, columns, w in self._members]
        return np.sum(forms, axis=0)

    def start_forms(self, Q: Array) -> Array:
        """q^T M q under the start."""
        return np.sum([w * metric.start_forms(Q[:, columns]) for metric, columns, w in self._members], axis=0)

    def items(self, X: Rows, codes: Array, by: Any = None) -> LocalItems:
        """Rows ready to be searched."""
        return LocalItems(self, X, codes, by)

    def at_start(self) -> "GroupedMetric":
        """All metrics at strength 0, with equal weights; low-rank ones as they are."""
        members = [metric for metric, _, _ in self._members]
        if isinstance(members[0], GramMetric):
            return self
        weights = np.full(len(members), 1.0 / len(members))
        return GroupedMetric([metric.at_start() for metric in members], self._columns, weights, self.d)

    @property
    def n_components(self) -> int:
        """Rows of `components`."""
        return sum(metric.n_components for metric, _, _ in self._members)

    def components(self) -> Array:
        """Map whose Euclidean distances are those of the shared parts: rows of all modalities, one below the other."""
        blocks = []
        for metric, columns, weight in self._members:
            inside = metric.components()
            blocks.append(np.zeros((len(inside), self.d), inside.dtype))
            blocks[-1][:, columns] = weight**0.5 * inside
        return np.vstack(blocks)

    def transform(self, X: Array) -> Array:
        """Rows whose Euclidean distances are those of the shared parts."""
        parts = [(X[:, c] @ metric.components().T) * w**0.5 for metric, c, w in self._members]
        return np.hstack(parts).astype(X.dtype, copy=False)
