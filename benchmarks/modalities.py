"""OMDML on real modalities, against each modality alone and against concatenation: 3-NN accuracy and seconds of fit.

Banking77 (needs the folder that PALOMA_DATA names): sentence embeddings, and words as TF-IDF with truncated SVD.
Letters (in the package): its 16 columns as three groups. Environment: SETS, SPLITS.
"""

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import paloma

from .timing import console, table

N_WORDS = 200
RANKS = {"banking77": 64, "letters": 4}


class Split(NamedTuple):
    """Training and test rows, and the columns of each modality."""

    X: np.ndarray
    y: np.ndarray
    Q: np.ndarray
    labels: np.ndarray
    groups: dict[str, slice]


def banking77(seed: int) -> Split:
    """Unit rows of both modalities, all fitted on the training part."""
    data = paloma.datasets.load("banking77")
    train, test = train_test_split(np.arange(len(data.target)), train_size=0.7, random_state=seed)
    words = make_pipeline(
        TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2),
        TruncatedSVD(N_WORDS, random_state=0),
        Normalizer(),
    ).fit(data.text[train])
    parts = [
        np.hstack([Normalizer().transform(data.data[rows]), words.transform(data.text[rows])]) for rows in (train, test)
    ]
    X, Q = (np.ascontiguousarray(part, np.float32) for part in parts)
    d = data.data.shape[1]
    return Split(X, data.target[train], Q, data.target[test], {"embedding": slice(0, d), "words": slice(d, None)})


def letters(seed: int) -> Split:
    """Where the box of a letter lies and how full it is, moments of its pixels, its edges."""
    X, y = paloma.datasets.load_letters(return_X_y=True)
    a, b, ya, yb = train_test_split(X, y, train_size=0.7, random_state=seed)
    scaler = StandardScaler().fit(a)
    X, Q = (np.ascontiguousarray(scaler.transform(part), np.float32) for part in (a, b))
    return Split(X, ya, Q, yb, {"box": slice(0, 6), "moments": slice(6, 12), "edges": slice(12, 16)})


SETS: dict[str, Callable[[int], Split]] = {"letters": letters, "banking77": banking77}


def learners(name: str, groups: dict[str, slice]) -> dict[str, tuple[Any, slice]]:
    """Each with the columns it gets."""
    every = slice(None)
    alone = {
        f"{kind.__name__}, {group} alone": (kind(random_state=0), columns)
        for group, columns in groups.items()
        for kind in (paloma.ODML, paloma.LODML)
    }
    variants = {
        "": {},
        ", lam=.5": {"lam": 0.5},
        ", beta=.9999, lam=.5": {"beta": 0.9999, "lam": 0.5},
        ", equal weights": {"beta": 1.0},
        ', gate="own"': {"gate": "own"},
        ', gate="own", equal weights': {"gate": "own", "beta": 1.0},
        f", rank={RANKS[name]}": {"rank": RANKS[name]},
        f", rank={RANKS[name]}, lam=.5": {"rank": RANKS[name], "lam": 0.5},
    }
    together = {
        f"OMDML{text}": (paloma.OMDML(groups=groups, random_state=0, **params), every)
        for text, params in variants.items()
    }
    plain = {kind.__name__ + ", all columns": (kind(random_state=0), every) for kind in (paloma.ODML, paloma.LODML)}
    return {**alone, "Euclid, all columns": (None, every), **plain, **together}


def measure(metric: Any, columns: slice, split: Split) -> tuple[float, float, Any]:
    """Accuracy, seconds of fit, and the weights if there are any."""
    X, Q = (np.ascontiguousarray(rows[:, columns]) for rows in (split.X, split.Q))
    if metric is None:
        return float(KNeighborsClassifier(3).fit(X, split.y).score(Q, split.labels)), 0.0, None
    begin = time.perf_counter()
    metric.fit(X, split.y)
    seconds = time.perf_counter() - begin
    model = paloma.MetricKNeighborsClassifier(metric, n_neighbors=3, weights="uniform").fit(X, split.y)
    return float(model.score(Q, split.labels)), seconds, getattr(metric, "weights_", None)


def main() -> None:
    with_data = bool(os.environ.get("PALOMA_DATA"))
    if not with_data:
        console.print("modalities: PALOMA_DATA names no folder; Letters alone, from the package.")
    n_splits = int(os.environ.get("SPLITS", "3"))
    for name in os.environ.get("SETS", ",".join(SETS) if with_data else "letters").split(","):
        splits = [SETS[name](seed) for seed in range(n_splits)]
        body = []
        for text, (metric, columns) in learners(name, splits[0].groups).items():
            found = [measure(metric, columns, split) for split in splits]
            scores, seconds = [one[0] for one in found], [one[1] for one in found]
            weights = "" if found[0][2] is None else np.array2string(found[0][2], precision=2, suppress_small=True)
            body.append([text, f"{np.mean(scores):.4f}", f"{np.std(scores):.4f}", f"{np.mean(seconds):.1f}", weights])
            console.print(f"{name}: " + " | ".join(body[-1]))
        groups = ", ".join(splits[0].groups)
        columns = [groups, "3-NN", "spread", "fit, s", "weights, first split"]
        table(f"{name}, defaults, 70% train, mean of {n_splits} splits", columns, body)
