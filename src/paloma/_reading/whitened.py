"""A metric on whitened rows, read in the units of X: rows are mapped, then the metric inside is asked (theory 21)."""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._typing import Array, Rows
from .._validation import read_only


def whitened(X: Rows, whitener: Array | None) -> Rows:
    """X W in the precision of X; a (d,) whitener scales columns, and CSR stays CSR. None: X itself."""
    if whitener is None:
        return X
    W = whitener.astype(X.dtype, copy=False)
    if sp.issparse(X):
        return X.multiply(W).tocsr()
    return read_only(X * W if W.ndim == 1 else X @ W)


def conjugated(matrix: Array, whitener: Array) -> Array:
    """W A W^T."""
    W = whitener.astype(matrix.dtype, copy=False)
    return W[:, None] * matrix * W if W.ndim == 1 else W @ matrix @ W.T


class Whitened:
    """The metric W M_c W^T, by asking `inner` for M_c on rows X W."""

    def __init__(self, inner: Any, whitener: Array) -> None:
        self.inner, self.whitener = inner, whitener
        self.locality, self.symmetric, self.of_differences = inner.locality, inner.symmetric, inner.of_differences
        self._matrices: dict[int, Array] = {}

    def mapped(self, X: Rows) -> Rows:
        """Rows as the metric inside takes them."""
        return whitened(X, self.whitener)

    @property
    def unseen(self) -> float:
        return float(self.inner.unseen)

    def resolve(self, codes: Array) -> Array:
        return self.inner.resolve(codes)

    def matrix(self, code: int) -> Array:
        """M of a resolved code, in the units of X."""
        if code not in self._matrices:
            self._matrices[code] = conjugated(self.inner.matrix(code), self.whitener)
        return self._matrices[code]

    def values(self, left: Rows, right: Rows, codes: Array) -> Array:
        """Squared distances of differences, or similarities; float64."""
        side = self.mapped(left)
        return self.inner.values(side, side if right is left else self.mapped(right), codes)

    @property
    def bounded(self) -> bool:
        return bool(self.inner.bounded)

    def nearest(self, differences: Rows, codes: Array, k: int) -> tuple[Array, Array]:
        return self.inner.nearest(self.mapped(differences), codes, k)

    def item_side(self, X: Rows, codes: Array) -> tuple[tuple[Any, ...], Array]:
        return self.inner.item_side(self.mapped(X), codes)

    def images(self, X: Rows, codes: Array) -> tuple[tuple[Any, ...], Array]:
        return self.inner.images(self.mapped(X), codes)

    def query_side(self, Q: Rows, codes: Array | None = None) -> tuple[Any, ...]:
        return self.inner.query_side(self.mapped(Q), codes)

    def query_forms(self, Q: Rows, codes: Array) -> Array:
        return self.inner.query_forms(self.mapped(Q), codes)

    @property
    def has_floor(self) -> bool:
        return bool(self.inner.has_floor)

    def floor(self, Q: Rows, codes: Array) -> tuple[Array, Array]:
        return self.inner.floor(self.mapped(Q), codes)

    def some_forms(self, Q: Rows, codes: Array, wanted: Array) -> Array:
        return self.inner.some_forms(self.mapped(Q), codes, wanted)

    def start_forms(self, Q: Rows) -> Array:
        return self.inner.start_forms(self.mapped(Q))

    def items(self, X: Rows, codes: Array) -> Any:
        """Rows ready to be searched, the way the metric inside searches."""
        return self.inner.items(X, codes, by=self)

    def at_start(self) -> "Whitened":
        start = self.inner.at_start()
        return self if start is self.inner else Whitened(start, self.whitener)

    @property
    def n_components(self) -> int:
        """Rows of `components`."""
        return int(self.inner.n_components)

    def components(self) -> Array:
        """Map whose Euclidean distances are those of the shared part: C W^T, C that of the metric inside."""
        inside = self.inner.components()
        W = self.whitener.astype(inside.dtype, copy=False)
        return inside * W if W.ndim == 1 else inside @ W.T

    def transform(self, X: Rows) -> Array:
        """Rows whose Euclidean distances are those of the shared part."""
        return self.inner.transform(self.mapped(X))


def widened(whitener: Array, d: int) -> Array:
    """The same for more features, which it leaves as they are."""
    more = d - len(whitener)
    if whitener.ndim == 1:
        return np.pad(whitener, (0, more), constant_values=1.0)
    out = np.eye(d)
    out[: len(whitener), : len(whitener)] = whitener
    return out


def on_whitened(space: Any, whitener: Array | None) -> Any:
    """A representation whose start, if it is a matrix A in the units of X, is W^-1 A W^-T: as whitened rows see it."""
    start = None if whitener is None else space.start(len(whitener), np.dtype(float))
    if start is None or whitener is None:
        return space
    if whitener.ndim == 1:
        return replace(space, init=start / whitener[:, None] / whitener)
    inverse = np.linalg.inv(whitener)
    return replace(space, init=inverse @ start @ inverse.T)
