"""Items that may be among the nearest ones: found by one product of all rows, so that few are ranked exactly."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .._search.codes import Codes, smallest
from .._typing import Array
from ._metrics import Form

# Up to this many multiplications all items are ranked under the newest metric; beyond it, candidates of the last page.
EXACT_WORK = 5e7
MIN_CANDIDATES = 200
_CHUNK = 4096  # rows at a time whose images are held


class Near:
    """Candidates for the k nearest rows of X; (q - x)^T M (q - x) = x^T M x - 2 x^T M q + a constant.

    Rows and queries are taken around the mean of the rows, however far that is from zero. Of many rows, products are
    taken with a byte for each of their numbers, and `renew` prepares the rest for a new metric, so that no search waits
    for that.
    """

    def __init__(self, X: Array) -> None:
        self.X = X
        self._forms: tuple[Any, Array | None] = (None, None)
        self._page: tuple[Array, Form] | None = None
        self._center = X.mean(axis=0, dtype=np.float64)
        self._plain: Array | None = None
        self._coded: Codes | None = None
        self._lock = threading.Lock()

    @property
    def few(self) -> bool:
        """Whether all rows are compared under the newest metric."""
        return self.X.size * self.X.shape[1] <= EXACT_WORK

    def exact(self, row: Array, k: int, form: Form, key: Any) -> Array:
        """Numbers of the k nearest and a few more, in ascending order; `key` is another one for another metric."""
        known, constants = self._forms
        if constants is None or known != key:
            constants = _constants(self.X, self._center, form, self.X.dtype)
            self._forms = key, constants
        return smallest(constants - 2.0 * (self.X @ form.image(row - self._center).astype(self.X.dtype)), k + 9)

    def rough(self, row: Array, k: int, page: Callable[[], Form] | None) -> Array:
        """The same of many rows, and more of them, under the metric of the last `renew`; None: Euclidean.

        page : what the first `renew` would be called with, for the first search.
        """
        codes = self._codes()
        if page is None:
            constants, image = self._euclidean(), row - codes.center
        else:
            constants, form = self._prepared(page)
            image = form.image(row - codes.center)
        return smallest(codes.values(image, constants), max(10 * k, MIN_CANDIDATES))

    def renew(self, form: Form) -> None:
        """Prepare for a metric, if anybody has asked."""
        if self._page is not None:
            self._page = self._constants(form), form

    def _prepared(self, page: Callable[[], Form]) -> tuple[Array, Form]:
        with self._lock:
            if self._page is None:
                form = page()
                self._page = self._constants(form), form
            return self._page

    def _constants(self, form: Form) -> Array:
        return _constants(self.X, self._codes().center, form, np.float32)

    def _euclidean(self) -> Array:
        if self._plain is None:
            self._plain = self._constants(Form(None, np.eye(self.X.shape[1])))
        return self._plain

    def _codes(self) -> Codes:
        if self._coded is None:
            self._coded = Codes.of(self.X)
        return self._coded


def _constants(X: Array, center: Array, form: Form, dtype: Any) -> Array:
    """x^T M x of each row around a center, in a precision."""
    metric, out = form.matrix().astype(dtype), np.empty(len(X), dtype)
    for a in range(0, len(X), _CHUNK):
        part = (X[a : a + _CHUNK] - center).astype(dtype, copy=False)
        np.einsum("ij,ij->i", part @ metric, part, out=out[a : a + _CHUNK])
    return out
