"""A metric on whitened rows, read in the units of X: rows are mapped, then the metric inside is asked (theory 21)."""

from dataclasses import replace
from typing import Any

import numpy as np

from .._typing import Array, Rows
from .whiteners import Whitener


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
    """The metric W M_c W^T, by asking `inner` for M_c on rows X W; see `paloma._core.space.ExplicitMetric`."""

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
