"""Runs tasks in parallel processes, enters results into a journal, and estimates the time left."""

import multiprocessing
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from time import perf_counter, process_time
from typing import Any

from threadpoolctl import threadpool_limits

from .._progress import progress
from ._journal import Journal, Task

Run = Callable[[Task], Any]
PACKAGES = ("paloma", "numpy", "scipy", "scikit-learn", "numba")


def run_all(
    tasks: Sequence[Task],
    run: Run,
    journal: Journal,
    *,
    cost: Callable[[Task], float],
    title: Callable[[Task], str],
    workers: int = 1,
) -> None:
    """Run what the journal does not have yet, in order, several at a time.

    A task that fails is reported and skipped; the others continue, and the next call tries it again.

    Parameters
    ----------
    tasks, run : what to do, and the function that does it; it must be importable by its name.
    journal : finished tasks are entered here as they finish.
    cost, title : rough relative duration of a task, from which the time left follows; and its name for users.
    workers : processes, each with one BLAS thread; 1 runs in this process.
    """
    waiting = [task for task in tasks if task not in journal]
    clock = _Clock(waiting, cost, title)
    with progress("reproduce", max(1, round(clock.total)), sys.stderr.isatty()) as advance, _pool(workers) as submit:
        running: dict[Future[Any], Task] = {}
        failed = []
        for task in [*waiting, None]:
            while len(running) >= workers or (task is None and running):
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    done = running.pop(future)
                    error = future.exception()
                    if error is not None:
                        failed.append(f"{title(done)}: {type(error).__name__}: {error}")
                    else:
                        result, seconds = future.result()
                        journal.add(done, result, {"seconds": round(seconds, 3), **about()})
                    advance(round(cost(done)), clock.done(done, error))
            if task is not None:
                running[submit(_timed, run, task)] = task
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(waiting)} tasks failed; the others are in {journal.path}. "
                           f"First: {failed[0]}")  # fmt: skip


class _Clock:
    """Counts costs, and writes one line per task if stderr is not a terminal that could show a bar."""

    def __init__(self, tasks: Sequence[Task], cost: Callable[[Task], float], title: Callable[[Task], str]) -> None:
        self.cost, self.title, self.n = cost, title, len(tasks)
        self.total = sum(cost(task) for task in tasks)
        self.spent, self.count, self.begin = 0.0, 0, perf_counter()

    def done(self, task: Task, error: BaseException | None) -> str:
        self.spent += self.cost(task)
        self.count += 1
        left = (perf_counter() - self.begin) * (self.total - self.spent) / max(self.spent, 1e-9)
        text = f"{self.title(task)}{'' if error is None else ' FAILED'}"
        if not sys.stderr.isatty():
            print(f"[{self.count}/{self.n}] {text}; about {in_words(left)} left", file=sys.stderr, flush=True)
        return text


def in_words(seconds: float) -> str:
    """A duration as text for users.

    Examples
    --------
    >>> in_words(42), in_words(600), in_words(9000)
    ('42 s', '10 min', '2 h 30 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def _timed(run: Run, task: Task) -> tuple[Any, float]:
    """Run with one BLAS thread: processes are the parallelism, and results must not depend on how many there are."""
    begin = process_time()
    with threadpool_limits(1):
        return run(task), process_time() - begin


def about() -> dict[str, Any]:
    """When and with what a result was made."""
    versions = {package: version(package) for package in PACKAGES}
    return {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "python": platform.python_version(), **versions}


@contextmanager
def _pool(workers: int) -> Iterator[Callable[..., Future[Any]]]:
    """A submit function: processes with one thread each, or this process."""
    if workers == 1:
        yield _here
        return
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield pool.submit
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _here(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(function(*arguments))
    except Exception as error:
        future.set_exception(error)
    return future
