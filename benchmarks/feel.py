"""What people wait for, in one screen: each figure beside its goal. What `make bench` runs.

``python -m benchmarks feel [--only NAME ...]``; names: live, feedback, undo, predict, busy, loop, mining, projected,
sparse, cub200, import, cold. cub200 and projected need PALOMA_DATA. A few minutes; with FULL=1 mining takes a million
rows instead of 100,000, and projected takes all sets.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np

import paloma
from paloma.feedback import FeedbackSearch

from . import growth, learning, mining, projection
from .timing import console, table, verdict

Row = list[str]


def clustered(n: int, d: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes of five clusters each, near a 32-dimensional subspace, as embeddings are."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng(seed)
    basis, centers = fixed.normal(size=(32, d)) / np.sqrt(32), fixed.normal(size=(classes, 5, 32))
    y = rng.integers(0, classes, n)
    inside = centers[y, rng.integers(0, 5, n)] + 0.7 * rng.normal(size=(n, 32))
    return (inside @ basis + 0.15 * rng.normal(size=(n, d))).astype(np.float32), y


def milliseconds(one: Callable[[int], None], n: int, skipped: int = 10) -> tuple[float, float]:
    """p50 and p99 of n calls, after some that are not counted."""
    times = []
    for i in range(n + skipped):
        begin = time.perf_counter()
        one(i)
        times.append(1e3 * (time.perf_counter() - begin))
    return float(np.median(times[skipped:])), float(np.quantile(times[skipped:], 0.99))


def live() -> list[Row]:
    """One triplet of points learned, then one live search of its anchor."""
    out = []
    goals = {(20_000, 256, 100): (10.0, 25.0), (100_000, 128, 20): (5.0, None)}
    for (n, d, classes), (p50_goal, p99_goal) in goals.items():
        X, y = clustered(n, d, classes, 1)
        for name, options in (("", {}), (", whitened and guarded", {"scale": "full", "guard": True})):
            metric = paloma.LODML(random_state=0, **options).fit(X[:4000], y[:4000])
            index = paloma.MetricIndex(metric)
            index.add(X, y)
            triplets = np.random.default_rng(2).integers(0, n, (210, 3))

            def one(i: int, X: np.ndarray = X, y: np.ndarray = y, t: np.ndarray = triplets, m=metric, x=index) -> None:
                m.partial_fit(None, y[t[i]][None], triplets=X[t[i]][None])
                x.search(X[t[i, :1]], 10, rerank="live")

            p50, p99 = milliseconds(one, 200)
            what = f"one triplet learned, one live search, {n:,} x {d}, {classes} classes{name}"
            out.append([f"{what}: p50", f"{p50:.1f} ms", verdict(p50, p50_goal, at_least=False)])
            if p99_goal:
                out.append([f"{what}: p99", f"{p99:.1f} ms", verdict(p99, p99_goal, at_least=False)])
    return out


def noisy(n: int) -> tuple[np.ndarray, np.ndarray]:
    """100 classes in 256 features, 24 directions of which vary for other reasons."""
    X, y = clustered(n, 256, 100, 1)
    rng = np.random.default_rng(5)
    return X + 0.25 * (rng.normal(size=(n, 24)) @ rng.normal(size=(24, 256))).astype(np.float32), y


def marked(y: np.ndarray, shown: Sequence[int], query: int) -> dict[str, list[int]]:
    """What a user who looks for a class says of the results of a query."""
    yes = [item for item in shown if y[item] == y[query]]
    return {"relevant": yes, "irrelevant": [item for item in shown if y[item] != y[query]]}


def feedback() -> list[Row]:
    """Results of a query marked, then the query searched again; and what that search finds of the true neighbors."""
    n, out = 100_000, []
    X, y = noisy(n)
    for dtype, users in (("float32", (None,)), ("float64", (None,)), ("float32", ("a", "b", "c", "d"))):
        rng, rows = np.random.default_rng(2), X.astype(dtype)
        search, times = FeedbackSearch(rows), []
        for i in range(300):
            user, query = users[i % len(users)], int(rng.integers(n))
            said = marked(y, search.search(query, 10, user=user)[1], query)
            begin = time.perf_counter()
            search.mark(query, user=user, **said)
            search.search(query, 10, user=user)
            times.append(1e3 * (time.perf_counter() - begin))
        what = f"one statement, one search, {n:,} x 256 {dtype}, {len(users)} users"
        p50 = float(np.median(times[100:]))
        out.append([f"{what}: p50", f"{p50:.1f} ms", verdict(p50, 10.0, at_least=False)])
        found = np.mean([recall(search, rows, int(rng.integers(n)), users[i % len(users)]) for i in range(40)])
        out.append([f"{what}: recall at 10", f"{found:.3f}", ""])
    return out


def recall(search: FeedbackSearch, X: np.ndarray, query: int, user: str | None) -> float:
    """Share of the ten nearest items under the newest metric that a search finds."""
    gaps = X - X[query]
    values = ((gaps @ search.metric_matrix(user).astype(X.dtype)) * gaps).sum(axis=1)
    values[query] = np.inf
    return len(set(np.argsort(values)[:10].tolist()) & set(search.search(query, 10, user=user)[1])) / 10


def undo() -> list[Row]:
    """One of 10,000 statements undone, each of ten marks, 256 features."""
    n, rng = 10_000, np.random.default_rng(3)
    X, y = noisy(5000)
    search = FeedbackSearch(X)
    members = [np.flatnonzero(y == c) for c in range(100)]
    for a in range(0, n, 1000):
        queries = rng.integers(0, len(y), 1000).tolist()
        shown = [[*rng.choice(members[y[q]], 4, replace=False), *rng.integers(0, len(y), 6)] for q in queries]
        unique = [[int(k) for k in dict.fromkeys(row) if k != q] for q, row in zip(queries, shown, strict=True)]
        said = [marked(y, row, q) for q, row in zip(queries, unique, strict=True)]
        search.tell_all([{"id": a + i, "query": queries[i], **each} for i, each in enumerate(said)])
    out = []
    for name, number in (("last", n - 1), ("middle", n // 2), ("first", 0)):
        begin = time.perf_counter()
        search.undo(number)
        seconds = time.perf_counter() - begin
        text = f"the {name} of {n:,} statements undone, 256 features"
        out.append([text, f"{seconds:.2f} s", verdict(seconds, 1.0, at_least=False)])
    return out


def predict() -> list[Row]:
    """One row of Letters predicted by the rows that the learner remembers, right after one row was learned."""
    from paloma.neighbors.reservoir import shares

    X, y = paloma.datasets.load_letters(return_X_y=True)
    X = np.asarray(X, np.float64)
    metric, times = paloma.LODML(random_state=0).fit(X[:2000], y[:2000]), []
    for i in range(2000, 2220):
        metric.partial_fit(X[i : i + 1], y[i : i + 1])
        begin = time.perf_counter()
        shares(metric, X[i + 1 : i + 2], 3)
        times.append(1e3 * (time.perf_counter() - begin))
    p50 = float(np.median(times[20:]))
    name = "one row predicted after one row learned, 26 classes, d = 16: p50"
    return [[name, f"{p50:.2f} ms", verdict(p50, 1.0, at_least=False)]]


FIT = """
import time, numpy as np, paloma
rng = np.random.default_rng(0)
X, y = rng.normal(size=(10_000, 64)), rng.integers(0, 50, 10_000)
X += 0.5 * rng.normal(size=(50, 64))[y]
paloma.LODML(n_epochs=1, random_state=0).fit(X[:500], y[:500])
begin = time.perf_counter()
paloma.LODML(n_epochs=1, random_state=0).fit(X, y)
print(time.perf_counter() - begin)
"""


def busy() -> list[Row]:
    """LODML.fit while twice as many processes as there are CPUs keep them busy, against one thread under that load."""
    out = []
    for name, n_others, most in (("quiet", 0, 1.05), ("busy", 2 * (os.cpu_count() or 1), 1.5)):
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n_others)]
        try:
            time.sleep(1.0)
            one = min(float(fresh(FIT, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")) for _ in range(2))
            ours = min(float(fresh(FIT)) for _ in range(2))
        finally:
            for other in others:
                other.kill()
                other.wait()
        text = f"LODML.fit, 10,000 x 64, 50 classes, {name} machine, against one thread ({one:.1f} s)"
        out.append([text, f"{ours:.1f} s", f"{ours / one:.2f} times, {verdict(ours / one, most, at_least=False)}"])
    return out


def cub200() -> list[Row]:
    """Fit, read-out and prediction of 5,794 rows of 200 classes, d = 200; 10.5 + 1.4 s before."""
    if not os.environ.get("PALOMA_DATA"):
        return [["cub200: PALOMA_DATA names no folder", "", ""]]
    from sklearn.decomposition import PCA
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import normalize

    data = paloma.datasets.load("cub200")
    rows = normalize(np.asarray(data.data, np.float32))
    a, b, ya, _ = train_test_split(rows, data.target, test_size=5794, random_state=0)
    pca = PCA(200, random_state=0).fit(a)
    a, b = (np.ascontiguousarray(pca.transform(part), np.float32) for part in (a, b))
    begin = time.perf_counter()
    metric = paloma.LODML(random_state=0).fit(a, ya)
    middle = time.perf_counter()
    paloma.MetricKNeighborsClassifier(metric).fit(a, ya).predict(b)
    end = time.perf_counter()
    return [
        ["cub200, fit", f"{middle - begin:.1f} s", verdict(middle - begin, 3.5, at_least=False)],
        ["cub200, read-out and prediction", f"{end - middle:.2f} s", verdict(end - middle, 0.47, at_least=False)],
    ]


def fresh(code: str, **environment: str) -> str:
    """What a new Python process prints."""
    environment = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def imports() -> list[Row]:
    timed = "import time; begin = time.perf_counter(); {}; print(time.perf_counter() - begin)"
    base, ours, learner = (
        min(float(fresh(timed.format(code))) for _ in range(3))
        for code in ("import sklearn.base", "import paloma", "from paloma import LODML")
    )
    return [
        ["import paloma, against import sklearn.base", f"{ours:.2f} s", verdict(ours / base, 1.2, at_least=False)],
        ["from paloma import LODML, against the same", f"{learner:.2f} s", f"{learner / base:.2f} times"],
    ]


def cold() -> list[Row]:
    code = (
        "import time, numpy as np; from paloma import LODML; rng = np.random.default_rng(0);"
        "begin = time.perf_counter();"
        "LODML(random_state=0).fit(rng.normal(size=(150, 4)), np.arange(150) % 3); print(time.perf_counter() - begin)"
    )
    with tempfile.TemporaryDirectory() as folder:
        seconds = float(fresh(code, NUMBA_CACHE_DIR=folder))
    return [["first fit, nothing compiled yet", f"{seconds:.1f} s", verdict(seconds, 3.0, at_least=False)]]


PARTS = {
    "live": live, "feedback": feedback, "undo": undo, "predict": predict, "busy": busy,
    "loop": learning.screen, "mining": mining.screen, "projected": projection.screen, "sparse": growth.screen,
    "cub200": cub200, "import": imports, "cold": cold,
}  # fmt: skip


def main(options: Sequence[str] = ()) -> None:
    names = list(options[1:]) if options else list(PARTS)
    if options and (options[0] != "--only" or not set(names) <= set(PARTS)):
        console.print(f"feel: --only and names of {', '.join(PARTS)}.")
        return
    body = [row for name in names for row in PARTS[name]()]
    table("What people wait for", ["what", "measured", "asked for"], body)
