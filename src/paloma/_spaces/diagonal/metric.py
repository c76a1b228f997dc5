"""The read-out of a diagonal metric: one weight per feature and class, in the units of X."""

import warnings
from copy import copy
from typing import Any, Self

import numpy as np

from ..._core.locality import SHARED, UNSEEN, Locality
from ..._rows import products
from ..._search.items import LocalItems
from ..._typing import Array, Rows
from ..dense.metric import ZERO, groups, refuse_dense, resolved, unseen
from .weights import Weights


class DiagonalMetric:
    """M_c = diag(m_c), each m_c built once and when first needed; parameters as for `DenseMetric`."""

    symmetric = of_differences = True
    bounded = has_floor = False

    def __init__(
        self, state: Weights, locality: Locality, cone: str, blend: float, factor: float,
        strength: tuple[float, float] = (1.0, 1.0),
    ) -> None:  # fmt: skip
        self._state, self._cone, self._blend, self._strength = state, cone, blend, strength
        self.locality = locality
        self._square, self._own = state.start.dtype.type(factor * factor), state.own()
        self._diagonals: dict[int, Array] = {}

    @property
    def unseen(self) -> float:
        return unseen(self.locality, self._strength)

    def resolve(self, codes: Array) -> Array:
        """Codes as this metric tells them apart: one shared code if global, UNSEEN for classes never updated."""
        return resolved(codes, self._own, self.locality.is_local and self._strength[1] > 0.0)

    def diagonal(self, code: int) -> Array:
        """m of a resolved code."""
        if code not in self._diagonals:
            self._diagonals[code] = self._build(code) * self._square
            if self._cone and not self._diagonals[code].any():
                warnings.warn(ZERO, RuntimeWarning, stacklevel=2)
        return self._diagonals[code]

    def _build(self, code: int) -> Array:
        """The plane of theory 22, in scaled units."""
        start, shared, clip = self._state.start, self._component(None), self._cone == "effective"
        number, (s, t) = start.dtype.type, self._strength
        common = number(1.0 - s) * start + number(s if code == SHARED else s - t) * _clipped(shared, clip)
        if code == SHARED:
            return common
        if code == UNSEEN:
            return number(self.unseen) * self._build(SHARED) + number(1.0 - self.unseen) * start
        local = number(self.locality.lam) * shared + number(self.locality.mu) * self._component(code)
        return common + number(t) * _clipped(local, clip)

    def _component(self, code: int | None) -> Array:
        return _clipped(self._state.readout(code, self._blend), self._cone == "components")

    # -- values and search -------------------------------------------------------------------------------------------

    def values(self, left: Array, right: Array, codes: Array) -> Array:
        """sum_s m_s (p_s - q_s)^2 of each difference."""
        out = np.empty(len(left))
        for code, rows in groups(self.resolve(codes)):
            out[rows] = products(left[rows] * self.diagonal(code), right[rows])
        return out

    def images(self, X: Array, codes: Array) -> tuple[tuple[Array], Array]:
        """M_c x of the items, whose products with the queries are q^T M_c x, and x^T M_c x."""
        mapped = np.empty(X.shape, X.dtype)
        for code, rows in groups(self.resolve(codes)):
            mapped[rows] = X[rows] * self.diagonal(code)
        return (mapped,), products(X, mapped)

    item_side = images

    def query_side(self, Q: Array, codes: Array | None = None) -> tuple[Array]:
        """Factors of the queries: themselves."""
        return (Q,)

    def query_forms(self, Q: Array, codes: Array) -> Array:
        """q^T M_c q for each query and each of these resolved codes."""
        forms = [products(Q * self.diagonal(int(code)), Q) for code in codes]
        return np.stack(forms, axis=1) if forms else np.empty((len(Q), 0))

    def start_forms(self, Q: Array) -> Array:
        """q^T M q under the start."""
        return products(Q * (self._state.start * self._square), Q)

    def items(self, X: Rows, codes: Array, by: Any = None) -> LocalItems:
        """Rows ready to be searched."""
        return LocalItems(self, X, codes, by)

    def at_start(self) -> Self:
        """The same at strength 0."""
        start = copy(self)
        start._strength, start._diagonals = (0.0, 0.0), {}
        return start

    # -- maps and matrices -------------------------------------------------------------------------------------------

    def transform(self, X: Array) -> Array:
        """Rows whose Euclidean distances are those of the shared part, feature by feature."""
        return X * self.roots()

    def roots(self) -> Array:
        """The diagonal of the map of `transform`."""
        return np.sqrt(np.maximum(self.diagonal(SHARED), 0.0))

    @property
    def n_components(self) -> int:
        return len(self._state.start)

    def components(self) -> Array:
        """The map of `transform` as a dense matrix; refused if it would not fit."""
        return dense(self.roots())

    def matrix(self, code: int) -> Array:
        """M of a resolved code as a dense matrix; refused if it would not fit."""
        return dense(self.diagonal(code))


def dense(diagonal: Array) -> Any:
    """diag(m); refused if it would not fit."""
    refuse_dense(len(diagonal), "feature_weights_ is its diagonal")
    return np.diag(diagonal)


def _clipped(weights: Array, clip: bool) -> Array:
    return np.maximum(weights, 0.0) if clip else weights
