"""Dual random projection against the full metric, at full dimension (Figures 6 and 7 of the paper). Needs PALOMA_DATA.

``python -m benchmarks projection``; environment: SETS, SPLITS, PAIRS (e.g. LODML:L2ODML,LOSL:L2OSL), COMPONENTS.
CPU seconds, which other work on the machine does not change.
"""

import os
import time
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

import paloma
from paloma.preprocessing import UnitRows

from .timing import console, table, verdict

SETS = "pets,caltech101,cub200"


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All 1280 features, l2-normalized; of caltech101 twenty classes drawn once, as the paper does."""
    data = paloma.datasets.load(name)
    X, y = normalize(np.asarray(data.data, np.float32)), np.asarray(data.target)
    if name == "caltech101":
        chosen = np.random.default_rng(0).choice(np.unique(y), 20, replace=False)
        X, y = X[np.isin(y, chosen)], y[np.isin(y, chosen)]
    return X, y


def run(kind: Any, a: np.ndarray, ya: np.ndarray, b: np.ndarray, yb: np.ndarray, **parameters: Any) -> list[float]:
    """Accuracy, and CPU seconds of fit, of the first read-out and of search."""
    begin = time.process_time()
    metric = kind(random_state=0, **parameters).fit(a, ya)
    fitted = time.process_time()
    model = paloma.MetricKNeighborsClassifier(metric, n_neighbors=3, weights="uniform").fit(a, ya)
    read = time.process_time()
    score = float(model.score(b, yb))
    return [score, fitted - begin, read - fitted, time.process_time() - read]


def compared(name: str, full: str, projected: str, n_splits: int, **parameters: Any) -> tuple[np.ndarray, np.ndarray]:
    """What `run` gives for both learners, means over splits."""
    X, y = rows_of(name)
    found: dict[str, list[list[float]]] = {full: [], projected: []}
    for seed in range(n_splits):
        a, b, ya, yb = train_test_split(X, y, train_size=0.7, random_state=seed)
        a, b = (UnitRows().fit(a).transform(a), UnitRows().fit(a).transform(b)) if "S" in full else (a, b)
        for kind in found:
            extra = parameters if kind == projected else {}
            found[kind].append(run(getattr(paloma, kind), a, ya, b, yb, **extra))
    return np.mean(found[full], axis=0), np.mean(found[projected], axis=0)


def times_faster(slow: np.ndarray, fast: np.ndarray) -> float:
    """Fit and first read-out."""
    return float((slow[1] + slow[2]) / (fast[1] + fast[2]))


def screen() -> list[list[str]]:
    """L2ODML for LODML on one split: of pets, or with FULL=1 of all sets, each with its goal."""
    if not os.environ.get("PALOMA_DATA"):
        return [["L2ODML for LODML: PALOMA_DATA names no folder", "", ""]]
    out = []
    for name in SETS.split(",") if os.environ.get("FULL") else ["pets"]:
        slow, fast = compared(name, "LODML", "L2ODML", 1)
        ratio, what = times_faster(slow, fast), f"L2ODML for LODML, {name}, d = 1280, read-out included"
        out += [[what, f"{ratio:.1f} times", verdict(ratio, 25)]]
        out += [[f"{what}: accuracy", f"{fast[0] - slow[0]:+.4f}", verdict(fast[0] - slow[0], -0.003)]]
    return out


def main() -> None:
    if not os.environ.get("PALOMA_DATA"):
        console.print("projection: skipped, PALOMA_DATA names no folder.")
        return
    n_splits = int(os.environ.get("SPLITS", "5"))
    pairs = [pair.split(":") for pair in os.environ.get("PAIRS", "LODML:L2ODML,LOSL:L2OSL").split(",")]
    parameters = {"n_components": int(os.environ["COMPONENTS"])} if "COMPONENTS" in os.environ else {}
    body = []
    for name in os.environ.get("SETS", SETS).split(","):
        for full, projected in pairs:
            slow, fast = compared(name, full, projected, n_splits, **parameters)
            ratio = times_faster(slow, fast)
            cells = [f"{v[0]:.4f} ({v[1]:.1f} + {v[2]:.1f} s, search {v[3]:.1f})" for v in (slow, fast)]
            better = verdict(fast[0] - slow[0], -0.005)
            row = [f"{name}, {projected} for {full}", *cells, f"{ratio:.1f}", verdict(ratio, 20), better]
            console.print(" | ".join(row))
            body.append(row)
    columns = ["data", "full", "projected", "times faster", "asked for", "accuracy asked for"]
    table(f"3-NN accuracy (fit + first read-out), mean of {n_splits} splits, d = 1280", columns, body)
