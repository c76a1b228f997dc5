"""Tasks for the tests of the runner, importable by worker processes."""

import os
import sys
import time
from pathlib import Path

from paloma.experiments._journal import Journal
from paloma.experiments._runner import run_all


def work(task):
    """Leave a trace, take a while, and fail where asked to."""
    with Path(task["trace"]).open("a") as file:
        file.write(f"{task['n']}\n")
    time.sleep(float(os.environ.get("TASK_SECONDS", "0")))
    if task.get("fails"):
        raise ValueError("asked to fail")
    return {"square": task["n"] ** 2, "process": os.getpid()}


def go(folder, tasks, workers):
    """Run tasks with a journal in a folder."""
    journal = Journal(Path(folder) / "journal.jsonl")
    run_all(tasks, work, journal, cost=lambda task: 1.0, title=lambda task: f"number {task['n']}", workers=workers)
    return journal


if __name__ == "__main__":
    go(sys.argv[1], [{"n": n, "trace": f"{sys.argv[1]}/trace"} for n in range(6)], 2)
