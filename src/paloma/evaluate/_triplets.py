"""Evaluation of learners on triplets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from .. import _validation as check
from .._typing import Array

__all__ = ["cross_validate_triplets"]


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
    rows = check.check_triplets(estimator, triplets, n)
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
