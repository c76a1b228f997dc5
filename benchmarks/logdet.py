"""Learning speed of SLMOML against the careful sequential NumPy twins of tests/twins/logdet.py."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import paloma
from paloma.triplets import targets_impostors

from .timing import seconds, table, threads, verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from twins.logdet import careful_run

# d, random triplets, triplets the twins run, ratio asked for
SETTINGS = [(16, 200_000, 4_000, None), (200, 20_000, 600, 5), (1000, 4_000, 60, 5)]
C = 0.003


def learner(**parameters: Any) -> paloma.SLMOML:
    return paloma.SLMOML(C=C, scale=None, n_epochs=1, average=False, **parameters)


def rows(d: int, dtype: Any, n: int = 2000, classes: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(n, d)) / np.sqrt(2 * d)).astype(dtype), rng.integers(0, classes, n)


def compared(name: str, X: np.ndarray, triplets: np.ndarray, n_twin: int, target: float | None) -> list[str]:
    head = triplets[:n_twin]
    active = float((careful_run(X, head, C).tau > 0).mean())
    ours = seconds(lambda: learner().fit(X, triplets=triplets)) / len(triplets)
    twin, product = (
        seconds(lambda by=by: careful_run(X, head, C, by_products=by)) / n_twin for by in (False, True)
    )  # fmt: skip
    figures = [f"{time * 1e6:.1f}" for time in (twin, product, ours)]
    ratios = [f"{twin / ours:.1f}", verdict(twin / ours, target) if target else "", f"{product / ours:.1f}"]
    return [f"{name}, d={X.shape[1]} {X.dtype}, {active:.0%} active", *figures, *ratios]


def main() -> None:
    columns = [
        "SLMOML, microseconds per triplet",
        "NumPy twin",
        "by products",
        "paloma",
        "ratio",
        "asked for",
        "ratio to products",
    ]
    for n_threads in (1, None):
        body = []
        with threads(n_threads):
            for d, n, n_twin, target in SETTINGS:
                for dtype in (np.float64, np.float32):
                    X, y = rows(d, dtype)
                    random = np.random.default_rng(1).integers(0, len(X), (n, 3))
                    body.append(compared("random", X, random, n_twin, target))
                mined = targets_impostors(X, y, random_state=0)[:n]
                body.append(compared("targets x impostors", X, mined, n_twin, target))
        table(f"LogDet, {n_threads or 'all'} thread{'' if n_threads == 1 else 's'}", columns, body)
