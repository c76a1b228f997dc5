"""The index: exact search beside scikit-learn and faiss, two-stage search over a graph, retrieval on real data.

``python -m benchmarks index``; environment: PARTS (of ``exact,graph,retrieval``), SETS. Retrieval needs PALOMA_DATA.
"""

import os
import time

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

import paloma
from paloma.evaluate import retrieval
from paloma.preprocessing import UnitRows

from .search import problem
from .timing import console, seconds, table, threads, verdict

SETS = "caltech101,cub200,banking77"
LEARNERS = ("Euclid", "ODML", "LODML", "LOSL", "L2ODML")
COLUMNS = (*LEARNERS, "LODML, U alone", "LODML, estimated")


def exact(n_queries: int = 1000, n: int = 50_000, d: int = 200, classes: int = 38, k: int = 3) -> None:
    """Exact search under local metrics against plain Euclid, and against faiss on the same search vectors."""
    import faiss

    X, y, Q, metric = problem(n_queries, n, d, classes)
    index = paloma.MetricIndex(metric)
    index.add(X, y)
    vectors, queries = metric.item_vectors(X, y), metric.query_vectors(Q)
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)
    brute = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X)
    body = []
    for n_threads in (1, None):
        with threads(n_threads):
            ours = seconds(lambda: index.search(Q, k))
            euclid, products = seconds(lambda: brute.kneighbors(Q)), seconds(lambda: flat.search(queries, k))
        for name, other, most in (("scikit-learn Euclid", euclid, 1.3), ("faiss IndexFlatIP", products, 1.2)):
            cells = [f"{other:.3f}", f"{ours:.3f}", f"{ours / other:.2f}", verdict(ours / other, most, at_least=False)]
            body.append([f"{name}, {n_threads or 'all'} thread(s)", *cells])
    title = f"Exact search, seconds: {n_queries} queries, {n} x {d}, {classes} classes, k={k}"
    table(title, ["against", "its time", "MetricIndex", "ratio", "asked for"], body)


def clustered(n: int, seed: int, d: int = 128, classes: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Twenty classes of 25 clusters each, near a 32-dimensional subspace, as embeddings are."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng(seed)
    basis = fixed.normal(size=(32, d)) / np.sqrt(32)
    centers = fixed.normal(size=(classes, 25, 32))
    y = rng.integers(0, classes, n)
    inside = centers[y, rng.integers(0, 25, n)] + 0.7 * rng.normal(size=(n, 32))
    return (inside @ basis + 0.15 * rng.normal(size=(n, d))).astype(np.float32), y


def graph(n: int = 100_000, n_queries: int = 2000, k: int = 10, more_updates: int = 10_000) -> None:
    """Candidates from a graph under the old metric, ranked under the live one, while learning goes on."""
    import faiss

    (X, y), (Q, _), (L, yl) = clustered(n, 1), clustered(n_queries, 2), clustered(20_000, 3)
    metric = paloma.LODML(random_state=0).fit(L[:16_000], yl[:16_000])
    index = paloma.MetricIndex(metric, backend="faiss-hnsw")
    index.add(X, y)
    before, start = metric.n_updates_, 16_000
    while metric.n_updates_ - before < more_updates:
        metric.partial_fit(L[start : start + 200], yl[start : start + 200])
        start += 200
    live = paloma.MetricIndex(metric)
    live.add(X, y)
    wanted = live.search(Q, k)[1]
    found = index.search(Q, k, rerank="live")[1]
    recall = float((wanted[:, :, None] == found[:, None, :]).any(axis=2).mean())
    plain = faiss.IndexHNSWFlat(X.shape[1], 32)
    plain.add(X)
    plain.hnsw.efSearch = 64
    euclid, ours = seconds(lambda: plain.search(Q, k)), seconds(lambda: index.search(Q, k, rerank="live"))
    exhaustive = seconds(lambda: live.search(Q, k))
    behind, stale = index.updates_behind, index.staleness()
    begin = time.perf_counter()
    index.refresh()
    refreshed = time.perf_counter() - begin
    body = [
        ["updates before the graph was built, and since", f"{before:,} + {behind:,}", ""],
        ["share of the ten nearest that the new updates replace", f"{stale:.3f}", ""],
        [f"recall@{k} against exact under the live metric", f"{recall:.4f}", verdict(recall, 0.99)],
        ["queries per second, two stages", f"{n_queries / ours:,.0f}", ""],
        ["queries per second, exact", f"{n_queries / exhaustive:,.0f}", ""],
        ["queries per second, faiss HNSW under plain Euclid, same width", f"{n_queries / euclid:,.0f}", ""],
        ["time against that", f"{ours / euclid:.2f}", verdict(ours / euclid, 1.5, at_least=False)],
        ["refresh, seconds", f"{refreshed:.1f}", ""],
    ]
    table(f"Two-stage search, {n:,} x {X.shape[1]}, 20 classes", ["what", "measured", "asked for"], body)


def report_of(learner: str, a: np.ndarray, ya: np.ndarray, b: np.ndarray, yb: np.ndarray) -> dict[str, float]:
    """Database a, queries b, k = 10."""
    if learner == "Euclid":
        return retrieval(None, a, ya, b, yb)
    if "SL" in learner:
        unit = UnitRows().fit(a)
        a, b = unit.transform(a), unit.transform(b)
    return retrieval(getattr(paloma, learner)(random_state=0).fit(a, ya), a, ya, b, yb)


def without_labels(a: np.ndarray, ya: np.ndarray, b: np.ndarray, yb: np.ndarray) -> list[dict[str, float]]:
    """LODML where the items' labels are unknown to the search: the shared part alone, and shares by votes of others."""
    metric = paloma.LODML(random_state=0).fit(a, ya)
    voters = paloma.MetricKNeighborsClassifier(metric, n_neighbors=5)
    shares = cross_val_predict(voters, a, ya, cv=3, method="predict_proba")
    return [retrieval(metric, a, ya, b, yb, classes=classes) for classes in (None, shares)]


def on_real_data() -> None:
    """mAP and P@10: database = train (70%), queries = test; l2-normalized, PCA 200 fitted on train; defaults."""
    if not os.environ.get("PALOMA_DATA"):
        console.print("index: PALOMA_DATA names no folder; no retrieval table.")
        return
    body = []
    for name in os.environ.get("SETS", SETS).split(","):
        data = paloma.datasets.load(name)
        parts = train_test_split(np.asarray(data.data, np.float32), data.target, train_size=0.7, random_state=0)
        a, b = normalize(parts[0]), normalize(parts[1])
        pca = PCA(min(200, a.shape[1]), random_state=0).fit(a)
        a, b = (np.ascontiguousarray(pca.transform(part), np.float32) for part in (a, b))
        reports = [report_of(learner, a, parts[2], b, parts[3]) for learner in LEARNERS]
        reports += without_labels(a, parts[2], b, parts[3])
        body.append([name, *(f"{r['mAP']:.4f} / {r['precision@10']:.4f}" for r in reports)])
        console.print(", ".join([name, *map(" ".join, zip(COLUMNS, body[-1][1:], strict=True))]))
    table("Retrieval, mAP / P@10, database 70%, queries 30%, default parameters", ["data", *COLUMNS], body)


def main() -> None:
    parts = {"exact": exact, "graph": graph, "retrieval": on_real_data}
    for name in os.environ.get("PARTS", ",".join(parts)).split(","):
        parts[name]()
