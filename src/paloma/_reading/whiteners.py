"""What rows are multiplied by before they are learned, W, as it is held; and metrics of rows X W (theory 21)."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from .._typing import Array, Rows
from .._validation import read_only

# Rows that are mapped at a time: what lies between stays in a cache.
TILE = 256


@dataclass(frozen=True, eq=False)
class Full:
    """A (d, d) matrix."""

    matrix: Array

    def mapped(self, X: Rows) -> Rows:
        """X W in the precision of X."""
        return read_only(X @ self.matrix.astype(X.dtype, copy=False))

    def around(self, A: Array) -> Array:
        """W A W^T."""
        W = self.matrix.astype(A.dtype, copy=False)
        return W @ A @ W.T

    def undone(self, A: Array) -> Array:
        """W^-1 A W^-T."""
        inverse = np.linalg.inv(self.matrix)
        return inverse @ A @ inverse.T

    def under(self, C: Array) -> Array:
        """C W^T."""
        return C @ self.matrix.astype(C.dtype, copy=False).T

    def divided(self, units: Array) -> Self:
        """What maps X as this one maps X / units, up to a factor that leaves the determinant as it is."""
        return replace(self, matrix=_share(units)[:, None] * self.matrix)

    def widened(self, d: int) -> Self:
        """The same for more features, which it leaves as they are."""
        out, own = np.eye(d), len(self.matrix)
        out[:own, :own] = self.matrix
        return replace(self, matrix=out)

    def array(self) -> Array:
        """W, (d, d), or (d,) if it is diagonal."""
        return self.matrix.copy()

    def parts(self) -> dict[str, Array]:
        """The arrays that it is made of, by their names in model files."""
        return {"whitener": self.matrix}


@dataclass(frozen=True, eq=False)
class Columns:
    """diag(weights): the only form that keeps CSR rows sparse."""

    weights: Array

    def mapped(self, X: Rows) -> Rows:
        w = self.weights.astype(X.dtype, copy=False)
        return X.multiply(w).tocsr() if sp.issparse(X) else read_only(X * w)

    def around(self, A: Array) -> Array:
        w = self.weights.astype(A.dtype, copy=False)
        return w[:, None] * A * w

    def undone(self, A: Array) -> Array:
        return A / self.weights[:, None] / self.weights

    def under(self, C: Array) -> Array:
        return C * self.weights.astype(C.dtype, copy=False)

    def divided(self, units: Array) -> Self:
        return replace(self, weights=_share(units) * self.weights)

    def widened(self, d: int) -> Self:
        return replace(self, weights=np.pad(self.weights, (0, d - len(self.weights)), constant_values=1.0))

    def array(self) -> Array:
        return self.weights.copy()

    def parts(self) -> dict[str, Array]:
        return {"column_whitener": self.weights}


@dataclass(frozen=True, eq=False)
class LowRank:
    """Columns, then I + V diag(gains) V^T with orthonormal columns V, (d, r): no d x d matrix is made."""

    columns: Columns
    directions: Array
    gains: Array

    def mapped(self, X: Rows) -> Rows:
        mapped = np.empty(X.shape, X.dtype)
        for a in range(0, len(mapped), TILE):
            mapped[a : a + TILE] = self._stretched(self.columns.mapped(X[a : a + TILE]), self.gains)
        return read_only(mapped)

    def around(self, A: Array) -> Array:
        return self.columns.around(self._stretched(self._stretched(A, self.gains).T, self.gains).T)

    def undone(self, A: Array) -> Array:
        inside, back = self.columns.undone(A), -self.gains / (1.0 + self.gains)
        return self._stretched(self._stretched(inside, back).T, back).T

    def under(self, C: Array) -> Array:
        return self.columns.under(self._stretched(C, self.gains))

    def divided(self, units: Array) -> Self:
        return replace(self, columns=self.columns.divided(units))

    def widened(self, d: int) -> Self:
        directions = np.pad(self.directions, ((0, d - len(self.directions)), (0, 0)))
        return replace(self, columns=self.columns.widened(d), directions=directions)

    def array(self) -> Array:
        return self.mapped(np.eye(len(self.directions))).copy()

    def parts(self) -> dict[str, Array]:
        return {**self.columns.parts(), "whitener_directions": self.directions, "whitener_gains": self.gains}

    def _stretched(self, rows: Any, gains: Array) -> Array:
        """rows (I + V diag(gains) V^T)."""
        V = self.directions.astype(rows.dtype, copy=False)
        added = (rows @ V * gains.astype(rows.dtype, copy=False)) @ V.T
        added += rows.toarray() if sp.issparse(rows) else rows
        return added


Whitener = Full | Columns | LowRank
# What `parts` may name; together go the first one, the second one, or all but the first.
NAMES = "whitener", "column_whitener", "whitener_directions", "whitener_gains"


def whitener_of(matrix: Array | None, weights: Array | None, directions: Any, gains: Any) -> Whitener | None:
    """The whitener of such parts, in the order of NAMES; None: there is none."""
    if matrix is not None:
        return Full(matrix)
    if weights is None:
        return None
    columns = Columns(weights)
    return columns if directions is None else LowRank(columns, directions, gains)


def _share(units: Array) -> Array:
    logs = np.log(units)
    return np.exp(logs.mean() - logs)


# -- rows X W, and metrics of them -------------------------------------------------------------------------------------


def whitened(X: Rows, whitener: Whitener | None) -> Rows:
    """X W in the precision of X; None: X itself."""
    return X if whitener is None else whitener.mapped(X)


def _asked(name: str) -> Any:
    """An attribute of the metric inside, which has nothing to do with rows."""
    return property(lambda self: getattr(self.inner, name))


def _mapped_first(name: str) -> Any:
    """A method of the metric inside, which is given mapped rows and what else it takes."""

    def method(self: "Whitened", rows: Rows, *others: Any) -> Any:
        return getattr(self.inner, name)(self.mapped(rows), *others)

    return method


class Whitened:
    """A metric on whitened rows, W M_c W^T in the units of X: rows are mapped, then `inner` is asked for M_c.

    See `paloma._core.space.ExplicitMetric`.
    """

    locality, symmetric, of_differences = _asked("locality"), _asked("symmetric"), _asked("of_differences")
    unseen, bounded, has_floor = _asked("unseen"), _asked("bounded"), _asked("has_floor")
    resolve, n_components = _asked("resolve"), _asked("n_components")
    nearest, floor, transform = _mapped_first("nearest"), _mapped_first("floor"), _mapped_first("transform")
    item_side, query_side, images = _mapped_first("item_side"), _mapped_first("query_side"), _mapped_first("images")
    query_forms, some_forms = _mapped_first("query_forms"), _mapped_first("some_forms")
    start_forms = _mapped_first("start_forms")

    def __init__(self, inner: Any, whitener: Whitener) -> None:
        self.inner, self.whitener = inner, whitener
        self._matrices: dict[int, Array] = {}

    def mapped(self, X: Rows) -> Rows:
        """Rows as the metric inside takes them."""
        return self.whitener.mapped(X)

    def matrix(self, code: int) -> Array:
        """M of a resolved code, in the units of X."""
        if code not in self._matrices:
            self._matrices[code] = self.whitener.around(self.inner.matrix(code))
        return self._matrices[code]

    def values(self, left: Rows, right: Rows, codes: Array) -> Array:
        """Squared distances of differences, or similarities; float64."""
        side = self.mapped(left)
        return self.inner.values(side, side if right is left else self.mapped(right), codes)

    def items(self, X: Rows, codes: Array) -> Any:
        """Rows ready to be searched, the way the metric inside searches."""
        return self.inner.items(X, codes, by=self)

    def at_start(self) -> "Whitened":
        start = self.inner.at_start()
        return self if start is self.inner else Whitened(start, self.whitener)

    def components(self) -> Array:
        """Map whose Euclidean distances are those of the shared part: C W^T, C that of the metric inside."""
        return self.whitener.under(self.inner.components())


def on_whitened(space: Any, whitener: Whitener | None, d: int) -> Any:
    """A representation whose start, if it is a matrix A in the units of X, is W^-1 A W^-T: as whitened rows see it."""
    start = None if whitener is None else space.start(d, np.dtype(float))
    if start is None or whitener is None:
        return space
    return replace(space, init=whitener.undone(start))
