"""The experiments themselves: one function per kind of task, JSON values in and out, importable by worker processes."""

from dataclasses import replace
from time import process_time
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import normalize

from .._typing import Array
from ..estimators import L2ODML, L2OSL, LODML, LOSL, OASIS, ODML, measure_of, projected
from ..evaluate import Candidate, Euclid, Learned, Neighborhood, Protocol, fit_shared, kappa_of, random_split
from ..neighbors import MetricKNeighborsClassifier
from ..preprocessing import UnitRows
from ..triplets import mine
from ._curve import stops
from ._journal import Task
from ._letters import N_NEIGHBORS, accuracy
from .paper import OURS, SETS, DataSet

LEARNERS = {kind.__name__: kind for kind in (LODML, ODML, LOSL, OASIS, L2ODML, L2OSL)}
LAMS = tuple(k / 10 for k in range(11))
KAPPAS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0)
N_PASSES, N_QUERIES = 4, 3000


def run(task: Task) -> Any:
    """Run any task."""
    return {"table2": table2, "fig4": fig4, "fig5": fig5, "fig6": fig6}[task["kind"]](task)


def split_of(data: DataSet, percent: int, seed: int) -> tuple[Array, Array]:
    """(train, test) of one run: random, or the one that comes with the data for percent 0."""
    X, _, predefined = data.load()
    if percent:
        return random_split(len(X), percent / 100, seed)
    if predefined is None:
        raise ValueError(f"{data.name} has no predefined split; its file must contain train_idx and test_idx.")
    return predefined


def protocol_of(task: Task) -> Protocol:
    """Preparation and tuning of a task; quick ones search less."""
    recipe = SETS[task["set"]].recipe(task.get("rows", OURS))
    return Protocol(recipe, n_folds=3, max_rows=2000) if task["quick"] else Protocol(recipe)


def method_of(task: Task) -> Any:
    """The method that a task names."""
    name = task["method"]
    if name == "Euclid":
        return Euclid()
    if name == "NCA":
        return Neighborhood()
    method = Learned(LEARNERS[name](), unit=task.get("rows", OURS) == OURS)
    coarse = (0.003, 0.015) if measure_of(method.learner).is_distance else (1e-5, 1e-4)
    return replace(method, kappas=(0.2, 0.8), rates=coarse) if task["quick"] else method


def table2(task: Task) -> dict[str, Any]:
    """One cell of Table 2 in one run: tune on the training part, classify the rest."""
    data = SETS[task["set"]]
    X, y, _ = data.load()
    train, test = split_of(data, task["percent"], task["seed"])
    outcome = protocol_of(task).run(method_of(task), X, y, train, test, task["seed"])
    times = {"fit": outcome.fit_time, "search": outcome.search_time, "tune": outcome.tune_time}
    return {
        "accuracy": outcome.accuracy,
        "power": outcome.chosen.power,
        "kappa": outcome.chosen.kappa,
        "rate": outcome.chosen.rate,
        "n_train": len(train),
        "n_test": len(test),
        **{name: round(seconds, 4) for name, seconds in times.items()},
    }


class _Prepared:
    """One split of our rows, with a learner tuned on its training part."""

    def __init__(self, task: Task) -> None:
        data = SETS[task["set"]]
        X, y, _ = data.load()
        train, test = split_of(data, task["percent"], task["seed"])
        protocol = protocol_of(task)
        self.method: Learned = method_of(task)
        self.candidate, _ = protocol.tune(self.method, X[train], y[train], task["seed"])
        self.parts = protocol.recipe.fit(X[train], y[train], X[test])
        self.answers, self.seed = y[test], task["seed"]
        similarity = not measure_of(self.method.learner).is_distance
        self.rows, self.queries = self.parts.rows(self.candidate.power, similarity)

    def accuracy(self, metric: Any, n_queries: int | None = None) -> float:
        """3-NN accuracy on the test rows, or on the first of them."""
        return accuracy(metric, self.rows, self.parts.labels, self.queries[:n_queries], self.answers[:n_queries])

    def at(self, candidate: Candidate) -> float:
        """Accuracy with other hyperparameters on the same rows and triplets."""
        return self.accuracy(self.method.fitted(self.parts, candidate, self.seed))


def fig4(task: Task) -> dict[str, Any]:
    """Accuracy and progressive loss (mean hinge loss of each triplet before it is learned) against triplets seen."""
    prepared = _Prepared(task)
    rng = np.random.default_rng(task["seed"])
    mined = prepared.parts.mined(prepared.candidate.power)
    stream = np.concatenate([rng.permutation(mined.triplets) for _ in range(N_PASSES)])
    seen = stops(len(stream))
    learner = clone(prepared.method.learner).set_params(
        average=True, project="effective", scale="scalar", random_state=task["seed"], **prepared.candidate.parameters
    )
    accuracies, losses, total = [], [], 0.0
    for chunk in np.split(stream, seen[:-1]):
        learner.partial_fit(prepared.rows, prepared.parts.labels, triplets=chunk)
        total += learner.loss_ * len(chunk)
        losses.append(total / learner.n_triplets_)
        accuracies.append(prepared.accuracy(learner, N_QUERIES))
    return {"seen": seen.tolist(), "one_pass": len(mined.triplets), "accuracy": accuracies, "loss": losses}


def fig5(task: Task) -> dict[str, Any]:
    """Accuracy against lam at the tuned C, and against kappa at the tuned C' (theory Fact 3)."""
    prepared = _Prepared(task)
    best = prepared.candidate
    if task["axis"] == "kappa":
        values: tuple[float, ...] = KAPPAS
        candidates = [replace(best, kappa=kappa) for kappa in values]
    else:
        values = LAMS
        C = best.parameters["C"]
        candidates = [replace(best, kappa=kappa_of(lam), rate=C * (lam**2 + (1 - lam) ** 2)) for lam in values]
    return {"values": list(values), "accuracy": [prepared.at(c) for c in candidates], "C": best.parameters["C"]}


def fig6(task: Task) -> dict[str, Any]:
    """One learner at full dimension with default parameters: accuracy, and CPU seconds of each part of the work."""
    data = SETS[task["set"]]
    X, y, _ = data.load()
    train, test = split_of(data, task["percent"], task["seed"])
    rows, queries, labels = normalize(X[train]), normalize(X[test]), y[train]
    learner = LEARNERS[task["method"]](random_state=task["seed"])
    if not measure_of(learner).is_distance:
        unit = UnitRows().fit(rows)
        rows, queries = unit.transform(rows), unit.transform(queries)
    clock = [process_time()]
    mined = mine(rows, np.unique(labels, return_inverse=True)[1].astype(np.int32), least=0)
    clock.append(process_time())
    metric = fit_shared(learner, rows, labels, mined)
    clock.append(process_time())
    model = MetricKNeighborsClassifier(metric, n_neighbors=N_NEIGHBORS, weights="uniform").fit(rows, labels)
    clock.append(process_time())
    found = float(model.score(queries, y[test]))
    clock.append(process_time())
    mining, learning, recovery, search = np.diff(clock).tolist()
    projection = _projection_seconds(metric, rows)
    times = {"mining": mining, "projection": projection, "learning": max(learning - projection, 0.0)}
    return {"accuracy": found, "d": rows.shape[1], **times, "recovery": recovery, "search": search}


def _projection_seconds(metric: Any, rows: Array) -> float:
    """How long the projection inside `fit` took, measured by doing it once more; 0 for a full metric."""
    if not hasattr(metric, "n_components"):
        return 0.0
    begin = process_time()
    projected(metric, rows)
    return process_time() - begin
