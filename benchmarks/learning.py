"""Learning speed of LODML against the careful sequential NumPy twin of tests/twins/careful.py."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import paloma
from paloma.triplets import targets_impostors

from .timing import gemm_rate, seconds, table, threads, verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from twins.careful import careful_run

# d, classes, dtype, triplets, triplets the twin runs, ratio asked for
SETTINGS = [
    (16, 26, np.float64, 400_000, 4_000, 80),
    (200, 38, np.float32, 40_000, 600, 15),
    (1000, 20, np.float32, 16_384, 60, 40),
]
C = 1e-4  # small steps keep every triplet active


def learner(**parameters: Any) -> paloma.LODML:
    return paloma.LODML(C=C, scale=None, psd="never", n_epochs=1, average=False, **parameters)


def rows(d: int, classes: int, dtype: Any, n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(n, d)) / np.sqrt(2 * d)).astype(dtype), rng.integers(0, classes, n)


def twin_time(X: np.ndarray, y: np.ndarray, triplets: np.ndarray) -> tuple[float, float]:
    """Seconds a triplet of the twin, and the share of triplets that were active."""
    classes = y[triplets[:, 1:]]
    run = careful_run("distance", X, triplets, classes, 0.5, 0.5, C)
    time = seconds(lambda: careful_run("distance", X, triplets, classes, 0.5, 0.5, C), repeat=3)
    return time / len(triplets), float((run.tau > 0).mean())


def spec_flops(d: int, block: float) -> float:
    """Operations a triplet of the blocked algorithm as theory 10 counts them."""
    return 16 * d * d + 8 * block * d


def random_triplets(n_threads: int | None) -> list[list[str]]:
    out = []
    for d, classes, dtype, n, n_twin, target in SETTINGS:
        X, y = rows(d, classes, dtype)
        triplets = np.random.default_rng(1).integers(0, len(X), (n, 3))
        with threads(n_threads):
            ours = seconds(lambda X=X, y=y, t=triplets: learner().fit(X, y, triplets=t)) / n
            twin, active = twin_time(X, y, triplets[:n_twin])
            rate = spec_flops(d, 512) / ours / gemm_rate(dtype) if d == 1000 else float("nan")
        ratio = twin / ours
        name = f"random, d={d} c={classes} {np.dtype(dtype).name}, {active:.0%} active"
        gemm = f"{rate:.0%} ({verdict(rate, 0.6)})" if d == 1000 else ""
        out.append([name, f"{twin * 1e6:.1f}", f"{ours * 1e6:.2f}", f"{ratio:.1f}", verdict(ratio, target), gemm])
    return out


def targets_times_impostors(n_threads: int | None) -> list[str]:
    """Triplets from labels: many share an anchor, so pairs are computed once per block."""
    d, classes, dtype = 1000, 20, np.float32
    X, y = rows(d, classes, dtype)
    triplets = targets_impostors(X, y, random_state=0)[:30_000]
    with threads(n_threads):
        ours = seconds(lambda: learner().fit(X, y, triplets=triplets)) / len(triplets)
        twin, active = twin_time(X, y, triplets[:60])
    name = f"targets x impostors, d={d} c={classes} float32, {active:.0%} active"
    return [name, f"{twin * 1e6:.1f}", f"{ours * 1e6:.2f}", f"{twin / ours:.1f}", verdict(twin / ours, 50), ""]


def screen() -> list[list[str]]:
    """The ratios of one thread, each with its goal."""
    return [[f"learning against careful NumPy, {row[0]}", f"{row[3]} times", row[4]] for row in random_triplets(1)]


def main() -> None:
    for n_threads in (1, None):
        columns = ["LODML, microseconds per triplet", "NumPy twin", "paloma", "ratio", "asked for", "of the GEMM rate"]
        body = [*random_triplets(n_threads), targets_times_impostors(n_threads)]
        table(f"Learning, {n_threads or 'all'} thread{'' if n_threads == 1 else 's'}", columns, body)
