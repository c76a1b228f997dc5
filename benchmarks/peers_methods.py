"""The methods of the page of benchmarks that run in paloma's own environment, and how all of them are judged.

A metric, learned or not, is judged by the vote that `MetricKNeighborsClassifier` takes by default, the same for all;
scikit-learn's kNN has its number of neighbors and weights chosen, as classifiers have their parameters, by 3-fold
cross-validation on the training rows.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize
from sklearn.svm import SVC, LinearSVC

import paloma
from paloma.metrics import count_relevant, mean_average_precision, precision_at_k
from paloma.preprocessing import UnitRows

N_QUERIES = 1000  # test rows that ask for training rows
N_TUNING = 2000  # training rows that choose the parameters of the RBF SVM
NEIGHBORS = {"n_neighbors": [1, 3, 5, 9, 15, 25], "weights": ["uniform", "distance"]}


@dataclass
class Split:
    """Training and test rows, labels as codes 0, 1, ..."""

    train: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    answers: np.ndarray

    @property
    def queries(self) -> np.ndarray:
        return self.test[:N_QUERIES]


@dataclass
class Judged:
    """What one method made of one split: CPU seconds of the fit with the parameters chosen, and of choosing them."""

    accuracy: float
    seconds: float
    tuning: float = 0.0
    chosen: str = ""
    retrieval: dict[str, float] = field(default_factory=dict)


def cpu_seconds(function: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.process_time()
    made = function()
    return made, time.process_time() - begin


def retrieval(split: Split, closeness: np.ndarray) -> dict[str, float]:
    """mAP and P@10 of the training rows for each query, ranked by closeness (n_queries, n_train)."""
    asked = split.answers[:N_QUERIES]
    ranked = split.labels[np.argsort(-closeness, axis=1, kind="stable")]
    n_relevant = count_relevant(asked, split.labels)
    return {
        "map": mean_average_precision(ranked, asked, n_relevant=n_relevant),
        "p10": precision_at_k(ranked, asked, 10),
    }


def mapped(split: Split, train: np.ndarray, test: np.ndarray) -> Judged:
    """Rows under a map, by our default vote: an ODML that has learned nothing is the Euclidean distance."""
    plain = paloma.ODML(scale=None).fit(train, split.labels, triplets=[[0, 0, 0]])
    vote = paloma.MetricKNeighborsClassifier(plain).fit(train, split.labels)
    closeness = -pairwise_distances(test[:N_QUERIES], train)
    return Judged(float(vote.score(test, split.answers)), 0.0, retrieval=retrieval(split, closeness))


def under(split: Split, components: np.ndarray, seconds: float, unit: bool = False) -> Judged:
    """A linear map that took so many seconds to learn; under `unit` mapped rows have length one."""
    train, test = split.train @ components.T, split.test @ components.T
    if unit:
        train, test = normalize(train), normalize(test)
    judged = mapped(split, train, test)
    judged.seconds = seconds
    return judged


def ours(split: Split, kind: Any) -> Judged:
    """Defaults and default vote; similarities with rows of length one, as in `benchmarks.accuracy`."""
    train, test = split.train, split.test
    if not hasattr(kind, "pair_distance"):
        rows = UnitRows().fit(train)
        train, test = rows.transform(train), rows.transform(test)
    metric, seconds = cpu_seconds(lambda: kind(random_state=0).fit(train, split.labels))
    vote = paloma.MetricKNeighborsClassifier(metric).fit(train, split.labels)
    closeness = metric.pairwise_score(test[:N_QUERIES], train, split.labels)
    return Judged(float(vote.score(test, split.answers)), seconds, retrieval=retrieval(split, closeness))


def compile_ours(split: Split) -> None:
    """Loads the compiled loops into this process, so that they are in its copies: compiling is not learning."""
    small = Split(split.train[:300], split.labels[:300] % 4, split.test[:20], split.answers[:20] % 4)
    for kind in OURS.values():
        ours(small, kind)


def tuned(split: Split, model: Any, grid: dict[str, list], rows: int | None = None) -> tuple[Any, Judged]:
    """Parameters by 3-fold cross-validation on the first so many training rows, then a fit on all of them."""
    search = GridSearchCV(model, grid, cv=3, refit=False)
    _, tuning = cpu_seconds(lambda: search.fit(split.train[:rows], split.labels[:rows]))
    best = search.best_params_
    model, judged = fixed(split, clone(model).set_params(**best))
    judged.tuning = tuning
    judged.chosen = " ".join(f"{name}={v:.6g}" if isinstance(v, float) else f"{name}={v}" for name, v in best.items())
    return model, judged


def fixed(split: Split, model: Any) -> tuple[Any, Judged]:
    _, seconds = cpu_seconds(lambda: model.fit(split.train, split.labels))
    return model, Judged(float(model.score(split.test, split.answers)), seconds)


def neighbors(split: Split, metric: str) -> Judged:
    _, judged = tuned(split, KNeighborsClassifier(metric=metric, algorithm="brute"), NEIGHBORS)
    judged.retrieval = retrieval(split, -pairwise_distances(split.queries, split.train, metric=metric))
    return judged


def by_class(split: Split, model: Any, judged: Judged) -> Judged:
    """Training rows are retrieved by the score of their class: all rows of a class are equally close."""
    judged.retrieval = retrieval(split, model.decision_function(split.queries)[:, split.labels])
    return judged


def logistic(split: Split) -> Judged:
    model = LogisticRegression(max_iter=200, tol=1e-3)
    return by_class(split, *tuned(split, model, {"C": [0.1, 1.0, 10.0, 100.0, 1000.0]}))


def linear_svc(split: Split) -> Judged:
    return by_class(split, *tuned(split, LinearSVC(random_state=0), {"C": [0.1, 1.0, 10.0]}))


def svc_rbf(split: Split) -> Judged:
    scale = 1 / (split.train.shape[1] * float(split.train.var()))
    grid = {"C": [1.0, 10.0, 100.0], "gamma": [scale / 4, scale, 4 * scale]}
    return by_class(split, *tuned(split, SVC(), grid, N_TUNING))


def lda(split: Split) -> Judged:
    return by_class(split, *fixed(split, LinearDiscriminantAnalysis()))


def lda_knn(split: Split) -> Judged:
    model, seconds = cpu_seconds(lambda: LinearDiscriminantAnalysis().fit(split.train, split.labels))
    judged = mapped(split, model.transform(split.train), model.transform(split.test))
    judged.seconds = seconds
    return judged


def soft_scale(split: Split) -> float:
    """The power of 2 by which rows are multiplied before NCA: with the largest likelihood of 500 rows' classes.

    NCA's neighbors have weight exp(-d^2), so that it can begin to learn only if distances are neither tiny nor huge.
    """
    d2 = pairwise_distances(split.train[:500], split.train, squared=True, metric="euclidean").astype(np.float64)
    d2[np.arange(len(d2)), np.arange(len(d2))] = np.inf
    same = split.labels[:500, None] == split.labels

    def likelihood(scale: float) -> float:
        weights = np.exp(-(scale**2) * (d2 - d2.min(axis=1, keepdims=True)))
        return float(np.log((weights * same).sum(axis=1) / weights.sum(axis=1) + 1e-12).mean())

    return max((2.0**power for power in range(-4, 8)), key=likelihood)


def nca(split: Split) -> Judged:
    rows = split.train * soft_scale(split)
    model, seconds = cpu_seconds(lambda: NeighborhoodComponentsAnalysis(random_state=0).fit(rows, split.labels))
    return under(split, model.components_, seconds)


OURS = {"odml": paloma.ODML, "lodml": paloma.LODML, "oasis": paloma.OASIS, "losl": paloma.LOSL}
METHODS: dict[str, Callable[[Split], Judged]] = {
    "euclid": lambda split: neighbors(split, "euclidean"),
    "cosine": lambda split: neighbors(split, "cosine"),
    "euclid-vote": lambda split: mapped(split, split.train, split.test),
    "lda": lda,
    "lda-knn": lda_knn,
    **{name: partial(ours, kind=kind) for name, kind in OURS.items()},
    "linear-svc": linear_svc,
    "logistic": logistic,
    "svc-rbf": svc_rbf,
    "nca": nca,
}
