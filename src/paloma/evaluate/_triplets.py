"""Evaluation of learners on triplets: cross-validation over rows, and triplets as scikit-learn's samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from .. import _validation as check
from .._typing import Array
from ..estimators import parted

__all__ = ["OnTriplets", "cross_validate_triplets"]


def cross_validate_triplets(
    estimator: Any,
    X: ArrayLike,
    triplets: ArrayLike,
    y: ArrayLike | None = None,
    *,
    cv: Any = 5,
    random_state: Any = None,
    triplet_weight: ArrayLike | None = None,
) -> dict[str, Array]:
    """Cross-validate a learner on triplets without letting a row be on both sides of the split.

    Folds are taken over the rows of X. The learner of a fold gets the triplets whose three rows are all
    training rows, in the given order, and is scored on those whose three rows are all test rows; the others are not
    used in that fold. Of random triplets, k folds leave about ((k - 1) / k)^3 to learn from and 1 / k^3 to score on, so
    a small k often works better.

    Parameters
    ----------
    estimator : learner
        Cloned for each fold, and never changed.
    X : (n, d) rows.
    triplets : (m, 3) row numbers of X: anchor, positive, negative.
    y : (n,) labels, optional
        The classes of positives and negatives; without them, only the shared part is learned and scored.
    cv : int, splitter or iterable
        Number of shuffled folds; or an object with ``split(X, y)``, e.g. ``KFold``, ``StratifiedKFold``,
        ``ShuffleSplit``; or an iterable of (train rows, test rows), e.g.
        ``GroupKFold(3).split(X, y, groups)``.
    random_state : int, RandomState or None
        Shuffles the rows into folds when `cv` is an int.
    triplet_weight : (m,) weights, optional
        Multiply C while learning. Scores count every test triplet once.

    Returns
    -------
    dict of arrays, one value per fold
        ``test_score`` (fraction of the test triplets ranked correctly, see `triplet_score`), ``n_train`` and
        ``n_test`` (triplets), ``fit_time`` (seconds).

    Raises
    ------
    ValueError
        A fold has no triplets to learn from or to score on.

    Examples
    --------
    >>> import numpy as np
    >>> from paloma import ODML
    >>> from paloma.evaluate import cross_validate_triplets
    >>> from paloma.triplets import random_triplets
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> triplets = random_triplets(y, 3000, np.random.default_rng(0))
    >>> result = cross_validate_triplets(ODML(), scale(X), triplets, y, cv=3, random_state=0)
    >>> result["n_test"]
    array([117, 105, 105])
    >>> bool(result["test_score"].mean() > 0.9)
    True
    """
    if not hasattr(estimator, "triplet_score"):
        raise TypeError(f"estimator must be a learner with triplet_score, got {type(estimator).__name__}.")
    if X is None:
        raise ValueError("cross_validate_triplets needs X: the folds split its rows.")
    n = _num_samples(X)
    rows = check.check_numbers(estimator, triplets, 3, n)
    weight = check.check_weight(estimator, triplet_weight, len(rows))
    labels = None if y is None else check.check_labels(estimator, y, n)
    folds = []
    for number, (train, test) in enumerate(_folds(cv, X, labels, random_state)):
        learned = _Part.of(X, labels, rows, weight, train, f"Fold {number} has no training triplets")
        scored = _Part.of(X, labels, rows, weight, test, f"Fold {number} has no test triplets")
        folds.append(_run(clone(estimator), learned, scored))
    names = ("test_score", "n_train", "n_test", "fit_time")
    return {name: np.array(column) for name, column in zip(names, zip(*folds, strict=True), strict=True)}


def _folds(cv: Any, X: Any, y: Array | None, random_state: Any) -> Iterator[tuple[Array, Array]]:
    """(train, test) row numbers of each fold."""
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        cv = KFold(int(cv), shuffle=True, random_state=random_state)
    return check_cv(cv).split(X, y)


@dataclass
class _Part:
    """Some rows, and the triplets all of whose rows are among them, renumbered."""

    X: Any
    y: Array | None
    triplets: Array
    weight: Array | None

    @classmethod
    def of(cls, X: Any, y: Array | None, triplets: Array, weight: Array | None, rows: Array, else_: str) -> Self:
        """Take the part of `rows`; without any triplet, an error that begins with `else_`."""
        rows = np.arange(_num_samples(X))[rows]
        place = np.full(_num_samples(X), -1)
        place[rows] = np.arange(len(rows))
        renumbered = place[triplets]
        kept = np.flatnonzero((renumbered >= 0).all(axis=1))
        if not len(kept):
            raise ValueError(
                f"{else_}: none of the {len(triplets)} triplets has all three rows among its {len(rows)} rows. Pass "
                "more triplets, or use a different number of folds."
            )
        labels = None if y is None else y[rows]
        return cls(_safe_indexing(X, rows), labels, renumbered[kept], None if weight is None else weight[kept])


def _run(model: Any, learned: _Part, scored: _Part) -> tuple[float, int, int, float]:
    """Learn from one part and score on the other."""
    begin = perf_counter()
    model.fit(learned.X, learned.y, triplets=learned.triplets, triplet_weight=learned.weight)
    seconds = perf_counter() - begin
    score = model.triplet_score(scored.X, scored.triplets, scored.y)
    return score, len(learned.triplets), len(scored.triplets), seconds


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
