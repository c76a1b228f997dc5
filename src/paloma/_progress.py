"""A progress bar for people: on a terminal's stderr, and nowhere else."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Move the bar on by some steps, optionally with a short text behind it."""

    def __call__(self, steps: int = 1, text: str = "") -> None: ...


def _silent(steps: int = 1, text: str = "") -> None:
    pass


@contextmanager
def progress(title: str, total: int, enabled: bool = True) -> Iterator[Advance]:
    """Show a bar on stderr while the block runs; silent when disabled or when stderr is no terminal.

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
    if not (enabled and sys.stderr.isatty()):
        yield _silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, text="")

        def advance(steps: int = 1, text: str = "") -> None:
            bar.update(task, advance=steps, text=text)

        yield advance
