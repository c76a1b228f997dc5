"""Our learners beside what else one might take, on the same splits: accuracy, retrieval, CPU seconds.

``make bench-peers`` builds the environment of the peers that need one (.venv-peers) and runs
``python -m benchmarks peers [--sets ...] [--methods ...] [--seeds N] [--rows N] [--limit SECONDS] [--csv FILE]``.
Each result is a line of the CSV, written as it comes; what is there is not measured again, so that a run can be stopped
and taken up. ``--page`` writes the tables of docs/benchmarks.md from the CSV and measures nothing. Sets other than
letters come from the folder that PALOMA_DATA names; PEERS_PYTHON is the interpreter of the peers' environment.
"""

import argparse
import csv
import datetime
import importlib.metadata
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from . import accuracy, peers_fit, peers_page
from .peers_call import Failed, Missing, OverLimit, call, forked
from .peers_methods import METHODS, Judged, Split, compile_ours, soft_scale, under
from .timing import console

FIELDS = (
    "set", "rows", "method", "seed", "accuracy", "map", "p10", "seconds", "tuning", "outcome", "chosen", "versions",
    "date",
)  # fmt: skip
ALL = (*METHODS, *peers_fit.METHODS)


class Results:
    """The lines of the CSV; of several about the same fit the last one counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[tuple[str, ...], dict[str, str]] = {}
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                for line in csv.DictReader(file):
                    self.lines[self.key(line)] = line

    @staticmethod
    def key(line: dict[str, Any]) -> tuple[str, ...]:
        return tuple(str(line[name]) for name in ("set", "rows", "method", "seed"))

    def needs(self, task: dict[str, Any], limit: float) -> bool:
        """Whether it was not measured yet, nor did the method exceed such a limit on another seed of the set."""
        if (found := self.lines.get(self.key(task))) is not None and not _exceeded(found):
            return False
        alike = [line for key, line in self.lines.items() if key[:3] == self.key(task)[:3]]
        return not any(_exceeded(line) >= limit for line in alike)

    def add(self, line: dict[str, Any]) -> None:
        fresh = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerow(line)
        self.lines[self.key(line)] = {name: str(line.get(name, "")) for name in FIELDS}


def _exceeded(line: dict[str, str]) -> float:
    """The limit that a fit exceeded; 0 if it did not."""
    word, _, seconds = line["outcome"].partition(" ")
    return float(seconds.removesuffix(" s")) if word == "over" else 0.0


def versions(*names: str) -> str:
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def measure(method: str, split: Split, limit: float, python: str) -> dict[str, Any]:
    """The fields of a result; a method that exceeds the limit or raises has only an outcome."""
    try:
        judged, used = _judge(method, split, limit, python)
    except OverLimit:
        return {"outcome": f"over {limit:g} s"}
    except Failed as error:
        return {"outcome": f"failed: {error}"}
    figures = {"accuracy": judged.accuracy, **judged.retrieval}
    times = {"seconds": judged.seconds, "tuning": judged.tuning}
    return {
        **{name: f"{value:.4f}" for name, value in figures.items()},
        **{name: f"{value:.3f}" for name, value in times.items()},
        "outcome": peers_page.DONE,
        "chosen": judged.chosen,
        "versions": used,
    }


def _judge(method: str, split: Split, limit: float, python: str) -> tuple[Judged, str]:
    if method in METHODS:
        used = versions("paloma", "scikit-learn", "numpy")
        return forked(lambda: METHODS[method](split), limit), used
    if not Path(python).exists():
        raise Missing(f"no environment of the peers at {python}; make bench-peers builds one")
    arrays = {"train": split.train, "labels": split.labels}
    if method == "lgmlvq":
        made = call(python, method, limit, **arrays, test=split.test)
        judged = Judged(float((made["answers"] == split.answers).mean()), float(made["seconds"]))
    else:
        if method == "nca-sgd":
            arrays["train"] = split.train * soft_scale(split)
        made = call(python, method, limit, **arrays)
        judged = under(split, made["components"], float(made["seconds"]), unit=method == "proxy-anchor")
    return judged, str(made["version"])


def tasks(options: argparse.Namespace, results: Results) -> Iterator[tuple[dict[str, Any], Split]]:
    """What is not measured yet, each with its split; the split is made once for all methods."""
    for name in options.sets.split(","):
        X, y = accuracy.rows_of(name)
        y = np.unique(y, return_inverse=True)[1]
        for seed in range(options.seeds):
            rows = min(options.rows, int(0.7 * len(X)))
            planned = [{"set": name, "rows": rows, "method": m, "seed": seed} for m in options.methods.split(",")]
            split = None
            for task in planned:
                if results.needs(task, options.limit):
                    if split is None:
                        split = Split(*accuracy.split(name, X, y, 0.7, seed, rows))
                        compile_ours(split)
                    yield task, split


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers")
    parser.add_argument("--sets", default=accuracy.SETS if os.environ.get("PALOMA_DATA") else "letters")
    parser.add_argument("--methods", default=",".join(ALL), help=f"comma-separated, of {', '.join(ALL)}")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=3000, help="at most so many training rows, for all methods")
    parser.add_argument("--limit", type=float, default=600, help="CPU seconds for choosing parameters and learning")
    parser.add_argument("--csv", type=Path, default=Path("docs/results/peers.csv"))
    parser.add_argument("--page", action="store_true", help="write the tables of docs/benchmarks.md; measure nothing")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.methods.split(",")) - set(ALL)):
        parser.error(f"unknown method {unknown[0]!r}; there are {', '.join(ALL)}.")
    results = Results(options.csv)
    if options.page:
        peers_page.write(Path("docs/benchmarks.md"), list(results.lines.values()))
        return
    python = os.environ.get("PEERS_PYTHON", ".venv-peers/bin/python")
    warnings.simplefilter("ignore", ConvergenceWarning)  # the largest C of a grid need not converge to be compared
    skipped: dict[str, str] = {}
    with threadpool_limits(1):
        for task, split in tasks(options, results):
            if task["method"] in skipped:
                continue
            try:
                line = {**task, **measure(task["method"], split, options.limit, python)}
            except Missing as why:
                skipped[task["method"]] = str(why)
                console.print(f"{task['method']}: skipped, {why}.", markup=False)
                continue
            results.add({**line, "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M}"})
            shown = [f"{line[k]}" for k in ("set", "rows", "method", "seed", "outcome", *FIELDS[4:9]) if k in line]
            console.print(" | ".join(shown), markup=False, highlight=False)
