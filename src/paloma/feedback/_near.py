"""Items that may be among the nearest ones: found by one product of all rows, so that few are ranked exactly."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array

# Up to this many multiplications all items are ranked under the newest metric; beyond it, candidates of the last page.
EXACT_WORK = 2e8
MIN_CANDIDATES = 200
_CHUNK = 4096  # rows at a time whose images are held


class Near:
    """Candidates for the k nearest rows of X; (q - x)^T M (q - x) = x^T M x - 2 x^T M q + a constant.

    Of many rows, what is compared is in float32, around their mean, and `renew` prepares it for a new metric, so that
    no search waits for that.
    """

    def __init__(self, X: Array) -> None:
        self.X = X
        self._forms: tuple[Any, Array | None] = (None, None)
        self._page: tuple[Array, Array] | None = None
        self._light: tuple[Array, Array, Array] | None = None
        self._lock = threading.Lock()

    @property
    def few(self) -> bool:
        """Whether all rows are compared under the newest metric."""
        return self.X.size * self.X.shape[1] <= EXACT_WORK

    def exact(self, row: Array, k: int, metric: Array, key: Any) -> Array:
        """Numbers of the k nearest and a few more, in ascending order; `key` is another one for another metric."""
        known, forms = self._forms
        if forms is None or known != key:
            forms = _forms(self.X, metric.astype(self.X.dtype))
            self._forms = key, forms
        return _smallest(forms - 2.0 * (self.X @ (metric @ row).astype(self.X.dtype)), k + 9)

    def rough(self, row: Array, k: int, metric: Callable[[], Array] | None) -> Array:
        """The same of many rows, and more of them, under the metric of the last `renew`; None: Euclidean.

        metric : what the first `renew` would be called with, for the first search.
        """
        light, center, squares = self._lightened()
        forms, page = (squares, np.eye(len(row))) if metric is None else self._prepared(metric)
        product = light @ (page @ (row - center)).astype(np.float32)
        return _smallest(forms - 2.0 * product, max(10 * k, MIN_CANDIDATES))

    def renew(self, metric: Array) -> None:
        """Prepare for a metric, if anybody has asked."""
        if self._page is not None:
            self._page = _forms(self._lightened()[0], metric.astype(np.float32)), metric

    def _prepared(self, metric: Callable[[], Array]) -> tuple[Array, Array]:
        with self._lock:
            if self._page is None:
                first = metric()
                self._page = _forms(self._lightened()[0], first.astype(np.float32)), first
            return self._page

    def _lightened(self) -> tuple[Array, Array, Array]:
        """Rows around their mean in float32, the mean, squared lengths."""
        if self._light is None:
            center = self.X.mean(axis=0, dtype=np.float64)
            light = (self.X - center).astype(np.float32)
            self._light = light, center, np.einsum("ij,ij->i", light, light)
        return self._light


def _forms(X: Array, metric: Array) -> Array:
    """x^T M x of each row."""
    parts = (X[a : a + _CHUNK] for a in range(0, len(X), _CHUNK))
    return np.concatenate([((part @ metric) * part).sum(axis=1) for part in parts])


def _smallest(values: Array, n: int) -> Array:
    n = min(len(values), n)
    return np.sort(np.argpartition(values, n - 1)[:n])
