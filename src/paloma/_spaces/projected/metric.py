"""Identity plus low rank: a metric that is never a d x d matrix (theory 9 and 11).

With an orthonormal basis B (d x q) and a metric M~_c on the coordinates z = B^T x, M_c = B M~_c B^T + f^2 (I - B B^T):
outside the basis nothing was learned, and the metric is the start. So a value is that of M~_c on z plus f^2 times what
the plain inner product has beyond z's.
"""

from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..._rows import products, row_products
from ..._search.items import LocalItems
from ..._typing import Array, Rows
from ..dense.metric import DenseMetric, refuse_dense


class LowRankMetric:
    """A metric on coordinates, and the identity beyond them; rows may be dense or CSR."""

    bounded = has_floor = False

    def __init__(self, inner: DenseMetric, basis: Array, factor: float) -> None:
        self.inner, self.basis = inner, basis
        self.locality, self.symmetric = inner.locality, inner.symmetric
        self.of_differences = inner.symmetric
        self._square = basis.dtype.type(factor * factor)

    @property
    def unseen(self) -> float:
        return self.inner.unseen

    def resolve(self, codes: Array) -> Array:
        return self.inner.resolve(codes)

    def coordinates(self, X: Any) -> Array:
        """z = B^T x of each row."""
        return np.ascontiguousarray(X @ self.basis)

    def matrix(self, code: int) -> Array:
        """M_c as a dense matrix; refused if it would not fit."""
        d = len(self.basis)
        refuse_dense(d)
        inside = self.inner.matrix(code) - self._square * np.eye(self.basis.shape[1], dtype=self.basis.dtype)
        return self.basis @ inside @ self.basis.T + self._square * np.eye(d, dtype=self.basis.dtype)

    def values(self, left: Any, right: Any, codes: Array) -> Array:
        """<M_c, phi> of each pair."""
        z = self.coordinates(left)
        w = z if right is left else self.coordinates(right)
        return self.inner.values(z, w, codes) + self._square * (products(left, right) - row_products(z, w))

    def item_side(self, X: Any, codes: Array) -> tuple[tuple[Any, ...], Array]:
        """Factors of the items, whose products with `query_side` add up to q^T M_c x, and x^T M_c x."""
        z = self.coordinates(X)
        (mapped,), constants = self.inner.item_side(z, codes)
        return (X, mapped - self._square * z), constants + self._square * (products(X, X) - row_products(z, z))

    def images(self, X: Any, codes: Array) -> tuple[tuple[Any, ...], Array]:
        """Factors of the items for search vectors: the scale stands with them, so that all columns are of a size."""
        (rows, mapped), constants = self.item_side(X, codes)
        return (rows * self._square, mapped), constants

    def query_side(self, Q: Any, codes: Array | None = None) -> tuple[Any, ...]:
        """Factors of the queries; without codes, those that go with `images`."""
        return (Q if codes is None else Q * self._square), self.coordinates(Q)

    def query_forms(self, Q: Any, codes: Array) -> Array:
        """q^T M_c q for each query and each of these resolved codes."""
        z = self.coordinates(Q)
        beyond = self._square * (products(Q, Q) - row_products(z, z))
        return self.inner.query_forms(z, codes) + beyond[:, None]

    def start_forms(self, Q: Any) -> Array:
        """q^T M q under the start."""
        return self._square * products(Q, Q)

    def items(self, X: Rows, codes: Array, by: Any = None) -> LocalItems:
        """Rows ready to be searched."""
        return LocalItems(self, X, codes, by)

    def at_start(self) -> Self:
        """The same at strength 0."""
        start = copy(self)
        start.inner = self.inner.at_start()
        return start

    @property
    def n_components(self) -> int:
        """Rows of `components`."""
        return len(self.basis)

    def components(self) -> Array:
        """The symmetric root of the shared part, (d, d)."""
        d = len(self.basis)
        refuse_dense(d)
        return self.transform(np.eye(d, dtype=self.basis.dtype))

    def transform(self, X: Any) -> Array:
        """Rows whose Euclidean distances are those of the shared part: f x + B (M~^1/2 - f I) z."""
        dense = X.toarray() if sp.issparse(X) else X
        root, f = self.inner.root(), np.sqrt(self._square)
        z = self.coordinates(X)
        return f * dense + (z @ root - f * z) @ self.basis.T
