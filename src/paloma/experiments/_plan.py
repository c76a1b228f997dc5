"""Which tasks each target needs, in which order, how long they take, and what to call them."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from ._journal import Task
from .paper import FULL_PROJECTED, LOCAL_GLOBAL, OURS, PAPER, SETS, DataSet

TARGETS = ("table2", "fig4", "fig5", "fig6", "fig7")
METHODS = {
    OURS: ("LODML", "ODML", "LOSL", "OASIS", "Euclid", "NCA"),
    PAPER: ("LODML", "ODML", "LOSL", "OASIS", "Euclid"),
}
FIG4_SETS = ("letters", "yaleb", "caltech101_20", "pets")
COMPARABLE = ("letters", "yaleb")
FIG5_SETS = (*COMPARABLE, "caltech101_20")
FIG5_AXES = (("lam", 30), ("kappa", 30), ("kappa", 70))
FIG6_RUNS = {"caltech101_20": 3, "caltech256_20": 3, "pets": 3, "cifar10": 1, "cub200": 1}
# Rough seconds of one tuned local learner on our rows, one core.
SECONDS = {
    "letters": 9,
    "yaleb": 22,
    "caltech101_10": 5,
    "caltech101_20": 8,
    "caltech256_10": 6,
    "caltech256_20": 10,
    "pets": 40,
    "cifar10": 95,
    "cub200": 300,
}


def plan(targets: Sequence[str], sets: Sequence[str], n_runs: int | None, quick: bool, seed: int) -> list[Task]:
    """Tasks in the order of their weight: the comparable data sets first; one run of every set before the next."""
    tasks: list[Task] = []
    usable = [SETS[name] for name in sets]
    if "table2" in targets:
        tasks += _table2(usable, n_runs, quick, seed)
    common = {"quick": quick, "rows": OURS}
    if "fig4" in targets:
        for data in _among(FIG4_SETS, usable):
            for method in chain(*LOCAL_GLOBAL):
                tasks.append(
                    {"kind": "fig4", "set": data.name, "percent": 30, "method": method, "seed": seed, **common}
                )
    if "fig5" in targets:
        for run in range(1 if quick else min(n_runs or 3, 3)):
            for data in _among(FIG5_SETS, usable):
                for method in ("LODML", "LOSL"):
                    for axis, percent in FIG5_AXES:
                        task = {"kind": "fig5", "set": data.name, "percent": percent, "method": method, "axis": axis}
                        tasks.append({**task, "seed": seed + run, **common})
    if "fig6" in targets or "fig7" in targets:
        tasks += _fig6(usable, n_runs, quick, seed)
    return tasks


def _among(names: Sequence[str], usable: list[DataSet]) -> list[DataSet]:
    return [data for data in usable if data.name in names]


def _table2(usable: list[DataSet], n_runs: int | None, quick: bool, seed: int) -> list[Task]:
    tasks = []
    for group in (_among(COMPARABLE, usable), [data for data in usable if data.name not in COMPARABLE]):
        runs = {data.name: 1 if quick else min(n_runs or data.n_runs, data.n_runs) for data in group}
        for run in range(max(runs.values(), default=0)):
            for data in group:
                if run < runs[data.name]:
                    tasks += _one_run(data, seed + run, quick)
    return tasks


def _one_run(data: DataSet, seed: int, quick: bool) -> list[Task]:
    """Every method on both kinds of rows at every training share."""
    tasks = []
    for percent in data.percents:
        for rows, methods in METHODS.items():
            common = {"set": data.name, "percent": percent, "rows": rows, "seed": seed, "quick": quick}
            tasks += [{"kind": "table2", "method": method, **common} for method in methods]
    return tasks


def _fig6(usable: list[DataSet], n_runs: int | None, quick: bool, seed: int) -> list[Task]:
    tasks = []
    for data in _among(tuple(FIG6_RUNS), usable):
        for run in range(1 if quick else min(n_runs or 3, FIG6_RUNS[data.name])):
            for method in chain(*FULL_PROJECTED):
                percent = 70 if data.percents[0] else 0
                common = {"set": data.name, "percent": percent, "seed": seed + run, "quick": quick}
                tasks.append({"kind": "fig6", "method": method, **common})
    return tasks


def cost(task: Task) -> float:
    """Rough seconds on one core."""
    method: dict[str, float] = {"Euclid": 0.1, "NCA": 0.5, "ODML": 0.25, "OASIS": 0.2, "LOSL": 0.5, "L2ODML": 0.1}
    seconds = SECONDS[task["set"]] * method.get(task["method"], 1.0)
    if task.get("rows") == PAPER:
        seconds *= 0.4
    return max(seconds * (0.1 if task["quick"] else 1.0), 0.5)


def title(task: Task) -> str:
    """A task as text for users.

    Examples
    --------
    >>> title({"kind": "table2", "set": "letters", "percent": 30, "method": "LODML", "rows": "ours", "seed": 2})
    'table2: Letters 30%, LODML, ours, seed 2'
    """
    parts: list[Any] = [SETS[task["set"]].title_at(task["percent"]), task["method"]]
    parts += [task[key] for key in ("rows", "axis") if key in task]
    return f"{task['kind']}: {', '.join(parts)}, seed {task['seed']}"
