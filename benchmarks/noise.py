"""Flipped triplets: hinge against ramp and rescaled hinge, 3-NN accuracy, mean of splits.

``python -m benchmarks noise``; environment: SETS, SPLITS, LEARNER. banking77 needs the folder PALOMA_DATA names.
"""

import os

import numpy as np

import paloma
from paloma.triplets import targets_impostors

from .accuracy import rows_of, split
from .timing import console, table

SHARES = (0.0, 0.1, 0.2)
RULES = ("pa1", "ramp", "rescaled")


def flipped(triplets: np.ndarray, share: float, seed: int) -> np.ndarray:
    """A share of the triplets with positive and negative exchanged."""
    out = triplets.copy()
    wrong = np.random.default_rng(seed).random(len(out)) < share
    out[wrong] = out[wrong][:, [0, 2, 1]]
    return out


def main() -> None:
    names = os.environ.get("SETS", "letters,digits,banking77" if os.environ.get("PALOMA_DATA") else "letters,digits")
    kind, n_splits = getattr(paloma, os.environ.get("LEARNER", "LODML")), int(os.environ.get("SPLITS", "3"))
    body = []
    for name in names.split(","):
        X, y = rows_of(name)
        found = {(rule, share): [] for rule in RULES for share in SHARES}
        for seed in range(n_splits):
            a, ya, b, yb = split(name, X, y, 0.7, seed)
            triplets = targets_impostors(a, ya, random_state=seed)
            for rule, share in found:
                metric = kind(step=rule, average=True, random_state=seed)
                metric.fit(a, ya, triplets=flipped(triplets, share, seed))
                found[rule, share].append(
                    paloma.MetricKNeighborsClassifier(metric, n_neighbors=3, weights="uniform").fit(a, ya).score(b, yb)
                )
        for rule in RULES:
            means = [float(np.mean(found[rule, share])) for share in SHARES]
            costs = [f"{100 * (means[0] - m):.2f}" for m in means[1:]]
            body.append([name, rule, *(f"{m:.4f}" for m in means), *costs])
            console.print(*body[-1])
    columns = ["data", "step", *(f"{s:.0%} flipped" for s in SHARES), *(f"cost of {s:.0%}, points" for s in SHARES[1:])]
    table(f"Flipped triplets, {kind.__name__}, mean of {n_splits} splits", columns, body)
