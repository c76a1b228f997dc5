"""Few labels: 3-NN accuracy from the labeled rows alone, with the unlabeled ones, and with all labels; mean of draws.

"Metric alone": unlabeled rows taught the metric, labeled rows alone vote.
``python -m benchmarks semi``; environment: SETS, DRAWS, SHARE (of labels), MODES, LEARNER. banking77 needs PALOMA_DATA.
"""

import os

import numpy as np

import paloma

from .accuracy import rows_of, split
from .timing import console, table


def labeled(y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """A share of each class's rows, at least two."""
    known = np.zeros(len(y), bool)
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        known[rows[: max(2, round(share * len(rows)))]] = True
    return known


def one_draw(kind: type, name: str, seed: int, share: float, modes: list[str]) -> dict[str, float]:
    """Accuracy of every way to learn from one draw of labels."""
    X, y = rows_of(name)
    a, ya, b, yb = split(name, X, np.unique(y, return_inverse=True)[1], 0.7, seed)
    known = labeled(ya, share, np.random.default_rng(seed))
    marked = np.where(known, ya, -1)
    found = {}
    for mode in modes:
        metric = kind(unlabeled=-1, semi=mode, random_state=seed)
        knn = paloma.MetricKNeighborsClassifier(metric, n_neighbors=3, weights="uniform").fit(a, marked)
        found[mode] = knn.score(b, yb)
        alone = paloma.MetricKNeighborsClassifier(knn.metric_, n_neighbors=3, weights="uniform").fit(
            a[known], ya[known]
        )
        found[f"{mode}, metric alone"] = alone.score(b, yb)
    found["all labels"] = (
        paloma.MetricKNeighborsClassifier(kind(random_state=seed), n_neighbors=3, weights="uniform")
        .fit(a, ya)
        .score(b, yb)
    )
    return found


def main() -> None:
    names = os.environ.get("SETS", "letters,digits,banking77" if os.environ.get("PALOMA_DATA") else "letters,digits")
    modes = os.environ.get("MODES", "none,neighbors,self").split(",")
    share, draws = float(os.environ.get("SHARE", ".05")), int(os.environ.get("DRAWS", "5"))
    kind, body = getattr(paloma, os.environ.get("LEARNER", "LODML")), []
    for name in names.split(","):
        found = [one_draw(kind, name, seed, share, modes) for seed in range(draws)]
        body.append([name, *(f"{np.mean([f[mode] for f in found]):.4f}" for mode in found[0])])
        console.print(*body[-1])
    title = f"{share:.0%} labels, {kind.__name__}, mean of {draws} draws"
    table(title, ["data", *found[0]], body)
