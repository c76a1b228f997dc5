"""How learning reports what it does: a bar for users on a terminal's stderr, and figures for any listener."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from time import perf_counter
from typing import Protocol

# (triplets, sum of their losses, steps taken, seconds of learning)
Listener = Callable[[int, float, int, float], None]
# Seconds between two lines about progress where there is no bar.
PAUSE = 10.0
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def reporting(to: Listener | None) -> Iterator[None]:
    """Have `to` called with the figures of every stretch of triplets learned inside the block; None: nobody.

    Examples
    --------
    >>> with reporting(lambda triplets, loss, updates, seconds: print(triplets, loss, updates)):
    ...     _ = report(1000, 120.5, 300, perf_counter())
    1000 120.5 300
    """
    token = _listener.set(to)
    try:
        yield
    finally:
        _listener.reset(token)


def report(triplets: int, loss: float, updates: int, begin: float) -> float:
    """Tell the listener what was learned since `begin`; returns the time now."""
    now, listener = perf_counter(), _listener.get()
    if listener is not None:
        listener(triplets, float(loss), int(updates), now - begin)
    return now


@cache
def say_once(text: str) -> None:
    """Tell users at a terminal why they wait; the same words once per process, nothing if stderr is no terminal."""
    if sys.stderr.isatty():
        from rich.console import Console

        Console(stderr=True).print(text, style="dim")


class Advance(Protocol):
    """Move the bar on by some steps, optionally with a short text behind it."""

    def __call__(self, steps: int = 1, text: str = "") -> None: ...


def _silent(steps: int = 1, text: str = "") -> None:
    pass


def _in_lines(name: str, total: int) -> Advance:
    """A line now and then, for files and pipes."""
    begin = said = perf_counter()
    done = 0

    def advance(steps: int = 1, text: str = "") -> None:
        nonlocal said, done
        done, now = done + steps, perf_counter()
        if now - said >= PAUSE and done:
            said, left = now, (now - begin) * (total - done) / done
            print(f"{name}: {done / total:.0%}, about {left:.0f} s left, {text}", file=sys.stderr, flush=True)

    return advance


@contextmanager
def progress(title: str, total: int, enabled: bool = True) -> Iterator[Advance]:
    """Say on stderr what is running, at once, and show a bar while the block runs; off a terminal a line every PAUSE s.

    Parameters
    ----------
    title : str
        What is running, e.g. the name of the learner.
    total : int
        Number of steps of the whole block.
    enabled : bool
        Usually ``verbose > 0``.

    Yields
    ------
    advance : callable
        ``advance(steps, text="")`` moves the bar on.

    Examples
    --------
    >>> with progress("LODML", total=10, enabled=False) as advance:
    ...     for block in (4, 6):
    ...         advance(block, text="loss .12")
    >>> print(block)
    6
    """
    if not enabled:
        yield _silent
        return
    print(title, file=sys.stderr, flush=True)
    if not sys.stderr.isatty():
        yield _in_lines(title.partition(",")[0], total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, text="")

        def advance(steps: int = 1, text: str = "") -> None:
            bar.update(task, advance=steps, text=text)

        yield advance
