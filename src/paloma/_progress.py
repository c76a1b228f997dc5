"""How learning reports what it does: a bar for users on a terminal's stderr, and figures for any listener."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Protocol

# (triplets, sum of their losses, steps taken, seconds of learning)
Listener = Callable[[int, float, int, float], None]
# Seconds between two lines about progress where there is no bar.
PAUSE = 5.0
# Seconds from which the time left can be told.
SHORTEST = 0.5


class Advance(Protocol):
    """Move the bar on by some steps, optionally with a short text behind it."""

    def __call__(self, steps: int = 1, text: str = "") -> None: ...


# Tells users that something begins, given its title and its number of steps (0: no more is said), and how far it is.
Narrator = Callable[[str, int], AbstractContextManager[Advance]]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_narrator: ContextVar[Narrator | None] = ContextVar("narrator", default=None)
_said = dict[str, float]()


@contextmanager
def reporting(to: Listener | None, narrator: Narrator | None = None) -> Iterator[None]:
    """Have `to` called with the figures of every stretch of triplets learned inside the block; None: nobody.

    `narrator` shows the progress of what runs inside, as learners with `verbose=1` do by a bar.

    Examples
    --------
    >>> with reporting(lambda triplets, loss, updates, seconds: print(triplets, loss, updates)):
    ...     _ = report(1000, 120.5, 300, perf_counter())
    1000 120.5 300
    """
    tokens = _listener.set(to), _narrator.set(narrator)
    try:
        yield
    finally:
        _listener.reset(tokens[0])
        _narrator.reset(tokens[1])


@contextmanager
def narrated(enabled: bool) -> Iterator[None]:
    """Show progress inside the block even if nobody asked for it from outside."""
    token = _narrator.set(_narrator.get() or (_on_stderr if enabled else None))
    try:
        yield
    finally:
        _narrator.reset(token)


def report(triplets: int, loss: float, updates: int, begin: float) -> float:
    """Tell the listener what was learned since `begin`; returns the time now."""
    now, listener = perf_counter(), _listener.get()
    if listener is not None:
        listener(triplets, float(loss), int(updates), now - begin)
    return now


def say(text: str) -> None:
    """Tell whoever follows the progress what runs now."""
    with progress(text, 0):
        pass


def explain_wait(text: str) -> None:
    """Tell users at a terminal, or who follow the progress, why they wait; the same words not again within PAUSE s."""
    now = perf_counter()
    if now - _said.get(text, -PAUSE) >= PAUSE and (_narrator.get() is not None or sys.stderr.isatty()):
        _said[text] = now
        print(text, file=sys.stderr, flush=True)


class Pace:
    """How far something of so many steps is; the first of them, which may include compiling, say nothing of its speed.

    done : steps so far. left : seconds to go, None as long as that is anyone's guess.

    Examples
    --------
    >>> pace = Pace(100)
    >>> pace.advance(50)
    >>> print(pace, pace.left)
    50% None
    """

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.left: float | None = None
        self._first: tuple[float, int] | None = None

    def advance(self, steps: int) -> None:
        """Note that so many more steps are done."""
        self.done, now = self.done + steps, perf_counter()
        begin, before = self._first = self._first or (now, self.done)
        if now - begin > SHORTEST and self.done > before:
            self.left = (now - begin) * (self.total - self.done) / (self.done - before)

    def __str__(self) -> str:
        return f"{self.done / self.total:.0%}" + ("" if self.left is None else f", about {self.left:.0f} s left")


def _silent(steps: int = 1, text: str = "") -> None:
    pass


def _in_lines(name: str, total: int) -> Advance:
    """A line now and then, for files and pipes."""
    said, pace = perf_counter(), Pace(total)

    def advance(steps: int = 1, text: str = "") -> None:
        nonlocal said
        pace.advance(steps)
        if perf_counter() - said >= PAUSE and pace.done:
            said = perf_counter()
            print(f"{name}: {pace}{', ' if text else ''}{text}", file=sys.stderr, flush=True)

    return advance


@contextmanager
def progress(title: str, total: int, enabled: bool | None = False) -> Iterator[Advance]:
    """Say on stderr what is running, at once, and show a bar while the block runs; off a terminal a line every PAUSE s.

    Inside the block nothing else is shown.

    Parameters
    ----------
    title : str
        What is running, e.g. the name of the learner.
    total : int
        Number of steps of the whole block; 0: only the title is shown.
    enabled : bool or None
        Usually ``verbose > 0``. If False, shown to the narrator of `reporting` or `narrated`, if there is one; None:
        to nobody.

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
    narrator = _narrator.get() or (_on_stderr if enabled else None)
    if narrator is None or enabled is None:
        yield _silent
        return
    token = _narrator.set(_nobody)
    try:
        with narrator(title, total) as advance:
            yield advance
    finally:
        _narrator.reset(token)


@contextmanager
def _nobody(title: str, total: int) -> Iterator[Advance]:
    yield _silent


@contextmanager
def _on_stderr(title: str, total: int) -> Iterator[Advance]:
    print(title, file=sys.stderr, flush=True)
    if not total:
        yield _silent
        return
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
