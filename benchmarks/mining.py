"""Labels to model: mining in blocks against exact mining, many classes, and a million rows.

``python -m benchmarks mining``; environment: ROWS (of the large fit, default 100,000),
SETS (letters, and cifar10 if PALOMA_DATA names a folder that has it). CPU seconds, which other work does not change as
much; wall-clock time of the large fit stands beside them.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import paloma
from paloma._training import mining
from paloma.neighbors import euclidean_accuracy

from .memory import status
from .timing import console, table, verdict

# rows of a block that are tried on sets small enough for exact mining
BLOCKS = {"letters": 4_096, "cifar10": 16_384}
N_TEST = 5_000


def fit_and_score(a: np.ndarray, ya: np.ndarray, b: np.ndarray, yb: np.ndarray, size: int) -> tuple[float, float, str]:
    """Accuracy of 3-NN, CPU seconds of `fit`, and how rows were mined; size 0: exactly."""
    before = mining.EXACT_ROWS, mining.BLOCK_ROWS
    mining.EXACT_ROWS, mining.BLOCK_ROWS = (size, size) if size else (len(a), 1)
    try:
        begin = time.process_time()
        metric = paloma.LODML(random_state=0).fit(a, ya)
        spent = time.process_time() - begin
    finally:
        mining.EXACT_ROWS, mining.BLOCK_ROWS = before
    model = paloma.MetricKNeighborsClassifier(metric, n_neighbors=3).fit(a, ya)
    return float(model.score(b, yb)), spent, metric.mined_["search"]


def against_exact() -> None:
    body = []
    for name in os.environ.get("SETS", "letters,cifar10" if os.environ.get("PALOMA_DATA") else "letters").split(","):
        data = paloma.datasets.load(name)
        X, y = np.asarray(data.data, np.float32), np.asarray(data.target)
        order = np.random.default_rng(0).permutation(len(X))
        train, test = order[N_TEST:], order[:N_TEST]
        found = [fit_and_score(X[train], y[train], X[test], y[test], size) for size in (0, BLOCKS[name])]
        gap = found[1][0] - found[0][0]
        cells = [f"{score:.4f} ({spent:.1f} s)" for score, spent, _ in found]
        body.append(
            [f"{name}, {len(train):,} x {X.shape[1]}, {found[1][2]}", *cells, f"{gap:+.4f}", verdict(gap, -0.003)]
        )
    table("3-NN accuracy and CPU seconds of LODML.fit", ["", "exact", "blocks", "difference", "asked for"], body)


def many_classes(n_classes: int = 20_000) -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(n_classes, dtype=np.int32), 2)
    X = (rng.normal(size=(n_classes, 32)).astype(np.float32)[codes] + rng.standard_normal((2 * n_classes, 32))).astype(
        np.float32
    )
    begin = time.process_time()
    mining.mine(X, codes)
    spent = time.process_time() - begin
    row = [f"{n_classes:,} classes of 2 rows, d = 32, exact", f"{spent:.1f}", verdict(spent, 10, at_least=False)]
    table("Mining, CPU seconds", ["", "s", "asked for"], [row])


def large_rows(n: int, d: int = 128, n_classes: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Classes of several clusters each, with noise that differs by direction."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    centers = 0.6 * rng.standard_normal((n_classes, 5, d), dtype=np.float32)
    X = rng.standard_normal((n, d), dtype=np.float32)
    X *= np.linspace(2.0, 0.3, d, dtype=np.float32)
    X += centers[y, rng.integers(0, 5, n)]
    return X, y


def child(n: int) -> None:
    """One epoch from labels; prints wall and CPU seconds, MB beyond the input, accuracy and its Euclidean start."""
    warm, labels = large_rows(2_000)
    paloma.LODML(n_epochs=1, random_state=0).fit(warm, labels)
    X, y = large_rows(n + 2_000)
    X, y, Q, yq = X[:n], y[:n], X[n:], y[n:]
    Path("/proc/self/clear_refs").write_text("5")
    before, wall, cpu = status("VmRSS"), time.perf_counter(), time.process_time()
    model = paloma.LODML(n_epochs=1, random_state=0).fit(X, y)
    wall, cpu, extra = time.perf_counter() - wall, time.process_time() - cpu, (status("VmHWM") - before) / 1024
    some = np.random.default_rng(1).permutation(n)[:50_000]
    score = paloma.MetricKNeighborsClassifier(model, n_neighbors=3).fit(X[some], y[some]).score(Q, yq)
    plain = euclidean_accuracy(Q, yq, items=X[some], item_labels=y[some])
    print(wall, cpu, extra, score, plain, model.n_triplets_, model.mined_["search"], sep="|")


def labels_to_model(n: int) -> list[str]:
    """What `child` prints, in a process of its own."""
    code = f"from benchmarks.mining import child; child({n})"
    return (
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        .stdout.strip()
        .split("|")
    )


def large(n: int) -> None:
    wall, cpu, extra, score, plain, n_triplets, search = labels_to_model(n)
    name = f"{n:,} x 128, 100 classes, one epoch, {int(n_triplets):,} triplets, {search}"
    time_of = verdict(float(wall) / 60, 6 * n / 1e6, at_least=False)
    room = verdict(float(extra) / 1024, 2, at_least=False)
    row = [name, f"{float(wall) / 60:.1f}", f"{float(cpu) / 60:.1f}", time_of, f"{float(extra):.0f}", room]
    table("Labels to model", ["", "minutes", "CPU minutes", "asked for", "MB beyond X", "GB asked for"], [row])
    console.print(f"3-NN accuracy among 50,000 rows: {float(score):.4f}; Euclidean {float(plain):.4f}")


def screen() -> list[list[str]]:
    """A tenth of a million rows, or with FULL=1 all of them, each with its share of the goal."""
    n = 1_000_000 if os.environ.get("FULL") else 100_000
    wall, _, extra, *_ = labels_to_model(n)
    minutes, what = float(wall) / 60, f"labels to model, {n:,} x 128, 100 classes"
    return [
        [what, f"{minutes:.1f} minutes", verdict(minutes, 6 * n / 1e6, at_least=False)],
        [f"{what}: MB beyond X", f"{float(extra):.0f}", verdict(float(extra), 2048, at_least=False)],
    ]


def main() -> None:
    against_exact()
    many_classes()
    large(int(os.environ.get("ROWS", "100000")))
