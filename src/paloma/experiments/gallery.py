"""A picture of retrieval: query, and its ten nearest under Euclid, LODML and L2ODML; wrong classes are framed.

``python -m paloma.experiments.gallery picture.png`` draws digits; with a folder of photographs as well, whose
``labels.csv`` names for each its label and the ``.npz`` file and row of its features, photographs.
"""

import csv
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from .._optional import optional
from .._typing import Array
from ..datasets import load
from ..estimators import L2ODML, LODML
from ..metrics import precision_at_k
from ..neighbors import MetricIndex

K = 10
# With fewer queries, P@10 of two metrics differs by less than its own error.
MIN_QUERIES = 200


@dataclass
class Pictures:
    """Rows to learn from, and rows with a picture each: a database and queries."""

    learn: tuple[Array, Array]
    database: tuple[Array, Array]
    queries: tuple[Array, Array]
    images: tuple[list[Any], list[Any]]


def digits() -> Pictures:
    """scikit-learn's digits: 400 to learn from, 1,000 to search in, the rest are queries."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.data))
    parts = [order[:400], order[400:1400], order[1400:]]
    learn, database, queries = ((data.data[part], data.target[part]) for part in parts)
    return Pictures(learn, database, queries, (list(data.images[parts[1]]), list(data.images[parts[2]])))


def photographs(folder: Path) -> Pictures:
    """Photographs of Oxford Pets: a fifth are queries, the rest the database; learned from rows without pictures."""
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as file:
        entries = [entry for entry in csv.DictReader(file) if entry["npz"].split("_")[0] == "pets"]
    data = load("pets", folder.parent)
    rows = np.array([int(entry["row"]) for entry in entries])
    others = np.setdiff1d(np.arange(len(data.data)), rows)
    X = normalize(np.asarray(data.data, np.float32))
    X = PCA(128, random_state=0).fit(X[others]).transform(X)
    order = np.random.default_rng(0).permutation(len(rows))
    parts = order[len(order) // 5 :], order[: len(order) // 5]
    read = optional("matplotlib.image", "plot").imread
    database, queries = ((X[rows[part]], data.target[rows[part]]) for part in parts)
    images, asked = ([read(folder / entries[k]["file"]) for k in part] for part in parts)
    return Pictures((X[others], data.target[others]), database, queries, (images, asked))


def nearest(pictures: Pictures) -> dict[str, Array]:
    """Numbers of the ten nearest of each query, by metric."""
    (X, y), (Q, _) = pictures.database, pictures.queries
    plain = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(X)
    found = {"Euclid": plain.kneighbors(Q, return_distance=False)}
    for kind in (LODML, L2ODML):
        index = MetricIndex(kind(random_state=0).fit(*pictures.learn))
        index.add(X, y)
        found[kind.__name__] = index.search(Q, K)[1]
    return found


def gallery(output: str | Path, folder: str | Path | None = None, n_queries: int = 3) -> dict[str, float]:
    """Draw random queries among those that one of the metrics gets wrong somewhere; returns P@10 over all queries."""
    pictures = digits() if folder is None else photographs(Path(folder))
    found = nearest(pictures)
    labels, asked = pictures.database[1], pictures.queries[1]
    wrong = {name: labels[ids] != asked[:, None] for name, ids in found.items()}
    hard = np.flatnonzero(np.any([w.any(axis=1) for w in wrong.values()], axis=0))
    chosen = np.random.default_rng(0).permutation(hard)[:n_queries]
    scores = {name: precision_at_k(labels[ids], asked, K) for name, ids in found.items()}
    _draw(Path(output), pictures, found, wrong, chosen, scores)
    return scores


def _draw(
    output: Path,
    pictures: Pictures,
    found: dict[str, Array],
    wrong: dict[str, Array],
    chosen: Array,
    scores: dict[str, float],
) -> None:
    figure_of = optional("matplotlib.figure", "plot").Figure
    names = list(found)
    figure = figure_of(figsize=(11, 1.02 * len(names) * len(chosen) + 0.6), layout="constrained")
    axes = figure.subplots(len(names) * len(chosen), K + 1, squeeze=False)
    for block, query in enumerate(chosen):
        for line, name in enumerate(names):
            row = axes[block * len(names) + line]
            _show(row[0], pictures.images[1][query] if line == 0 else None, "")
            row[0].set_ylabel(f"{name}\nP@10 {1 - wrong[name][query].mean():.1f}", rotation=0, ha="right", va="center")
            for axis, item, bad in zip(row[1:], found[name][query], wrong[name][query], strict=True):
                _show(axis, pictures.images[0][item], "tab:red" if bad else "")
    figure.suptitle(f"Query and ten nearest; red: another class.{over_all(scores, pictures)}", fontsize=10)
    figure.savefig(output, dpi=90)


def over_all(scores: dict[str, float], pictures: Pictures) -> str:
    """P@10 of the metrics in words; "" for so few queries that it would not tell them apart."""
    n = len(pictures.queries[1])
    figures = ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
    return f" P@10 over {n:,} queries: {figures}" if n >= MIN_QUERIES else ""


def _show(axis: Any, image: Any, frame: str) -> None:
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(bool(frame))
        spine.set_color(frame or "none")
        spine.set_linewidth(2.5)
    if image is not None:
        axis.imshow(image, cmap="gray_r")


if __name__ == "__main__":
    for metric, score in gallery(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None).items():
        print(f"{metric}: P@10 {score:.3f}")
