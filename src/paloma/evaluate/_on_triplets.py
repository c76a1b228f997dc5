"""Triplets as the samples of scikit-learn's searches and cross-validation."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from ..estimators import parted

__all__ = ["OnTriplets"]


class OnTriplets(BaseEstimator):
    """A learner whose samples are triplets, so that GridSearchCV, cross_validate and the like can split them.

    scikit-learn splits rows, and what is passed beside them only if it is as long: row numbers would then point to
    other rows. Here the rows stay whole, and triplets are what is learned, held out and scored. A row may be on both
    sides of a split; `cross_validate_triplets` splits rows instead.

    Parameters
    ----------
    learner : learner, or a pipeline that ends with one
        Cloned and fitted on `rows`; its parameters are searched as ``learner__C``.
    rows : (n, d) array
        What row numbers speak of, as in ``learner.fit(rows, triplets=...)``. Steps before the learner see all of it.
    labels : (n,) labels, optional
        The classes of positives and negatives; not together with groups.

    Attributes
    ----------
    learner_ : what was fitted.

    Examples
    --------
    Who said it (`groups`) is routed like any metadata: each user has a metric of his own, in training and in scoring.

    >>> import numpy as np, sklearn
    >>> from paloma import LODML
    >>> from paloma.evaluate import OnTriplets
    >>> from paloma.triplets import random_triplets
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> triplets = random_triplets(y, 600, np.random.default_rng(0))
    >>> users = np.array(["ann", "ben"])[np.arange(600) % 2]
    >>> model = OnTriplets(make_pipeline(StandardScaler(), LODML(random_state=0)), X)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     model = model.set_fit_request(groups=True).set_score_request(groups=True)
    ...     search = GridSearchCV(model, {"learner__lodml__C": [0.002, 0.02]}, cv=3).fit(triplets, groups=users)
    >>> bool(search.best_score_ > 0.9)
    True
    """

    def __init__(self, learner: Any, rows: Any = None, labels: Any = None) -> None:
        self.learner = learner
        self.rows = rows
        self.labels = labels

    def fit(
        self,
        X: ArrayLike,
        y: None = None,
        *,
        triplet_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn from triplets.

        X : (m, 3) row numbers of `rows`: anchor, positive, negative.
        triplet_weight, groups : (m,) as in the learner's `fit`.
        """
        del y
        learned = clone(self.learner)
        front, learner = parted(learned)
        rows = self.rows if front is None else front.fit_transform(self.rows, self.labels)
        learner.fit(rows, self.labels, triplets=X, triplet_weight=triplet_weight, groups=groups)
        self.learner_ = learned
        return self

    def score(self, X: ArrayLike, y: None = None, *, groups: ArrayLike | None = None) -> float:
        """Fraction of the triplets ranked correctly, with `groups` each under the metric of who said it."""
        del y
        check_is_fitted(self)
        front, learner = parted(self.learner_)
        rows = self.rows if front is None else front.transform(self.rows)
        if groups is None:
            return float(learner.triplet_score(rows, X, self.labels))
        triplets = np.asarray(X)
        said_by = check.check_labels(self, groups, len(triplets), "groups")
        near, far = (learner.pair_score(triplets[:, [0, k]], said_by, X=rows) for k in (1, 2))
        return float(np.mean(near > far))
