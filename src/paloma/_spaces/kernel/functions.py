"""Kernel functions as a learner uses them: of rows divided by their scale, times a gain, perhaps normalized.

A kernel takes rows on its left and *points* on its right. The points of most kernels are rows as well; those of a
precomputed kernel are numbers of training rows, since a row (k(x, x_1), ..., k(x, x_n)) says no more about x than its
kernel values with the training rows.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np

from ..._typing import Array
from ..._validation import check_word

PRECOMPUTED = "precomputed"
# Whose loops in scikit-learn take no arrays that are read-only.
WRITABLE = ("additive_chi2", "chi2")
# Self-values k(x, x) come from the diagonals of small square tiles.
DIAGONAL_TILE = 128
# Triplets, spread over all, that the gain of a distance is taken from.
GAIN_TRIPLETS = 2048
# Mean self-value k(x, x) that a similarity, and mean squared distance that a distance, is brought to.
TYPICAL = {False: 64.0, True: 2.0}
# Beyond this self-value the squared norm of a step leaves the precision (by item size).
LARGEST = {8: 1e70, 4: 1e17}


class Kernel:
    """k(x, z) = gain f(x / scale, z / scale), or gain f / sqrt(f(x, x) f(z, z)) if normalized.

    function : a name of scikit-learn's `pairwise_kernels`, "precomputed", or a callable: of two matrices, giving the
        matrix of all values, or of two rows, giving one.
    """

    def __init__(self, function: Any, params: dict[str, Any] | None, normalize: bool) -> None:
        check_kernel(function, params, normalize)
        self.function, self.params, self.normalize = function, dict(params or {}), bool(normalize)
        self.factor, self.gain = 1.0, 1.0
        self.by_rows: bool | None = None
        self.keys: Array | None = None

    @property
    def precomputed(self) -> bool:
        return isinstance(self.function, str) and self.function == PRECOMPUTED

    def fitted(self, X: Array, triplets: Array | None, factor: float, distances: bool, gain: bool) -> "Kernel":
        """This kernel for rows such as X: its scale, and the gain that gives what triplets compare a typical size."""
        out = Kernel(self.function, self.params, self.normalize)
        out.factor = factor
        if out.precomputed:
            if X.shape[0] != X.shape[1]:
                raise ValueError(
                    f"kernel='precomputed' learns from a square matrix of kernel values, got shape {X.shape}."
                )
            out.keys = _keys(X)
        elif callable(self.function):
            out.by_rows = _takes_rows(self.function, X, self.params)
        if gain:
            mean = out._mean_compared(X, triplets, distances)
            out.gain = TYPICAL[distances] / mean if mean > 0 else 1.0
        return out

    def restore(self, factor: float, gain: float, training: Array | None) -> None:
        """What `fitted` has found, out of a model file; `training` are the rows of a precomputed kernel."""
        self.factor, self.gain = factor, gain
        self.keys = None if training is None else _keys(training)

    def _mean_compared(self, X: Array, triplets: Array | None, distances: bool) -> float:
        """Mean self-value of the points of triplets, or mean squared distance of their pairs; 0 where unknown.

        A precomputed kernel takes all rows instead, so that it need not wait for triplets.
        """
        if self.precomputed:
            mean = float(X.diagonal().mean(dtype=np.float64))
            return 2.0 * (mean - float(X.mean(dtype=np.float64))) if distances else mean
        if triplets is None or not len(triplets):
            return 0.0
        if not distances:
            rows, counts = np.unique(triplets, return_counts=True)
            return float(self.selfs(X[rows]) @ counts / counts.sum())
        p, q, n = (X[column] for column in triplets[:: -(-len(triplets) // GAIN_TRIPLETS)].T)
        selfs = [self.selfs(rows) for rows in (p, q, n)]
        return float(np.mean([selfs[0] + selfs[k] - 2.0 * self.pairs(p, x) for k, x in ((1, q), (2, n))]))

    def pairs(self, left: Array, right: Array) -> Array:
        """k(left_r, right_r) of rows, from the diagonals of tiles."""
        out, points = np.empty(len(left)), self.points(right)
        for a in range(0, len(left), self._tile):
            part = slice(a, a + self._tile)
            out[part] = self(left[part], points[part]).diagonal()
        return out

    # -- points ----------------------------------------------------------------------------------------------

    def points(self, X: Array) -> Array:
        """The right-hand form of rows: the rows themselves, or numbers of training rows."""
        if self.keys is None:
            return X
        numbers = self.numbers(X)
        if (numbers < 0).any() and X.shape[0] == len(self.keys):
            return np.arange(len(self.keys))
        if (numbers < 0).any():
            raise ValueError(
                "kernel='precomputed' only knows kernel values with the training rows, so candidates must be rows of "
                f"the ({len(self.keys)}, {len(self.keys)}) matrix passed to fit; row {int(np.argmin(numbers))} is not "
                "one of them."
            )
        return numbers

    def numbers(self, X: Array) -> Array:
        """Numbers of training rows with exactly these kernel values; -1 for other rows."""
        assert self.keys is not None
        order = np.argsort(self.keys, kind="stable")
        keys = _keys(X)
        spot = np.minimum(np.searchsorted(self.keys[order], keys), len(order) - 1)
        return np.where(self.keys[order][spot] == keys, order[spot], -1)

    # -- values ----------------------------------------------------------------------------------------------

    def __call__(self, X: Array, points: Array, left: Array | None = None, right: Array | None = None) -> Array:
        """(n_rows, n_points) values; left and right are raw self-values if they are known."""
        values = self._raw(X, points)
        if self.normalize:
            left = self.raw_selfs(X) if left is None else left
            right = self.raw_selfs(points) if right is None else right
            values *= _inverse_root(left, values.dtype)[:, None]
            values *= _inverse_root(right, values.dtype)
        if self.gain != 1.0:
            values *= values.dtype.type(self.gain)
        return values

    def selfs(self, X: Array, raw: Array | None = None) -> Array:
        """k(x, x) of rows, float64."""
        raw = self.raw_selfs(X) if raw is None else raw
        return self.gain * (np.where(raw > 0, 1.0, 0.0) if self.normalize else raw)

    def raw_selfs(self, X: Array) -> Array:
        """f(x, x) of rows; refuses values that are not finite or so large that a step would overflow."""
        if self.precomputed:
            out = X[np.arange(len(X)), self.points(X)].astype(np.float64)
        else:
            tiles = [X[a : a + self._tile] for a in range(0, len(X), self._tile)]
            out = np.concatenate([self._raw(tile, tile).diagonal() for tile in tiles] or [np.empty(0)]).astype(float)
        if not np.abs(out).max(initial=0.0) < LARGEST[X.dtype.itemsize]:
            raise ValueError(
                f"The kernel {self.name} returns values k(x, x) that are not finite or too large: a step would "
                "overflow. Scale the data or normalize the kernel."
            )
        return out

    @property
    def _tile(self) -> int:
        """Rows whose self-values are the diagonal of one call; a callable of two rows has nothing to share."""
        return 1 if self.by_rows else DIAGONAL_TILE

    @property
    def name(self) -> str:
        return self.function if isinstance(self.function, str) else getattr(self.function, "__name__", "callable")

    def _scaled(self, X: Array) -> Array:
        if self.factor != 1.0:
            return X * X.dtype.type(self.factor)
        return X.copy() if isinstance(self.function, str) and self.function in WRITABLE else X

    def _raw(self, X: Array, points: Array) -> Array:
        if self.precomputed:
            return X[:, points]
        if not len(X) or not len(points):
            return np.empty((len(X), len(points)), X.dtype)
        same = X is points
        left = self._scaled(X)
        right = left if same else self._scaled(points)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.by_rows is False:
                values = self.function(left, right, **self.params)
            else:
                from sklearn.metrics.pairwise import pairwise_kernels

                values = pairwise_kernels(left, None if same else right, metric=self.function, **self.params)
        values = np.array(values, X.dtype, order="C", copy=True if self.by_rows is False else None)
        if not np.isfinite(values).all():
            raise ValueError(
                f"The kernel {self.name} returns values that are not finite, either directly or through overflow."
            )
        return values


def check_kernel(function: Any, params: Any, normalize: Any) -> None:
    """Refuse what is not a kernel, or parameters that it does not take."""
    check_word("normalize", normalize, (True, False))
    if not (params is None or isinstance(params, dict)):
        raise ValueError(f"kernel_params must be a dict or None, got {params!r}.")
    if callable(function):
        return
    from sklearn.metrics.pairwise import KERNEL_PARAMS, PAIRWISE_KERNEL_FUNCTIONS  # loads slowly

    check_word("kernel", function, (*sorted(PAIRWISE_KERNEL_FUNCTIONS), PRECOMPUTED))
    known = set() if function == PRECOMPUTED else set(KERNEL_PARAMS[function])
    if unknown := sorted(set(params or {}) - known):
        raise ValueError(f"kernel={function!r} takes kernel_params {sorted(known) or 'none'}, got {unknown}.")
    if function == PRECOMPUTED and normalize:
        raise ValueError(
            "normalize=True needs k(q, q) of every query, which a precomputed matrix does not contain; normalize the "
            "matrix instead: K / np.sqrt(np.outer(K.diagonal(), K.diagonal()))."
        )


def _takes_rows(function: Callable[..., Any], X: Array, params: dict[str, Any]) -> bool:
    """Whether a callable compares two rows; tried on matrices of sizes that no pair of rows could be mistaken for."""
    n_right = 2 if X.shape[1] != 2 else 3
    left, right = np.resize(X, (5, X.shape[1])), np.resize(X, (n_right, X.shape[1]))
    try:
        values = function(left, right, **params)
    except Exception:
        return True
    return np.shape(values) != (5, n_right)


def _inverse_root(selfs: Array, dtype: Any) -> Array:
    """1 / sqrt(f(x, x)), 0 where that is not positive."""
    return np.divide(1.0, np.sqrt(np.maximum(selfs, 0.0)), out=np.zeros(len(selfs)), where=selfs > 0).astype(dtype)


def _keys(X: Array) -> Array:
    """A 64-bit digest of each row."""
    digests = b"".join(blake2b(row.tobytes(), digest_size=8).digest() for row in X)
    return np.frombuffer(digests, np.uint64)
