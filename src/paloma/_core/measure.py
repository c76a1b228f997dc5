"""The measure axis: a pair feature phi(p, q) as a left and a right factor, a sign, stable squared norms (theory 0).

distance    phi = (p - q)(p - q)^T, small is good, sigma = +1
similarity  phi = p q^T, large is good, sigma = -1

Every factor is multiplied by `factor`, the reciprocal of the data's scale, as it is gathered: X is never copied.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._compiled.norms import distance_norms, similarity_norms
from .._compiled.pairs import differences, scaled_rows
from .._compiled.scratch import Scratch
from .._rows import squared_distances, squared_norms
from .._typing import Array


class Measure(ABC):
    """What a learner compares: gives a block of pairs as factors, and the squared norms of triplets.

    Values are squared distances, or similarities. A search deals in nearness, where small is near: squared distances,
    or minus similarities.
    """

    name: str
    sign: float
    is_distance: bool
    typical: float

    def __repr__(self) -> str:
        return self.name.upper()

    def near(self, values: Array) -> Array:
        """Values as nearness, or nearness as values."""
        return values if self.is_distance else -values

    def score(self, values: Array) -> Array:
        """Larger is more similar: minus the signed root of a squared distance, or the similarity."""
        return -np.sign(values) * np.sqrt(np.abs(values)) if self.is_distance else values

    def root(self, values: Array) -> Array:
        """Distances: the roots of values, clipped at 0."""
        return np.sqrt(np.maximum(values, 0.0))

    def visible(self, nearness: Array) -> Array:
        """What users see of a search: distances, or similarities."""
        return self.root(nearness) if self.is_distance else -nearness

    @abstractmethod
    def factors(
        self, X: Array, anchors: Array, candidates: Array, factor: float, scratch: Scratch
    ) -> tuple[Array, Array]:
        """Rows l_r and r_r with phi_r = l_r r_r^T; the same array twice for a distance."""

    @abstractmethod
    def norms(self, X: Array, triplets: Array, factor: float) -> Array:
        """(n_d, n_+, n_-) of each triplet, see `paloma._compiled.steps.squared_norm`."""

    def _sparse_mean(self, X: Any, triplets: Array) -> float:
        norms = np.asarray(X.multiply(X).sum(axis=1), np.float64).ravel()
        if not self.is_distance:
            return float(norms[triplets].mean())
        squares = 0.0
        for column in (1, 2):
            pairs, counts = np.unique(triplets[:, [0, column]], axis=0, return_counts=True)
            for a in range(0, len(pairs), 4096):
                delta = X[pairs[a : a + 4096, 0]] - X[pairs[a : a + 4096, 1]]
                norms = np.asarray(delta.multiply(delta).sum(axis=1)).ravel()
                squares += float(norms @ counts[a : a + 4096])
        return squares / (2 * len(triplets))

    def _dense_mean(self, X: Array, triplets: Array) -> float:
        if not self.is_distance:
            return float(squared_norms(X)[triplets].mean())
        return float(np.mean([squared_distances(X, triplets[:, 0], triplets[:, k]).mean() for k in (1, 2)]))

    def scale(self, X: Any, triplets: Array) -> float:
        """The number to divide X by, so that the mean square of what the triplets compare becomes `typical`."""
        if not len(triplets):
            return 1.0
        if sp.issparse(X):
            mean = self._sparse_mean(X, triplets)
        else:
            mean = self._dense_mean(X, triplets)
        return float(np.sqrt(mean / self.typical)) if mean > 0 else 1.0


class Distance(Measure):
    """d_M(p, q) = (p - q)^T M (p - q)."""

    name, sign, is_distance, typical = "distance", 1.0, True, 2.0

    def factors(
        self, X: Array, anchors: Array, candidates: Array, factor: float, scratch: Scratch
    ) -> tuple[Array, Array]:
        rows = scratch.take("left", (len(anchors), X.shape[1]), X.dtype)
        differences(X, anchors, candidates, X.dtype.type(factor), rows)
        return rows, rows

    def norms(self, X: Array, triplets: Array, factor: float) -> Array:
        return distance_norms(X, triplets, factor)


class Similarity(Measure):
    """s_M(p, q) = p^T M q."""

    name, sign, is_distance, typical = "similarity", -1.0, False, 64.0

    def factors(
        self, X: Array, anchors: Array, candidates: Array, factor: float, scratch: Scratch
    ) -> tuple[Array, Array]:
        scale = np.full(len(anchors), factor, X.dtype)
        left = scratch.take("left", (len(anchors), X.shape[1]), X.dtype)
        right = scratch.take("right", left.shape, X.dtype)
        scaled_rows(X, anchors, scale, left)
        scaled_rows(X, candidates, scale, right)
        return left, right

    def norms(self, X: Array, triplets: Array, factor: float) -> Array:
        return similarity_norms(X, triplets, factor)


DISTANCE, SIMILARITY = Distance(), Similarity()
