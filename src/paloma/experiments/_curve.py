"""Learning curves: accuracy while a stream of triplets passes by, and their picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._optional import optional
from .._progress import Advance
from .._typing import Array
from ._letters import LEARNERS, Split, accuracy, euclid_accuracy
from .paper import LOCAL_GLOBAL

PANELS = tuple(zip(("Distances", "Similarities"), LOCAL_GLOBAL, strict=True))
# Okabe & Ito's colors, which color-blind readers tell apart; local and global also differ in their dashes.
STYLES = {
    "LODML": {"color": "#0072B2", "linestyle": "-"},
    "LOSL": {"color": "#0072B2", "linestyle": "-"},
    "ODML": {"color": "#D55E00", "linestyle": "--"},
    "OASIS": {"color": "#D55E00", "linestyle": "--"},
}
# What curves are called: the first of a pair is local, the second global.
KINDS = ("local", "global")
NAMES = {name: f"{name} ({kind})" for pair in LOCAL_GLOBAL for name, kind in zip(pair, KINDS, strict=True)}
INK, PALE = "#333333", "#999999"
N_POINTS, FIRST = 13, 300
N_PASSES, N_QUERIES = 4, 5000


@dataclass
class Curves:
    """Accuracy of each learner after a number of triplets, and that of the Euclidean distance."""

    seen: Array
    one_pass: int
    accuracies: dict[str, list[float]]
    euclid: float
    n_train: int
    n_test: int


def stops(n_triplets: int) -> Array:
    """Where to measure: evenly on a logarithmic axis, the last at the end of the stream."""
    first = min(FIRST, n_triplets)
    return np.unique(np.geomspace(first, n_triplets, N_POINTS).round().astype(int))


def learning_curves(data: Split, seed: int, advance: Advance) -> Curves:
    """A few passes of each learner over the triplets of a split, in chunks, measured after each."""
    one_pass, n_test = len(data.triplets), min(len(data.answers), N_QUERIES)
    seen = stops(N_PASSES * one_pass)
    accuracies = {name: _curve(name, data, seen, seed, advance) for name in LEARNERS}
    return Curves(seen, one_pass, accuracies, euclid_accuracy(data, n_test), len(data.parts.train), n_test)


def _curve(name: str, data: Split, seen: Array, seed: int, advance: Advance) -> list[float]:
    rows, queries = data.rows_for(name)
    metric = LEARNERS[name](average=True, random_state=seed)
    values = []
    labels, queries, answers = data.parts.labels, queries[:N_QUERIES], data.answers[:N_QUERIES]
    for chunk in np.split(np.tile(data.triplets, (N_PASSES, 1)), seen[:-1]):
        metric.partial_fit(rows, labels, triplets=chunk)
        values.append(accuracy(metric, rows, labels, queries, answers))
        advance(1, f"{name}, {metric.n_triplets_:,} triplets")
    return values


def draw(curves: Curves, path: Path) -> None:
    """Save the picture; its suffix gives the format."""
    figure = optional("matplotlib.figure", "plot").Figure(figsize=(9.0, 4.2), layout="constrained")
    for ax, (title, names) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        _draw_panel(ax, curves, title, names)
        tidy(ax)
    title = f"Letters: learning from {curves.n_train:,} rows, tested on {curves.n_test:,} others"
    figure.suptitle(title, color=INK, fontsize=12, x=0.01, ha="left")
    figure.savefig(path, dpi=160)


def _draw_panel(ax: Any, curves: Curves, title: str, names: tuple[str, str]) -> None:
    """Two curves and the level of the Euclidean distance; the legend stands above them, out of their way."""
    for name in names:
        values = 100 * np.array(curves.accuracies[name])
        ax.plot(curves.seen, values, label=NAMES[name], linewidth=2, marker="o", markersize=4, **STYLES[name])
    ax.axhline(100 * curves.euclid, color=PALE, linewidth=1.5, linestyle=":", label="Euclid", zorder=0)
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK, pad=24)
    ax.set_xlabel(f"triplets seen ({curves.one_pass:,} a pass)", color=INK)
    ax.legend(
        loc="lower left", bbox_to_anchor=(-0.015, 1.0), borderpad=0.2, ncols=3, frameon=False, labelcolor=INK,
        fontsize=9, columnspacing=1.4,
    )  # fmt: skip
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.xaxis.set_minor_formatter(lambda value, _: "")
    ax.set_ylabel("3-NN accuracy, %", color=INK)


def tidy(ax: Any, grid: str = "y") -> None:
    """As few lines as the reader needs."""
    ax.grid(axis=grid, color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(PALE)
    ax.tick_params(color=PALE, labelcolor=INK, length=3)
    ax.tick_params(which="minor", length=0)
