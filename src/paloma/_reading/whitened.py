"""A metric on whitened rows, read in the units of X: rows are mapped, then the metric inside is asked (theory 21)."""

from dataclasses import replace
from typing import Any

import numpy as np

from .._typing import Array, Rows
from .whiteners import Whitener


def whitened(X: Rows, whitener: Whitener | None) -> Rows:
    """X W in the precision of X; None: X itself."""
    return X if whitener is None else whitener.mapped(X)


class Whitened:
    """The metric W M_c W^T, by asking `inner` for M_c on rows X W."""

    def __init__(self, inner: Any, whitener: Whitener) -> None:
        self.inner, self.whitener = inner, whitener
        self.locality, self.symmetric, self.of_differences = inner.locality, inner.symmetric, inner.of_differences
        self._matrices: dict[int, Array] = {}

    def mapped(self, X: Rows) -> Rows:
        """Rows as the metric inside takes them."""
        return self.whitener.mapped(X)

    @property
    def unseen(self) -> float:
        return float(self.inner.unseen)

    def resolve(self, codes: Array) -> Array:
        return self.inner.resolve(codes)

    def matrix(self, code: int) -> Array:
        """M of a resolved code, in the units of X."""
        if code not in self._matrices:
            self._matrices[code] = self.whitener.around(self.inner.matrix(code))
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
        return self.whitener.under(self.inner.components())

    def transform(self, X: Rows) -> Array:
        """Rows whose Euclidean distances are those of the shared part."""
        return self.inner.transform(self.mapped(X))


def on_whitened(space: Any, whitener: Whitener | None, d: int) -> Any:
    """A representation whose start, if it is a matrix A in the units of X, is W^-1 A W^-T: as whitened rows see it."""
    start = None if whitener is None else space.start(d, np.dtype(float))
    if start is None or whitener is None:
        return space
    return replace(space, init=whitener.undone(start))
