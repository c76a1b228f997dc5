"""Growth with the dimension on sparse rows, and OASIS's own setting (10,000 features, about 70 non-zeros a row)."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import paloma

from .memory import status
from .timing import console, seconds, table, verdict

DIMENSIONS = (1_000, 10_000, 100_000)
N_ROWS, N_NONZERO, N_TRIPLETS = 20_000, 100, 200_000


def sparse_rows(n: int, d: int, per_row: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Rows of ten classes, each with its own favorite features."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n)
    columns = np.where(rng.random((n, per_row)) < 0.93, rng.integers(0, d, (n, per_row)), 0)
    own = rng.integers(0, d, (10, per_row))
    columns = np.where(columns > 0, columns, own[y])
    values = rng.random((n, per_row), np.float32)
    X = sp.csr_matrix((values.ravel(), columns.ravel(), np.arange(0, n * per_row + 1, per_row)), (n, d))
    X.sum_duplicates()
    return X, y


def child(name: str, d: int) -> None:
    """Fit from given triplets; print seconds of fit, read-out and search, and the peak in MB, as JSON."""
    X, y = sparse_rows(N_ROWS, d, N_NONZERO)
    triplets = paloma.triplets.random_triplets(y, N_TRIPLETS, np.random.default_rng(1))
    kind = getattr(paloma, name)
    kind(n_components=50, n_epochs=1, random_state=0).fit(X[:400], y[:400])
    Path("/proc/self/clear_refs").write_text("5")
    begin = time.perf_counter()
    metric = kind(n_epochs=1, random_state=0).fit(X, y, triplets=triplets)
    fitted = time.perf_counter()
    model = paloma.MetricKNeighborsClassifier(metric, n_neighbors=3, weights="uniform").fit(X[:-500], y[:-500])
    read = time.perf_counter()
    score = float(model.score(X[-500:], y[-500:]))
    times = [fitted - begin, read - fitted, time.perf_counter() - read]
    print(json.dumps([*times, score, status("VmHWM") / 1024]))


def growth() -> None:
    body = []
    for name in ("L2ODML", "L2OSL"):
        for d in DIMENSIONS:
            code = f"from benchmarks.growth import child; child({name!r}, {d})"
            done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
            fit, read, search, score, peak = json.loads(done.stdout)
            target = verdict(peak / 1024, 3, at_least=False) if d == DIMENSIONS[-1] else ""
            row = [
                f"{name}, d={d:,}",
                f"{fit:.1f}",
                f"{read:.1f}",
                f"{search:.1f}",
                f"{score:.3f}",
                f"{peak:.0f}",
                target,
            ]
            console.print(" | ".join(row))
            body.append(row)
    columns = ["", "fit, s", "read-out, s", "500 queries, s", "3-NN", "peak, MB", "GB asked for"]
    table(f"Sparse rows: {N_ROWS:,} x d, {N_NONZERO} non-zeros a row, {N_TRIPLETS:,} triplets", columns, body)


def oasis_rate(n_triplets: int = 20_000, n_jobs: int | None = None) -> float:
    """Triplets per second."""
    X, y = sparse_rows(20_000, 10_000, 70)
    triplets = paloma.triplets.random_triplets(y, n_triplets, np.random.default_rng(1))
    learner = paloma.OASIS(scale=None, C=0.1, average=False, n_jobs=n_jobs).fit(X, y, triplets=triplets[:100])
    return n_triplets / seconds(lambda: learner.partial_fit(X, y, triplets=triplets), repeat=3)


def oasis() -> None:
    rates = {"one thread": oasis_rate(n_jobs=1), "all threads": oasis_rate()}
    rows = [[f"OASIS, 10,000 features, 70 non-zeros a row, {name}", f"{rate:,.0f}", f"{1e8 / rate / 3600:.1f}"]
            for name, rate in rates.items()]  # fmt: skip
    table("OASIS's own setting", ["", "triplets per second", "hours for 100 million triplets"], rows)


def screen() -> list[list[str]]:
    """OASIS's own setting, with its goal."""
    rate = oasis_rate(10_000)
    return [["OASIS, 10,000 sparse features, 70 non-zeros", f"{rate:,.0f} per s", verdict(rate, 20_000)]]


def main() -> None:
    growth()
    oasis()
