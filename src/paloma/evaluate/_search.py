"""Choice of hyperparameters: candidates over (kappa, C'), and a race of them through cross-validation folds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .._typing import Array
from ..estimators import settings_of
from ..estimators.base import Learner
from ..triplets import Mined

# Candidates of a race that are never dropped.
FINALISTS = 3


def lam_of(kappa: float) -> float:
    """The lam whose share of the class kernel is kappa = lam^2 / (lam^2 + mu^2), mu = 1 - lam (theory Fact 3).

    Examples
    --------
    >>> lam_of(0.5), round(lam_of(0.1), 6), lam_of(1.0)
    (0.5, 0.25, 1.0)
    """
    if not 0.0 <= kappa <= 1.0:
        raise ValueError(f"kappa must lie in [0, 1], got {kappa!r}.")
    root, other = np.sqrt(kappa), np.sqrt(1.0 - kappa)
    return float(root / (root + other))


def kappa_of(lam: float) -> float:
    """lam^2 / (lam^2 + mu^2), the share of the shared part in the class kernel (theory Fact 3).

    Examples
    --------
    >>> kappa_of(0.5), round(kappa_of(0.3), 3)
    (0.5, 0.155)
    """
    return lam * lam / (lam * lam + (1.0 - lam) ** 2)


def settings(kappa: float | None, rate: float) -> dict[str, float]:
    """Parameters of a learner at C' = rate: C = C' / (lam^2 + mu^2), so that rates compare over kappa (theory Fact 3).

    Examples
    --------
    >>> settings(0.5, 0.01)
    {'C': 0.02, 'lam': 0.5}
    >>> settings(None, 0.01)
    {'C': 0.01}
    """
    if kappa is None:
        return {"C": rate}
    lam = lam_of(kappa)
    return {"C": rate / (lam * lam + (1.0 - lam) ** 2), "lam": lam}


@dataclass(frozen=True)
class Candidate:
    """One point of the search: whitening power, kappa (None for a global learner) and C'."""

    power: float
    kappa: float | None
    rate: float

    @property
    def parameters(self) -> dict[str, float]:
        """As the learner takes them."""
        return settings(self.kappa, self.rate)


def race(n: int, n_folds: int, score: Callable[[int, int], float]) -> tuple[int, dict[int, float]]:
    """The best of n candidates by their mean score over folds, without running hopeless ones through every fold.

    After each fold the best quarter stays, and at least three; those are compared on all folds.

    Parameters
    ----------
    n, n_folds : number of candidates and of folds.
    score : callable(candidate, fold), larger is better.

    Returns
    -------
    best : the winner; of equal ones the first.
    means : mean score of each finalist.

    Examples
    --------
    >>> calls = []
    >>> def score(candidate, fold):
    ...     calls.append((candidate, fold))
    ...     return -abs(candidate - 7)
    >>> race(20, 5, score)[0], len(calls)
    (7, 34)
    """
    scores: dict[int, list[float]] = {candidate: [] for candidate in range(n)}
    for fold in range(n_folds):
        if fold:
            best = sorted(scores, key=lambda c: -float(np.mean(scores[c])))
            scores = {c: scores[c] for c in sorted(best[: max(FINALISTS, -(-len(best) // 4))])}
        for candidate in scores:
            scores[candidate].append(score(candidate, fold))
    means = {candidate: float(np.mean(values)) for candidate, values in scores.items()}
    return max(means, key=lambda c: means[c]), means


def grid(powers: Sequence[float], kappas: Sequence[float | None], rates: Sequence[float]) -> list[Candidate]:
    """Every combination, the middle of each range first, so that ties go to moderate values."""

    def middle_out(values: Sequence[Any]) -> list[Any]:
        center = (len(values) - 1) / 2
        return [values[i] for i in sorted(range(len(values)), key=lambda i: abs(i - center))]

    return [
        Candidate(power, kappa, rate) for power in powers for kappa in middle_out(kappas) for rate in middle_out(rates)
    ]


def fit_shared(learner: Learner, X: Array, y: Array, mined: Mined) -> Learner:
    """Fit a copy on triplets mined before: what ``learner.fit(X, y)`` does, to rounding, without mining again.

    The passes are laid out one after the other, each in the order that `fit` would draw, and what `fit` reads out
    where labels form the triplets (averages, projection of the M_c) is asked for by name. A similarity learner gets
    the triplets of the rows before `UnitRows`. As in the paper there is neither whitening beyond the recipe's, so that
    scale="auto" is "scalar" here, nor a guard.
    """
    settings = settings_of(learner)
    passes = np.concatenate([mined.shuffled(rng) for rng in [settings.generator()] for _ in range(learner.n_epochs)])
    project = "effective" if learner.project == "auto" else learner.project
    scale = "scalar" if learner.scale == "auto" else learner.scale
    copy = clone(learner).set_params(n_epochs=1, average=settings.averaging is not False, project=project, scale=scale)
    return copy.fit(X, y, triplets=passes)
