"""Regions instead of classes: where a row lies decides its metric, so that neither queries nor items need labels.

Hard: each row belongs to the region of its nearest center, M(x) = lam U + mu L_r(x). Soft: it belongs to several,
M(x) = lam U + mu sum_r pi_r(x) L_r, pi_r(x) proportional to exp(-|x - c_r|^2 / T) with T the mean squared distance of
rows to their center (theory 11, soft classes). The class kernel becomes T[x, x'] = lam^2 + mu^2 <pi(x), pi(x')>.
"""

from copy import copy, deepcopy
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._rows import stacked
from .._typing import Array
from .locality import FREE

# Smaller soft shares are left out, so that a row touches a few matrices only.
SMALLEST_SHARE = 0.05


class Regions:
    """A clustering that learns with the stream, or one that is given.

    how : number of regions, for online k-means; or an object with `predict`, fitted or not; or a function from rows to
        region numbers.
    """

    def __init__(self, how: Any, soft: bool, seed: int) -> None:
        self.soft, self.spread, self._met = soft, 0.0, 0
        self.given = callable(how) or (not isinstance(how, int | np.integer) and _is_fitted(how))
        if isinstance(how, int | np.integer):
            from sklearn.cluster import MiniBatchKMeans  # loads slowly, and few need it

            how = MiniBatchKMeans(int(how), random_state=seed, n_init=3, batch_size=1024)
        self.clusters = how if self.given else clone(how)
        self.ready = self.given
        self.waiting: Any = None  # rows that came before there were enough to begin

    def fork(self) -> "Regions":
        """A copy that learns independently of this one."""
        out = copy(self)
        out.clusters = self.clusters if self.given else deepcopy(self.clusters)
        return out

    def learn(self, X: Any, whole: bool) -> None:
        """Take more rows in; `whole`: they are all there are for now."""
        if self.soft and sp.issparse(X):
            raise TypeError("soft_regions=True needs dense rows.")
        if not self.given and X.shape[0]:
            if whole or not hasattr(self.clusters, "partial_fit"):
                self._fit(X)
            elif self.ready:
                self.clusters.partial_fit(X)
            else:
                self._wait(X)
        if self.ready and self.soft and hasattr(self.clusters, "cluster_centers_"):
            nearest = self._squares(X).min(axis=1).mean()
            self.spread = nearest if not self.spread else self.spread + 0.05 * (nearest - self.spread)

    def _fit(self, X: Any) -> None:
        """Clusters that cannot continue to learn are those of the first rows."""
        if not self.ready:
            self.clusters.fit(X)
            self.ready = True

    def _wait(self, X: Any) -> None:
        """Keep rows until there is one for each region."""
        rows = X if self.waiting is None else stacked([self.waiting, X])
        self.ready = rows.shape[0] >= getattr(self.clusters, "n_clusters", 1)
        self.waiting = None if self.ready else rows
        if self.ready:
            self.clusters.partial_fit(rows)

    def places(self, X: Any) -> Array:
        """Region number of each row, FREE before there are regions; soft: (n, n_regions) shares."""
        if not self.ready:
            return np.full(X.shape[0], FREE, np.int32)
        if self.soft:
            return self._shares(X)
        numbers = np.asarray(self.clusters(X) if callable(self.clusters) else self.clusters.predict(X))
        if numbers.shape != (X.shape[0],) or numbers.dtype.kind not in "iu" or numbers.min(initial=0) < 0:
            raise ValueError("regions must return one nonnegative region number per row.")
        self._met = max(self._met, int(numbers.max(initial=-1)) + 1)
        return numbers.astype(np.int32)

    def _shares(self, X: Any) -> Array:
        if hasattr(self.clusters, "predict_proba"):
            shares = np.asarray(self.clusters.predict_proba(X), np.float64)
        else:
            squares = self._squares(X)
            shares = np.exp((squares.min(axis=1, keepdims=True) - squares) / (self.spread or 1.0))
            shares /= shares.sum(axis=1, keepdims=True)
        shares[shares < np.minimum(SMALLEST_SHARE, shares.max(axis=1, keepdims=True))] = 0.0
        return shares / shares.sum(axis=1, keepdims=True)

    def _squares(self, X: Any) -> Array:
        """Squared distances to the centers."""
        if not hasattr(self.clusters, "cluster_centers_"):
            raise TypeError("soft_regions=True needs regions with predict_proba or cluster_centers_; a function "
                            "returns one region per row, so use soft_regions=False.")  # fmt: skip
        centers = self.clusters.cluster_centers_.astype(X.dtype)
        norms = np.square(X).sum(axis=1, keepdims=True)
        return np.maximum(norms - 2.0 * X @ centers.T + np.square(centers).sum(axis=1), 0.0).astype(np.float64)

    @property
    def n_regions(self) -> int:
        """Number of regions; of a function, as many as it has given so far."""
        for name in ("n_clusters", "n_components"):
            if hasattr(self.clusters, name):
                return int(getattr(self.clusters, name))
        return self._met


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return True
