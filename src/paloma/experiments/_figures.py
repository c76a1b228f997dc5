"""Table 2 as a picture and Figures 4 to 7, as SVG, from whatever the journal holds."""

import io
from itertools import chain, product
from typing import Any

import numpy as np

from .._optional import optional
from ._curve import INK, NAMES, PANELS, STYLES, tidy
from ._plan import FIG5_AXES
from ._tables import Results, accuracies
from .paper import COPIED, FULL_PROJECTED, OURS, SETS, TABLE2

PARTS = {
    "mining": "#999999",
    "projection": "#56B4E9",
    "learning": "#0072B2",
    "recovery": "#E69F00",
    "search": "#009E73",
}
DOTS = {"Euclid": ("#999999", "s"), "ODML": ("#56B4E9", "o"), "LODML": ("#0072B2", "o"),
        "OASIS": ("#E69F00", "D"), "LOSL": ("#D55E00", "D")}  # fmt: skip
LINES = {"LODML": "#0072B2", "LOSL": "#D55E00"}


def figures(results: Results) -> dict[str, tuple[str, str]]:
    """Name of each figure with data, its caption, and its SVG."""
    drawn = [("table2", "Table 2: ours, filled, and the paper's figures, hollow.", fig_table2(results))]
    for title, names in PANELS:
        measure = title.lower()
        caption = f"Figure 4, {measure}: accuracy and progressive loss against triplets seen, local against global."
        drawn.append((f"fig4-{measure}", caption, fig4(results, names)))
    drawn += [
        ("fig5", "Figure 5: accuracy against lam (C fixed) and kappa (C′ fixed).", fig5(results)),
        ("fig6", "Figure 6: accuracy of the full metric and by dual random projection.", fig6(results)),
        ("fig7", "Figure 7: seconds, by part of the work.", fig7(results)),
    ]
    return {name: (caption, _svg(figure)) for name, caption, figure in drawn if figure is not None}


def _svg(figure: Any) -> str:
    out = io.StringIO()
    with optional("matplotlib", "plot").rc_context({"svg.fonttype": "none", "svg.hashsalt": "paloma"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def _axes(rows: int, columns: int, height: float = 2.9, width: float = 3.1) -> tuple[Any, Any]:
    width = max(6.0, width * columns)
    figure = optional("matplotlib.figure", "plot").Figure(figsize=(width, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def fig_table2(results: Results) -> Any:
    """A line for each data set and training share, a dot for each learner: ours filled, the paper's hollow."""
    found = [(data, percent) for data, percent in results.lines() if results.cell(data, percent, OURS, "LODML")]
    if not found:
        return None
    figure, axes = _axes(1, 1, 1.3 + 0.36 * len(found), 8.0)
    ax, shift = axes[0][0], dict(zip(DOTS, np.linspace(-0.24, 0.24, len(DOTS)), strict=True))
    for name, (color, marker) in DOTS.items():
        places, values = [], []
        for k, (data, percent) in enumerate(found):
            cell = TABLE2.get((data.name, percent, name))
            if cell is not None and (data.name, percent, name) not in COPIED:
                ax.plot(cell.mean, k + shift[name], marker, markersize=6, mec=color, mfc="none", mew=1.2)
            runs = results.cell(data, percent, OURS, name)
            if runs:
                places.append(k + shift[name])
                values.append(100 * np.mean(accuracies(runs)))
        ax.plot(values, places, marker, color=color, markersize=7, label=name, linestyle="none")
    _names(ax, [f"{data.title}, {percent}%" if percent else data.title for data, percent in found])
    ax.set_xlabel("3-NN accuracy, %", color=INK)
    ax.legend(frameon=False, fontsize=9, labelcolor=INK, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(DOTS))
    _tidy(ax, "x")
    return figure


def fig4(results: Results, names: tuple[str, str]) -> Any:
    """Accuracy above, progressive loss below, one column per data set."""
    found = {data: [results.of("fig4", set=data.name, method=name) for name in names] for data in SETS.values()}
    found = {data: runs for data, runs in found.items() if any(runs)}
    if not found:
        return None
    figure, axes = _axes(2, len(found))
    for column, (data, both) in enumerate(found.items()):
        for name, runs in zip(names, both, strict=True):
            for run in runs:
                axes[0][column].plot(run["seen"], 100 * np.array(run["accuracy"]), label=NAMES[name], **_line(name))
                axes[1][column].plot(run["seen"], run["loss"], **_line(name))
        axes[0][column].set_title(data.title, loc="left", fontsize=10, color=INK)
        axes[1][column].set_xlabel("triplets seen", color=INK)
        for ax in axes[:, column]:
            ax.set_xscale("log")
            _tidy(ax)
    axes[0][0].set_ylabel("3-NN accuracy, %", color=INK)
    axes[1][0].set_ylabel("progressive loss", color=INK)
    axes[0][0].legend(frameon=False, fontsize=9, labelcolor=INK, loc="lower right")
    return figure


def fig5(results: Results) -> Any:
    """A row of panels for each data set, a column for each axis and training share, a line for each learner."""
    rows = [data for data in SETS.values() if results.of("fig5", set=data.name)]
    if not rows:
        return None
    figure, axes = _axes(len(rows), len(FIG5_AXES))
    for (row, data), (column, (axis, percent)) in product(enumerate(rows), enumerate(FIG5_AXES)):
        ax = axes[row][column]
        for method, color in LINES.items():
            runs = results.of("fig5", set=data.name, axis=axis, percent=percent, method=method)
            if runs:
                mean = 100 * np.mean([run["accuracy"] for run in runs], axis=0)
                ax.plot(runs[0]["values"], mean, color=color, marker="o", markersize=4, linewidth=2, label=method)
        ax.set_title(data.title_at(percent), loc="left", fontsize=10, color=INK)
        ax.set_xlabel("lam (C fixed)" if axis == "lam" else "kappa (C′ fixed)", color=INK)
        _tidy(ax)
    axes[0][0].set_ylabel("3-NN accuracy, %", color=INK)
    axes[0][0].legend(frameon=False, fontsize=9, labelcolor=INK)
    return figure


def fig6(results: Results) -> Any:
    """Two dots per data set: the full metric and the projected one."""
    found = _projected(results)
    if not found:
        return None
    figure, axes = _axes(1, 2, 1.6 + 0.4 * len(found), 5.0)
    for ax, pair in zip(axes[0], FULL_PROJECTED, strict=True):
        for name, color, marker in zip(pair, ("#0072B2", "#E69F00"), ("o", "D"), strict=True):
            values = [100 * np.mean(accuracies(runs[name])) if runs[name] else np.nan for runs in found.values()]
            ax.plot(
                values, range(len(found)), marker, color=color, markersize=8, label=name, linestyle="none", alpha=0.85
            )
        _names(ax, list(found))
        ax.set_xlabel("3-NN accuracy, %", color=INK)
        ax.legend(frameon=False, fontsize=9, labelcolor=INK, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        _tidy(ax, "x")
    return figure


def fig7(results: Results) -> Any:
    """Stacked bars of seconds, two per data set, one panel for each pair of learners."""
    found = _projected(results)
    if not found:
        return None
    figure, axes = _axes(1, 2, 1.6 + 0.7 * len(found), 6.0)
    for ax, pair in zip(axes[0], FULL_PROJECTED, strict=True):
        bars = [(title, name, runs[name]) for title, runs in found.items() for name in pair]
        for k, (_, _, runs) in enumerate(bars):
            left = 0.0
            for part, color in PARTS.items():
                width = float(np.mean([run[part] for run in runs])) if runs else 0.0
                ax.barh(k, width, left=left, color=color, label=part if k == 0 else None, height=0.7)
                left += width
            ax.text(left, k, f" {left:.1f} s", va="center", fontsize=8, color=INK)
        _names(ax, [f"{title}, {name}" for title, name, _ in bars])
        ax.margins(x=0.15)
        ax.set_xlabel("CPU seconds, one core", color=INK)
        _tidy(ax, "x")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9, labelcolor=INK, loc="outside upper left", ncols=5)
    return figure


def _projected(results: Results) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Runs of Figures 6 and 7 by title and learner."""
    names = tuple(chain(*FULL_PROJECTED))
    found = {d.title: {name: results.of("fig6", set=d.name, method=name) for name in names} for d in SETS.values()}
    return {title: runs for title, runs in found.items() if any(runs.values())}


def _line(name: str) -> dict[str, Any]:
    return {"linewidth": 2, "marker": "o", "markersize": 3, **STYLES[name]}


def _names(ax: Any, names: list[str]) -> None:
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.invert_yaxis()


def _tidy(ax: Any, grid: str = "y") -> None:
    tidy(ax, grid)
    ax.tick_params(labelsize=8)
    ax.tick_params(which="minor", labelbottom=False)
