"""The methods that a protocol compares: learners of paloma, Euclid, and scikit-learn's NCA."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time
from typing import Protocol

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors, NeighborhoodComponentsAnalysis

from .._search.voting import majority
from .._typing import Array
from ..estimators import measure_of
from ..estimators.base import Learner
from ..neighbors import MetricKNeighborsClassifier
from ._rows import Parts
from ._search import Candidate, fit_shared, grid

KAPPAS = (0.1, 0.5, 0.8)
DISTANCE_RATES = (0.001, 0.004, 0.015, 0.06)
SIMILARITY_RATES = (1e-6, 1e-5, 1e-4, 1e-3)


@dataclass(frozen=True)
class Predicted:
    """Classes of the test rows, and the CPU seconds that learning (with mining and read-out) and searching took."""

    labels: Array
    fit: float
    search: float


class Method(Protocol):
    """What is compared: a name, candidates to choose from, and predictions at one of them."""

    @property
    def name(self) -> str:
        """For tables."""

    def candidates(self, powers: Sequence[float]) -> list[Candidate]:
        """Hyperparameters to choose from, given the powers of the recipe."""

    def predict(self, parts: Parts, candidate: Candidate, n_neighbors: int, seed: int) -> Predicted:
        """Learn from the training rows and classify the test rows."""


@dataclass(frozen=True)
class Learned:
    """k-NN under a learner of paloma.

    Parameters
    ----------
    learner : unfitted; its C and lam are searched, its other parameters are kept.
    name : by default that of its class.
    unit : put `UnitRows` in front of a similarity; False is what the paper does with OASIS and LOSL.
    kappas, rates : values of kappa and C' to search; None: a range that suits the kind of learner.
    """

    learner: Learner
    name: str = ""
    unit: bool = True
    kappas: tuple[float, ...] = KAPPAS
    rates: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or type(self.learner).__name__)

    def candidates(self, powers: Sequence[float]) -> list[Candidate]:
        rates = self.rates or (DISTANCE_RATES if measure_of(self.learner).is_distance else SIMILARITY_RATES)
        return grid(powers, self.kappas if hasattr(self.learner, "lam") else (None,), rates)

    def predict(self, parts: Parts, candidate: Candidate, n_neighbors: int, seed: int) -> Predicted:
        train, test = parts.rows(candidate.power, self.unit and not measure_of(self.learner).is_distance)
        begin = process_time()
        metric = self.fitted(parts, candidate, seed)
        model = MetricKNeighborsClassifier(metric, n_neighbors=n_neighbors, weights="uniform")
        model.fit(train, parts.labels)
        fitted = process_time()
        found = model.predict(test)
        return Predicted(found, fitted - begin, process_time() - fitted)

    def fitted(self, parts: Parts, candidate: Candidate, seed: int) -> Learner:
        """The learner at a candidate, on the shared triplets of the training rows."""
        train, _ = parts.rows(candidate.power, self.unit and not measure_of(self.learner).is_distance)
        learner = clone(self.learner).set_params(random_state=seed, **candidate.parameters)
        return fit_shared(learner, train, parts.labels, parts.mined(candidate.power))


@dataclass(frozen=True)
class Euclid:
    """k-NN without learning; only the whitening power is chosen."""

    name: str = "Euclid"

    def candidates(self, powers: Sequence[float]) -> list[Candidate]:
        return grid(powers, (None,), (0.0,))

    def predict(self, parts: Parts, candidate: Candidate, n_neighbors: int, seed: int) -> Predicted:
        return vote(*parts.rows(candidate.power, False), parts.labels, n_neighbors, 0.0)


@dataclass(frozen=True)
class Neighborhood:
    """k-NN under scikit-learn's NeighborhoodComponentsAnalysis, on the rows that suit Euclid best.

    It is quadratic in the rows it learns from, and has no C to search.

    Parameters
    ----------
    max_rows : learn from at most this many random rows; all rows remain candidates of the search.
    max_iter : iterations of its optimizer.
    """

    name: str = "NCA"
    max_rows: int = 3000
    max_iter: int = 30
    tuned_as: Euclid = Euclid()

    def candidates(self, powers: Sequence[float]) -> list[Candidate]:
        return self.tuned_as.candidates(powers)

    def predict(self, parts: Parts, candidate: Candidate, n_neighbors: int, seed: int) -> Predicted:
        train, test = parts.rows(candidate.power, False)
        chosen = np.random.default_rng(seed).permutation(len(train))[: self.max_rows]
        begin = process_time()
        with np.errstate(under="ignore"):
            analysis = NeighborhoodComponentsAnalysis(max_iter=self.max_iter, random_state=seed)
            analysis.fit(train[chosen], parts.labels[chosen])
        seconds = process_time() - begin
        return vote(analysis.transform(train), analysis.transform(test), parts.labels, n_neighbors, seconds)


def vote(train: Array, test: Array, labels: Array, n_neighbors: int, seconds: float) -> Predicted:
    """The uniform vote of the Euclidean neighbors, by the tie rule of `MetricKNeighborsClassifier`."""
    begin = process_time()
    near = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(train)
    ids = near.kneighbors(test, return_distance=False)
    classes, codes = np.unique(labels, return_inverse=True)
    return Predicted(classes[majority(codes[ids])], seconds, process_time() - begin)
