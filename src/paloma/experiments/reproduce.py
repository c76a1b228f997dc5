"""The paper's tables and figures: plan, run what is missing, report."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from ..datasets import load
from ._journal import Journal
from ._plan import TARGETS, cost, plan, title
from ._report import write_report
from ._runner import run_all
from ._tasks import run
from .paper import SETS

OUTPUT = "paloma-paper"


def reproduce(
    target: str = "all",
    *,
    output: str | Path = OUTPUT,
    sets: Sequence[str] | None = None,
    n_runs: int | None = None,
    quick: bool = False,
    seed: int = 0,
    workers: int | None = None,
    report_only: bool = False,
) -> list[Path]:
    """Run the paper's experiments and write a report; results already in the journal in `output` are never recomputed.

    Parameters
    ----------
    target : "table2", "fig4", "fig5", "fig6", "fig7" or "all". Figures 6 and 7 come from the same tasks.
    output : folder of the journal and the report.
    sets : names of data sets; by default all that can be loaded. Letters is embedded, the others come from the folder
        that the environment variable PALOMA_DATA names.
    n_runs : at most this many runs per data set; by default 10, fewer for the large ones.
    quick : one run and a coarse search.
    seed : of the first run; run r has seed + r.
    workers : processes, each with one BLAS thread; one per core by default.
    report_only : run nothing; report what is in the journal.

    Returns
    -------
    The files of the report.
    """
    if target not in (*TARGETS, "all"):
        raise ValueError(f"Unknown target {target!r}; choose one of {', '.join(TARGETS)} or all.")
    journal = Journal(Path(output) / "journal.jsonl")
    if not report_only:
        names = _loadable() if sets is None else _checked(sets)
        tasks = plan(TARGETS if target == "all" else (target,), names, n_runs, quick, seed)
        run_all(tasks, run, journal, cost=cost, title=title, workers=workers or os.cpu_count() or 1)
    command = _command(target, output, sets, n_runs, quick, seed)
    return write_report(journal, Path(output), quick, command)


def _command(
    target: str, output: str | Path, sets: Sequence[str] | None, n_runs: int | None, quick: bool, seed: int
) -> str:
    """The command that makes this report."""
    words = ["paloma", "reproduce", target]
    words += [] if sets is None else ["--sets", ",".join(sets)]
    words += [] if n_runs is None else ["--runs", str(n_runs)]
    words += ["--quick"] if quick else []
    words += ["--seed", str(seed)]
    words += [] if str(output) == OUTPUT else ["-o", str(output)]
    return shlex.join(words)


def _checked(sets: Sequence[str]) -> list[str]:
    unknown = [name for name in sets if name not in SETS]
    if unknown:
        raise ValueError(f"Unknown data set {unknown[0]!r}; choose from: {', '.join(SETS)}.")
    for name in sets:
        load(SETS[name].source)
    return list(sets)


def _loadable() -> list[str]:
    """Data sets whose file is there."""
    found = []
    for name, data in SETS.items():
        try:
            load(data.source)
        except (ValueError, FileNotFoundError):
            continue
        found.append(name)
    return found
