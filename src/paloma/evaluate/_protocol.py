"""The protocol of the paper's section 4: random splits, tuning on the training part, k-NN on the rest, many runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from .._typing import Array
from ..estimators import is_learner
from ..estimators.base import Learner
from ._methods import Learned, Method
from ._rows import Parts, Recipe
from ._search import Candidate, race


@dataclass(frozen=True)
class Protocol:
    """How methods are compared.

    Parameters
    ----------
    recipe : how rows are prepared, always from the training part alone.
    n_folds : folds of the cross-validation on the training part that chooses hyperparameters.
    max_rows : cross-validation uses at most this many random training rows; the final fit uses all.
    n_neighbors : neighbors that vote.
    """

    recipe: Recipe = field(default_factory=lambda: Recipe(standardize=True))
    n_folds: int = 5
    max_rows: int = 6000
    n_neighbors: int = 3

    def run(self, method: Method | Learner, X: Array, y: Array, train: Array, test: Array, seed: int = 0) -> Outcome:
        """Tune one method on the rows `train`, fit it there, and classify the rows `test`."""
        chosen: Any = Learned(method) if is_learner(method) else method
        begin = process_time()
        best, score = self.tune(chosen, X[train], y[train], seed)
        tuned = process_time() - begin
        parts = self.recipe.fit(X[train], y[train], X[test])
        predicted = chosen.predict(parts, best, self.n_neighbors, seed)
        accuracy = float((predicted.labels == y[test]).mean())
        return Outcome(chosen.name, accuracy, best, score, predicted.fit, predicted.search, tuned)

    def tune(self, method: Method, X: Array, y: Array, seed: int = 0) -> tuple[Candidate, float]:
        """The candidate with the best mean accuracy over folds of these rows, and that accuracy."""
        method = getattr(method, "tuned_as", method)
        candidates = method.candidates(self.recipe.powers)
        if len(candidates) == 1:
            return candidates[0], float("nan")
        X, y = _some(X, y, self.max_rows, seed)
        folds = list(_folds(y, self.n_folds, seed))

        @cache
        def prepared(fold: int) -> Parts:
            train, test = folds[fold]
            return self.recipe.fit(X[train], y[train], X[test])

        def score(candidate: int, fold: int) -> float:
            found = method.predict(prepared(fold), candidates[candidate], self.n_neighbors, seed)
            return float((found.labels == y[folds[fold][1]]).mean())

        best, means = race(len(candidates), len(folds), score)
        return candidates[best], means[best]


@dataclass(frozen=True)
class Outcome:
    """One run of one method: accuracy on the test rows, what was chosen, and seconds of fit, search and tuning.

    CPU seconds of this process, which do not depend on what else the machine is doing.
    """

    method: str
    accuracy: float
    chosen: Candidate
    cv_score: float
    fit_time: float
    search_time: float
    tune_time: float


def _some(X: Array, y: Array, n: int, seed: int) -> tuple[Array, Array]:
    if len(X) <= n:
        return X, y
    chosen = np.sort(np.random.default_rng(seed).permutation(len(X))[:n])
    return X[chosen], y[chosen]


def _folds(y: Array, n_folds: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Folds with the classes in proportion, plain ones if a class is too small for that."""
    smallest = np.unique(y, return_counts=True)[1].min()
    kind = StratifiedKFold if smallest >= n_folds else KFold
    return kind(n_folds, shuffle=True, random_state=seed).split(y, y)


def random_split(n: int, fraction: float, seed: int) -> tuple[Array, Array]:
    """(train, test) row numbers of one random division, as the paper divides at each run."""
    train, test = train_test_split(np.arange(n), train_size=fraction, random_state=seed)
    return train, test


def compare(
    methods: Sequence[Method | Learner],
    X: ArrayLike,
    y: ArrayLike,
    *,
    fraction: float = 0.7,
    n_runs: int = 10,
    protocol: Protocol | None = None,
    splits: Sequence[tuple[Array, Array]] | None = None,
    random_state: int = 0,
) -> dict[str, list[Outcome]]:
    """Compare methods by the paper's protocol: one random split per run, shared by all methods.

    Parameters
    ----------
    methods : learners, or `Learned`, `Euclid`, `Neighborhood` for more control.
    X, y : rows and labels.
    fraction : fraction of the rows used for learning.
    n_runs : random splits; run r has the seed random_state + r.
    protocol : preparation of rows, tuning and voting; by default standardized columns, 5 folds and 3 neighbors.
    splits : (train, test) row numbers to use instead of random ones.

    Returns
    -------
    dict from the method's name to its outcomes, one per run.

    Examples
    --------
    >>> from paloma import LODML
    >>> from paloma.evaluate import Euclid, compare
    >>> from sklearn.datasets import load_wine
    >>> result = compare([Euclid(), LODML()], *load_wine(return_X_y=True), fraction=0.3, n_runs=2)
    >>> [(name, round(sum(run.accuracy for run in runs) / len(runs), 2)) for name, runs in result.items()]
    [('Euclid', 0.93), ('LODML', 0.98)]
    """
    rows, labels = np.asarray(X), np.asarray(y)
    protocol = Protocol() if protocol is None else protocol
    if splits is None:
        splits = [random_split(len(rows), fraction, random_state + run) for run in range(n_runs)]
    results: dict[str, list[Outcome]] = {}
    for run, (train, test) in enumerate(splits):
        for method in methods:
            outcome = protocol.run(method, rows, labels, train, test, random_state + run)
            results.setdefault(outcome.method, []).append(outcome)
    return results


@dataclass(frozen=True)
class PairedTest:
    """Mean difference of two methods over shared splits, and the p value of the corrected t-test."""

    difference: float
    p: float
    n: int


def paired_test(a: ArrayLike, b: ArrayLike, fraction: float) -> PairedTest:
    """Whether two methods differ over the same random splits (Nadeau and Bengio 2003, corrected resampled t-test).

    Accuracies of overlapping splits are correlated, so a plain paired t-test finds differences that are not there;
    the variance of the mean is taken as (1/n + n_test/n_train) times that of the differences.

    Parameters
    ----------
    a, b : accuracies, one per split.
    fraction : fraction of the rows used for learning.

    Returns
    -------
    PairedTest
        p is NaN for fewer than two splits and if all differences are equal, 1 if they are all 0.

    Examples
    --------
    >>> paired_test([0.95, 0.96, 0.97, 0.95], [0.93, 0.95, 0.95, 0.94], 0.7)
    PairedTest(difference=0.015, p=0.0511..., n=4)
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(
            f"paired_test needs one value per split of both methods, got {first.shape} and {second.shape}."
        )
    differences = first - second
    n, mean = len(differences), float(np.round(differences.mean(), 12)) if len(differences) else float("nan")
    if n < 2:
        return PairedTest(mean, float("nan"), n)
    if np.ptp(differences) < 1e-12:  # no spread, so nothing to compare the mean with
        return PairedTest(mean, 1.0 if mean == 0 else float("nan"), n)
    spread = np.sqrt((1.0 / n + (1.0 - fraction) / fraction) * differences.var(ddof=1))
    return PairedTest(mean, float(2 * stats.t.sf(abs(mean) / spread, n - 1)), n)
