"""The paper's protocol on Letters (section 4): random splits, one triplet set per split, 3-NN on the rest."""

from dataclasses import dataclass, field
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np

from .._progress import Advance
from .._typing import Array
from ..datasets import load_letters
from ..estimators import LODML, LOSL, OASIS, ODML
from ..evaluate import Recipe, random_split
from ..evaluate._rows import Parts
from ..neighbors import MetricKNeighborsClassifier, euclidean_accuracy
from ..triplets import targets_impostors

EUCLID = "Euclid"
LEARNERS = {"OASIS": OASIS, "LOSL": LOSL, "ODML": ODML, "LODML": LODML}
SIMILARITIES = ("OASIS", "LOSL")
N_NEIGHBORS = 3
FRACTIONS = (0.3, 0.7)


@dataclass
class Split:
    """Rows standardized on the training part, the labels of the test rows, and the triplets that every learner gets."""

    parts: Parts
    answers: Array
    triplets: Array

    def rows_for(self, name: str) -> tuple[Array, Array]:
        """Training and test rows as this learner takes them: a similarity needs rows on the unit sphere."""
        return self.parts.rows(0.0, name in SIMILARITIES)


@dataclass
class Result:
    """Accuracy and seconds of fit of one learner at one training fraction, a value for each split."""

    learner: str
    fraction: float
    accuracies: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def some_rows(n_rows: int | None, seed: int) -> tuple[Array, Array]:
    """Letters, or a random part of it."""
    X, y = load_letters(return_X_y=True)
    if n_rows is None or n_rows >= len(X):
        return X, y
    chosen = np.random.default_rng(seed).choice(len(X), n_rows, replace=False)
    return X[chosen], y[chosen]


def split(X: Array, y: Array, fraction: float, seed: int) -> Split:
    """A random split; the seed also orders the triplets."""
    train, test = random_split(len(X), fraction, seed)
    parts = Recipe(standardize=True).fit(X[train], y[train], X[test])
    return Split(parts, y[test], targets_impostors(parts.train, parts.labels, random_state=seed))


def accuracy(metric: Any, rows: Array, labels: Array, queries: Array, answers: Array) -> float:
    """3-NN accuracy on the queries under a fitted metric."""
    model = MetricKNeighborsClassifier(metric, n_neighbors=N_NEIGHBORS, weights="uniform").fit(rows, labels)
    return float(model.score(queries, answers))


def euclid_accuracy(data: Split, n_queries: int | None = None) -> float:
    """3-NN accuracy without any learning, on the test rows or on the first of them."""
    items, labels = data.parts.train, data.parts.labels
    return euclidean_accuracy(
        data.parts.test[:n_queries], data.answers[:n_queries], n_neighbors=N_NEIGHBORS, items=items, item_labels=labels
    )


def measure(name: str, data: Split, seed: int) -> tuple[float, float]:
    """Accuracy and seconds of fit of one learner, with its default parameters, on one split."""
    if name == EUCLID:
        return euclid_accuracy(data), 0.0
    rows, queries = data.rows_for(name)
    metric = LEARNERS[name](random_state=seed)
    begin = perf_counter()
    metric.fit(rows, data.parts.labels)
    seconds = perf_counter() - begin
    return accuracy(metric, rows, data.parts.labels, queries, data.answers), seconds


def warm_up(X: Array, y: Array) -> None:
    """Compile what the learners run on a few rows, so that compilation is not measured as learning."""
    small = split(X[:400], y[:400], 0.5, 0)
    for name in LEARNERS:
        measure(name, small, 0)


def compare(X: Array, y: Array, n_splits: int, seed: int, advance: Advance) -> list[Result]:
    """Every learner at every training fraction, over random splits."""
    results = {(f, name): Result(name, f) for f in FRACTIONS for name in (EUCLID, *LEARNERS)}
    for number, fraction in product(range(n_splits), FRACTIONS):
        data = split(X, y, fraction, seed + number)
        for name in (EUCLID, *LEARNERS):
            advance(0, f"{name}, {fraction:.0%}, split {number + 1}")
            value, seconds = measure(name, data, seed)
            results[fraction, name].accuracies.append(value)
            results[fraction, name].seconds.append(seconds)
            advance(1)
    return list(results.values())
