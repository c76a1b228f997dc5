"""What every export is made of: the parts of a fitted learner as plain arrays."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import _validation as check
from .._core.locality import SHARED, UNSEEN
from .._typing import Array
from ..estimators import bare_learner, reader_of

# More entries than this are not exported: 1.6 GB in float64.
MOST_ENTRIES = 200_000_000


@dataclass(frozen=True, eq=False)
class Parts:
    """The matrices of theory 11: a query vector holds the form of each part, an item is made of shares of them.

    stack : (n_parts, d, d), M of each class in the order of `classes`, then U, then the start; or U alone.
    shares : (n_places, n_parts), an item's matrix as a sum of parts: one row per class, then U by itself, then a class
        never seen (at SHARED and UNSEEN, as Python and ONNX count from the end); [[1]] if the learner has one metric.
    """

    stack: Array
    shares: Array
    classes: Array
    is_distance: bool

    @classmethod
    def of(cls, model: Any, dtype: Any = None) -> "Parts":
        """Those of a fitted learner; `dtype` None keeps its precision."""
        learner = bare_learner(model)
        reader = reader_of(learner)
        if reader.regions is not None:
            raise TypeError(
                f"{reader.who} with regions cannot be exported as matrices: an item's metric depends on where it lies. "
                "Use item_vectors and query_vectors, which any inner-product search takes, or to_sql."
            )
        metric = reader.explicit("metric matrices")
        codes = [*reader.order.tolist(), SHARED, UNSEEN] if metric.locality.is_local else [SHARED]
        n = len(codes)
        if n * reader.n_features**2 > MOST_ENTRIES:
            raise ValueError(
                f"{reader.who} would export {n:,} matrices of {reader.n_features:,} x {reader.n_features:,}, more than "
                f"{MOST_ENTRIES:,} numbers. Use item_vectors and query_vectors, or put a PCA in front of the learner."
            )
        stack, shares = np.stack([metric.matrix(int(c)) for c in metric.resolve(np.array(codes, np.int32))]), np.eye(n)
        if n > 1:
            u = metric.unseen
            shares[-1, -2:] = u, 1.0 - u
            stack[-1] = stack[-2] if u == 1.0 else (stack[-1] - u * stack[-2]) / (1.0 - u)
        if dtype is not None:
            check.check_word("dtype", str(np.dtype(dtype)), ("float32", "float64"))
            stack = stack.astype(dtype)
        return cls(stack, shares.astype(stack.dtype), learner.classes_.copy(), reader.measure.is_distance)

    @property
    def is_local(self) -> bool:
        return len(self.shares) > 1

    @cached_property
    def matrices(self) -> Array:
        """(n_places, d, d): the matrix of an item by its place."""
        d = self.stack.shape[1]
        return (self.shares @ self.stack.reshape(len(self.stack), -1)).reshape(-1, d, d)

    def places(self, labels: Array) -> Array:
        """Row of `shares` that belongs to each label; UNSEEN for a class that the model does not know."""
        if not len(self.classes):
            return np.full(len(labels), UNSEEN)
        found = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
        return np.where(self.classes[found] == labels, found, UNSEEN)

    def item_vectors(self, rows: Array, labels: Array) -> Array:
        """[2 M_c x, -shares, -x^T M_c x] of rows with these labels, or M_c x; what torch and ONNX compute too."""
        rows = rows.astype(self.stack.dtype, copy=False)
        places = self.places(labels) if self.is_local else np.zeros(len(rows), np.intp)
        mapped = np.empty_like(rows)
        for place in np.unique(places):
            mapped[places == place] = rows[places == place] @ self.matrices[place].T
        if not self.is_distance:
            return mapped
        return np.hstack([2.0 * mapped, -self.shares[places], -(rows * mapped).sum(axis=1, keepdims=True)])
