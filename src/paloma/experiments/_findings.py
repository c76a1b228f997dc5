"""What the results say, in sentences: which claims of the paper hold, where, and where not."""

from typing import Any

import numpy as np

from ._tables import Results, accuracies, asked_for, comparisons
from .paper import FULL_PROJECTED, LOCAL_GLOBAL, OURS, PAPER, SETS

NAMES = {OURS: "our preprocessing", PAPER: "rows as in the paper"}


def findings(results: Results) -> list[str]:
    """A sentence for each claim that the results can speak to, with every exception named."""
    found = [_comparable(results)]
    for rows in (OURS, PAPER):
        found += [_local(results, rows, local, shared) for local, shared in LOCAL_GLOBAL]
    found += [_euclid(results), _projection(results), _speed(results)]
    return [sentence for sentence in found if sentence]


def _comparable(results: Results) -> str:
    rows = asked_for(results).rows
    if not rows:
        return ""
    missed = [f"{row[0]} {row[1]}% {row[2]} ({row[3]} against {row[4]})" for row in rows if row[-1] == "MISSED"]
    met = f"{len(rows) - len(missed)} of {len(rows)}"
    return f"Comparable cells at or above the paper's best of their row: {met}{_but(missed)}"


def _local(results: Results, rows: str, local: str, shared: str) -> str:
    """How often the local learner is ahead, and how often that is more than chance."""
    found = list(comparisons(results, rows, local, shared))
    if not found:
        return ""
    behind = [f"{d.title_at(p)} ({100 * t.difference:+.2f} points)" for d, p, t in found if t.difference < 0]
    sure = [test for _, _, test in found if test.p < 0.05]
    better, worse = sum(test.difference > 0 for test in sure), sum(test.difference < 0 for test in sure)
    counts = (
        f"{len(found) - len(behind)} of {len(found)} cells, beyond chance in {better}; beyond chance below in {worse}"
    )
    return f"{local} at or above {shared}, {NAMES[rows]}: {counts}{_but(behind)}"


def _euclid(results: Results) -> str:
    above, below = 0, []
    for data, percent in results.lines():
        plain = accuracies(results.cell(data, percent, OURS, "Euclid"))
        for learner in ("LODML", "LOSL"):
            values = accuracies(results.cell(data, percent, OURS, learner))
            if plain and values:
                gain = 100 * float(np.mean(values) - np.mean(plain))
                above += gain > 0
                if gain <= 0:
                    below.append(f"{learner} on {data.title_at(percent)} ({gain:+.2f} points)")
    if not above + len(below):
        return ""
    counts = f"{above} of {above + len(below)} cells"
    return f"LODML and LOSL above Euclid, whose whitening is chosen in the same way: {counts}{_but(below)}"


def _projection(results: Results) -> str:
    """Dual random projection: what it costs in accuracy and saves in time."""
    parts = []
    for full, fast in FULL_PROJECTED:
        for data in SETS.values():
            slow, quick = (results.of("fig6", set=data.name, method=name) for name in (full, fast))
            if slow and quick:
                change = 100 * float(np.mean(accuracies(quick)) - np.mean(accuracies(slow)))
                ratio = _work(slow) / max(_work(quick), 1e-9)
                parts.append(f"{data.title} {fast} {change:+.2f} points, {ratio:.1f} times faster")
    return "Dual random projection, learning and recovery: " + "; ".join(parts) + "." if parts else ""


def _work(runs: list[dict[str, Any]]) -> float:
    return float(np.mean([run["projection"] + run["learning"] + run["recovery"] for run in runs]))


def _speed(results: Results) -> str:
    runs = results.of("speed")
    if not runs:
        return ""
    ratio = float(np.median([run["lmnn_seconds"] / run["seconds"] for run in runs]))
    return f"LODML reaches LMNN's final accuracy on Letters in 1/{ratio:.0f} of LMNN's time."


def _but(exceptions: list[str]) -> str:
    return f". Not: {', '.join(exceptions)}." if exceptions else "."
