"""Accuracy of the defaults on real data, mean of random 70/30 splits. Needs the folder that PALOMA_DATA names.

``python -m benchmarks accuracy``; environment: SETS (comma-separated), SPLITS, TRAIN (fraction), LEARNERS.
"""

import os
import time

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler, normalize

import paloma
from paloma.preprocessing import UnitRows

from .timing import console, table

SETS = "letters,yaleb,pets,caltech101,cifar10,cub200,coil20,banking77"
N_CIFAR = 20_000


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = paloma.datasets.load(name)
    X, y = np.asarray(data.data, np.float32), np.asarray(data.target)
    if name == "cifar10":
        first = data.train_idx[:N_CIFAR]
        X, y = X[first], y[first]
    return X, y


def split(
    name: str, X: np.ndarray, y: np.ndarray, train: float, seed: int, rows: int | None = None
) -> list[np.ndarray]:
    """Letters standardized; the others l2-normalized, centered, PCA 200; everything fitted on the training part.

    rows : at most so many training rows; None: all.
    """
    a, b, ya, yb = train_test_split(X, y, train_size=train, random_state=seed)
    a, ya = a[:rows], ya[:rows]
    if name == "letters":
        scaler = StandardScaler().fit(a)
        a, b = scaler.transform(a), scaler.transform(b)
    else:
        a, b = normalize(a), normalize(b)
        pca = PCA(min(200, a.shape[1]), random_state=0).fit(a)
        a, b = pca.transform(a), pca.transform(b)
    return [np.ascontiguousarray(a, np.float32), ya, np.ascontiguousarray(b, np.float32), yb]


def accuracy(learner: str, a: np.ndarray, ya: np.ndarray, b: np.ndarray, yb: np.ndarray) -> tuple[float, float]:
    """On the test part, with the default vote, and CPU seconds of `fit`; Euclid is an ODML that has learned nothing."""
    if learner == "Euclid":
        metric = paloma.ODML(scale=None).fit(a, ya, triplets=[[0, 0, 0]])
        return float(paloma.MetricKNeighborsClassifier(metric).fit(a, ya).score(b, yb)), 0.0
    kind = getattr(paloma, learner)
    if not hasattr(kind, "pair_distance"):
        unit = UnitRows().fit(a)
        a, b = unit.transform(a), unit.transform(b)
    begin = time.process_time()
    metric = kind(random_state=0).fit(a, ya)
    seconds = time.process_time() - begin
    return float(paloma.MetricKNeighborsClassifier(metric).fit(a, ya).score(b, yb)), seconds


def main() -> None:
    if not os.environ.get("PALOMA_DATA"):
        console.print("accuracy: PALOMA_DATA names no folder; Letters alone, from the package.")
    names = os.environ.get("SETS", SETS if os.environ.get("PALOMA_DATA") else "letters").split(",")
    learners = os.environ.get("LEARNERS", "Euclid,ODML,LODML,SLMOML,OASIS,LOSL").split(",")
    n_splits, train = int(os.environ.get("SPLITS", "5")), float(os.environ.get("TRAIN", ".7"))
    body = []
    for name in names:
        X, y = rows_of(name)
        found = {learner: [] for learner in learners}
        for seed in range(n_splits):
            parts = split(name, X, y, train, seed)
            for learner in learners:
                found[learner].append(accuracy(learner, *parts))
        cells = [f"{np.mean(v, axis=0)[0]:.4f} ({np.mean(v, axis=0)[1]:.1f} s)" for v in found.values()]
        body.append([name, *cells])
        console.print(f"{name}: " + ", ".join(f"{k} {c}" for k, c in zip(learners, cells, strict=True)))
    table(
        f"Accuracy, default parameters and vote, {train:.0%} train, mean of {n_splits} splits",
        ["data", *learners],
        body,
    )
