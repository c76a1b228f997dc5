"""Search under local metrics against scikit-learn's brute-force Euclidean search."""

import numpy as np
from sklearn.neighbors import NearestNeighbors

import paloma

from .timing import seconds, table, threads, verdict


def problem(n_queries: int, n: int, d: int, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, paloma.LODML]:
    """Rows, their classes, queries, and a metric that has learned a little of each class."""
    rng = np.random.default_rng(0)
    X, Q = (rng.normal(size=(size, d)).astype(np.float32) for size in (n, n_queries))
    y = rng.integers(0, classes, n)
    metric = paloma.LODML(scale=None, C=1e-4, n_epochs=1, average=False)
    return X, y, Q, metric.fit(X, y, triplets=rng.integers(0, n, (20_000, 3)))


def main(n_queries: int = 1000, n: int = 50_000, d: int = 200, classes: int = 38, k: int = 3) -> None:
    X, y, Q, metric = problem(n_queries, n, d, classes)
    body = []
    for n_threads in (1, None):
        with threads(n_threads):
            local = paloma.MetricKNeighborsClassifier(metric, n_neighbors=k).fit(X, y)
            brute = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X)
            ours = seconds(lambda model=local: model.kneighbors(Q))
            euclid = seconds(lambda model=brute: model.kneighbors(Q))
        name = f"{n_queries} queries, {n} x {d}, {classes} classes, k={k}, {n_threads or 'all'} thread(s)"
        ratio = ours / euclid
        body.append([name, f"{euclid:.3f}", f"{ours:.3f}", f"{ratio:.2f}", verdict(ratio, 1.3, at_least=False)])
    table("Search, seconds", ["local metrics", "scikit-learn Euclid", "paloma local", "ratio", "asked for"], body)
