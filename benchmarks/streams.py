"""Streams: the first rows and triplets, classes that arrive one after another, drift with and without forgetting, a
million rows.

``python -m benchmarks streams``; environment: PARTS (anytime,triplets,classes,drift,million), ROWS, and for the first
two SETS (letters,digits, and names of PALOMA_DATA), LEARNERS, BATCHES, ORDERS (how many). Pictures go to docs/results.
"""

import itertools
import os
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import paloma
from paloma.evaluate import plot_progress, progressive
from paloma.preprocessing import UnitRows
from paloma.triplets import random_triplets, targets_impostors

from .memory import status
from .timing import console, table, verdict

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
BATCH = 20
CHECKPOINTS = (50, 100, 200, 400, 800, 1600)
SPOKEN = (100, 300, 1000, 3000, 10_000, 30_000)
# Orders of the rows, on which nothing was chosen (400 to 411 are for that). A mean of three is uncertain by .004.
ORDERS = range(300, 300 + int(os.environ.get("ORDERS", "12")))
SIMILARITIES = ("LOSL", "OASIS", "L2OSL")
LEARNERS = ("ODML", "LODML", "SLMOML", "L2ODML", "DiagonalODML", "OMDML", *SIMILARITIES, "OKS", "OMKS")


def letters() -> tuple[np.ndarray, np.ndarray]:
    X, y = paloma.datasets.load_letters(return_X_y=True)
    return StandardScaler().fit_transform(X), np.unique(y, return_inverse=True)[1]


def size_of(model: paloma.LODML) -> int:
    """Bytes of matrices and memory."""
    state, reservoir = model._model.state, model._model.reservoir
    mean = 0 if state.mean is None else sum(part.nbytes for part in state.mean)
    return state.shared.nbytes + state.stack.nbytes + mean + reservoir.rows.nbytes


def learner_of(name: str, d: int, seed: int) -> paloma.ODML:
    """A learner at its defaults; modalities are three parts of the columns, kernels linear, RBF, and cubic."""
    words: dict = {"random_state": seed}
    if name == "OMDML":
        words["groups"] = [slice(a, b) for a, b in itertools.pairwise(np.linspace(0, d, 4).astype(int).tolist())]
    if name == "OMKS":
        words |= {"kernels": ["linear", "rbf", "poly"], "normalize": True}
    return getattr(paloma, name)(**words)


def at_start(metric: paloma.ODML) -> paloma.ODML:
    """A copy that follows nothing of what was learned."""
    start = deepcopy(metric)
    start._model.strength, start._model.metric = (0.0, 0.0), None
    return start


def shuffled(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows in random order, and how many of them are for learning; a third is for tests."""
    order = np.random.default_rng(seed).permutation(len(X))[: 3 * CHECKPOINTS[-1]]
    return X[order], y[order], 2 * len(order) // 3


def below_start(learner: str, X: np.ndarray, y: np.ndarray, batch: int, seed: int) -> list[float]:
    """Of a stream of labels, accuracy at each checkpoint less that of the start among the same rows."""
    X, y, n = shuffled(X, y, seed)
    model, done, found = paloma.MetricKNeighborsClassifier(learner_of(learner, X.shape[1], seed)), 0, []
    for end in (end for end in CHECKPOINTS if end <= n):
        for a in range(done, end, batch):
            part = slice(a, min(a + batch, end))
            model.partial_fit(X[part], y[part])
        done, start = end, deepcopy(model)
        start.metric_ = at_start(model.metric_)
        found.append(float(model.refresh().score(X[n:], y[n:]) - start.refresh().score(X[n:], y[n:])))
    return found


def below_start_of_triplets(learner: str, X: np.ndarray, y: np.ndarray, kind: str, seed: int) -> list[float]:
    """The same of a stream of triplets without labels, in calls of at most 1,000; the labels of all rows then vote."""
    X, y, n = shuffled(X, y, seed)
    X, Q, y, answers = X[:n], X[n:], y[:n], y[n:]
    if kind == "mined":
        triplets = targets_impostors(X, y, random_state=seed)[: SPOKEN[-1]]
    else:
        triplets = random_triplets(np.unique(y, return_inverse=True)[1], SPOKEN[-1], np.random.default_rng(seed))
    model, done, found = learner_of(learner, X.shape[1], seed), 0, []
    for end in (end for end in SPOKEN if end <= len(triplets)):
        for a in range(done, end, 1000):
            model.partial_fit(X, triplets=triplets[a : min(a + 1000, end)])
        done = end
        voting = (paloma.MetricKNeighborsClassifier(each, n_neighbors=10) for each in (model, at_start(model)))
        now, start = (classifier.fit(X, y).score(Q, answers) for classifier in voting)
        found.append(float(now - start))
    return found


def sets_for(learner: str) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """The rows of each set as a learner takes them."""
    found = []
    for name in os.environ.get("SETS", "letters,digits").split(","):
        if name == "digits":
            X, y = load_digits(return_X_y=True)
        elif name == "letters":
            X, y = paloma.datasets.load_letters(return_X_y=True)
        else:
            data = paloma.datasets.load(name)
            X, y = np.asarray(data.data, np.float64), np.asarray(data.target)
        scaled = learner not in SIMILARITIES and name in ("letters", "digits")
        if scaled or learner in SIMILARITIES:
            X = (StandardScaler() if scaled else UnitRows()).fit_transform(X)
        found.append((name, X, y))
    return found


def learners() -> list[str]:
    return os.environ.get("LEARNERS", ",".join(LEARNERS)).split(",")


def tabulate(title: str, first: list[str], checkpoints: tuple[int, ...], unit: str, runs: Iterator) -> None:
    """Print gains over the start, means over orders, as they are measured: (names, gains of each order)."""
    body = []
    for names, found in runs:
        gains = np.mean(found, axis=0)
        cells = [f"{gain:+.3f}" for gain in gains] + [""] * (len(checkpoints) - len(gains))
        worst = verdict(-gains.min(), 0.005, at_least=False)
        body.append([*names, *cells, worst, f"{max(0.0, -float(np.min(found))):.3f}"])
        console.print(*body[-1])
    table(title, [*first, *(f"{n:,} {unit}" for n in checkpoints), "below by at most", "of one order"], body)


def anytime() -> None:
    """How far the first rows of a stream take each learner from its start."""
    runs = (
        ((title, name, str(batch)), [below_start(name, X, y, batch, seed) for seed in ORDERS])
        for name in learners()
        for title, X, y in sets_for(name)
        for batch in map(int, os.environ.get("BATCHES", "1,10,100").split(","))
    )
    columns = ["data", "learner", "batch"]
    tabulate("Accuracy of a stream less that of its start", columns, CHECKPOINTS, "rows", runs)


def triplets() -> None:
    """How far triplets without labels take each learner from its start."""
    runs = (
        ((title, name, kind), [below_start_of_triplets(name, X, y, kind, seed) for seed in ORDERS])
        for name in learners()
        for title, X, y in sets_for(name)
        for kind in ("mined", "random")
    )
    columns = ["data", "learner", "triplets"]
    tabulate("Accuracy less that of the start, triplets without labels", columns, SPOKEN, "triplets", runs)


def classes() -> None:
    """26 letters, one class after another in batches of 20; accuracy on test rows of the classes seen so far."""
    X, y = letters()
    a, b, ya, yb = train_test_split(X, y, train_size=0.7, stratify=y, random_state=0)
    order = np.argsort(ya, kind="stable")
    a, ya = a[order], ya[order]
    knew = paloma.LODML(random_state=0).fit(a, ya)
    mixed, model, even = (paloma.LODML(random_state=0, balanced=k == 2) for k in range(3))
    body = []
    for rows in np.array_split(np.random.default_rng(0).permutation(len(a)), len(a) // BATCH):
        mixed.partial_fit(a[rows], ya[rows])
    for label in range(26):
        rows = np.flatnonzero(ya == label)
        for start in range(rows[0], rows[-1] + 1, BATCH):
            part = slice(start, min(start + BATCH, rows[-1] + 1))
            model.partial_fit(a[part], ya[part])
            even.partial_fit(a[part], ya[part])
        seen, test = ya <= label, yb <= label
        vote = {"n_neighbors": 3, "weights": "uniform"}
        scores = [paloma.MetricKNeighborsClassifier(m, **vote).fit(a[seen], ya[seen]).score(b[test], yb[test])
                  for m in (model, even, mixed, knew)]  # fmt: skip
        body.append([label + 1, int(seen.sum()), *scores, size_of(model), model._model.state.n_slots])
    _plot_classes(np.array(body, float))
    shown = [[f"{r[0]}", f"{r[1]:,}", *(f"{s:.3f}" for s in r[2:6]), f"{r[6] / 1024:.0f}", f"{r[7]}"] for r in body]
    columns = ["classes", "rows", "one after another", "balanced", "shuffled", "fit on all", "kB", "matrices"]
    table(
        "Letters, one class after another, 3-NN among the classes seen", columns, [shown[k] for k in (1, 4, 9, 15, 25)]
    )


def _plot_classes(body: np.ndarray) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    labels = ("one class after another", "the same, balanced=True", "same rows shuffled", "fit on all classes")
    for column, label in enumerate(labels, 2):
        left.plot(body[:, 0], body[:, column], label=label)
    left.set(xlabel="classes seen", ylabel="3-NN accuracy among them")
    left.legend()
    right.plot(body[:, 0], body[:, 6] / 1024)
    right.set(xlabel="classes seen", ylabel="model and memory, kB", ylim=(0, None))
    figure.savefig(RESULTS / "streams_classes.png", dpi=80)


def swapped() -> tuple[np.ndarray, np.ndarray]:
    """Letters in random order; two informative features are exchanged halfway."""
    X, y = letters()
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    half = len(X) // 2
    X[half:, [7, 12]] = X[half:, [12, 7]]
    return X, y


def moving() -> tuple[np.ndarray, np.ndarray]:
    """river's RandomRBFDrift: 50 moving centers of 5 classes."""
    from river.datasets import synth

    stream = synth.RandomRBFDrift(
        seed_model=1, seed_sample=2, n_classes=5, n_features=10, n_centroids=50, change_speed=0.001,
        n_drift_centroids=50,
    )  # fmt: skip
    rows = list(stream.take(20_000))
    return np.array([list(x.values()) for x, _ in rows]), np.array([y for _, y in rows])


WAYS = {
    "no forgetting": {},
    "window": {"memory": "window"},
    "forget=1e-4": {"forget": 1e-4},
    "forget=1e-3": {"forget": 1e-3},
}


def drift() -> None:
    """Accuracy over time with and without forgetting."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    body = []
    streams = (("Letters, two features swapped", swapped), ("RandomRBFDrift", moving))
    for ax, (title, make) in zip(axes, streams, strict=True):
        X, y = make()
        for label, parameters in WAYS.items():
            result = progressive(paloma.LODML(random_state=0, **parameters), X, y, batch_size=BATCH)
            plot_progress(result, window=50, label=label, ax=ax)
            accuracy, n = result.over_time("accuracy"), len(result.rows)
            body.append([title, label, *(f"{accuracy[part].mean():.3f}" for part in
                        (slice(n // 4, n // 2), slice(n // 2, n // 2 + 50), slice(3 * n // 4, n)))])  # fmt: skip
            console.print(*body[-1])
        ax.set(title=title, ylim=(0.2, 1.0))
        ax.legend(fontsize="small")
    figure.savefig(RESULTS / "streams_drift.png", dpi=80)
    columns = ["stream", "", "second quarter", "1,000 rows after half-time", "last quarter"]
    table(f"Drift, progressive 3-NN accuracy, batches of {BATCH}", columns, body)


def million() -> None:
    """1,000,000 rows through partial_fit: growth of resident memory after the first 50,000."""
    rng, n_rows = np.random.default_rng(0), int(os.environ.get("ROWS", "1000000"))
    centers, model, start, base = rng.normal(size=(26, 16)), paloma.LODML(random_state=0), time.perf_counter(), 0.0
    points = []
    for step in itertools.count(1):
        y = rng.integers(0, 26, 1000)
        model.partial_fit(centers[y] + rng.normal(size=(1000, 16)), y)
        if step == 50:
            base = status("VmRSS")
        if step >= 50 and step % 50 == 0:
            points.append((step * 1000, (status("VmRSS") - base) / 1024))
        if step * 1000 >= n_rows:
            break
    seconds, grown = time.perf_counter() - start, max(p[1] for p in points)
    row = [f"{n_rows:,}", f"{grown:.1f}", verdict(grown, 50, at_least=False), f"{n_rows / seconds:,.0f}"]
    table(
        "partial_fit, 16 features, 26 classes, batches of 1,000",
        ["rows", "MB after 50,000", "asked for", "rows/s"],
        [row],
    )


def main() -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    parts = {"anytime": anytime, "triplets": triplets, "classes": classes, "drift": drift, "million": million}
    for name in os.environ.get("PARTS", ",".join(parts)).split(","):
        parts[name]()
