"""What the commands print: progress, and results as a table or as JSON."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

import typer

from .._progress import Pace

_HEADER = f"{'triplets':>14} {'mean loss':>10} {'since last':>10} {'updates %':>10} {'triplets/s':>12} {'left':>8}"
# Seconds after which a line is due, however few triplets were learned since the last one.
PAUSE = 5.0
# Columns of a table that no terminal limits.
_WIDEST = 10_000


def size_of(source: str) -> int:
    """Bytes of a file; 0 for anything else."""
    return Path(source).stat().st_size if Path(source).is_file() else 0


def reading(source: str) -> str:
    """The first line of a command that reads a table, before anything slow.

    Examples
    --------
    >>> reading("-")
    'reading standard input'
    """
    size = size_of(source) / 2**20
    return f"reading {'standard input' if source == '-' else visible(source)}" + (
        f", {size:,.0f} MiB" if size >= 1 else ""
    )


@dataclass
class Learning:
    """Counts what is learned, and prints a line to stderr when their number has doubled, or after a while.

    `seconds` is the time spent learning, without reading the table and forming triplets.
    """

    quiet: bool = False
    triplets: int = 0
    loss: float = 0.0
    updates: int = 0
    seconds: float = 0.0
    rows: int = 0
    begin: float = field(default_factory=perf_counter)
    _printed: tuple[int, float] = (0, 0.0)
    _next: int = 1024
    _said: float = field(default_factory=perf_counter)
    _pace: Pace = field(default_factory=lambda: Pace(0))

    def __call__(self, triplets: int, loss: float, updates: int, seconds: float) -> None:
        """A listener for `paloma._progress.reporting`."""
        self.triplets += triplets
        self.loss += loss
        self.updates += updates
        self.seconds += seconds
        if self.triplets >= self._next or self._due:
            self._line()
            while self._next <= self.triplets:
                self._next *= 2

    @contextmanager
    def stage(self, title: str, total: int) -> Iterator[Callable[..., None]]:
        """A narrator for `paloma._progress.reporting`: says what begins ("": nothing), and how much time it takes."""
        if title:
            self.say(title)
        self._pace, before = Pace(total), self.triplets

        def advance(steps: int = 1, text: str = "") -> None:
            self._pace.advance(steps)
            if self.triplets == before and self._pace.left is not None and self._due:
                self.say(f"  {self._pace}")

        yield advance
        self._pace = Pace(0)

    @property
    def _due(self) -> bool:
        return perf_counter() - self._said >= PAUSE

    def _line(self) -> None:
        since, before = self.triplets - self._printed[0], self._printed[1]
        if not self._printed[0]:
            self.say(_HEADER)
        self._printed = (self.triplets, self.loss)
        left = "" if self._pace.left is None else f"{self._pace.left:.0f} s"
        self.say(
            f"{self.triplets:>14,} {self.loss / self.triplets:>10.4f} {(self.loss - before) / since:>10.4f} "
            f"{100 * self.updates / self.triplets:>10.1f} {self.triplets / max(self.seconds, 1e-9):>12,.0f} {left:>8}"
        )

    def say(self, text: str) -> None:
        """Print a line to stderr, unless quiet."""
        self._said = perf_counter()
        if not self.quiet:
            typer.echo(text.rstrip(), err=True)

    def finish(self) -> None:
        """Print the last line of the table and a summary."""
        if self.triplets > self._printed[0]:
            self._line()
        figures = self.figures()
        text = f"{self.triplets:,} triplets in {figures['seconds']:.2f} s"
        if self.rows:
            rates = f"{figures['triplets_per_row']:.1f} triplets per row, {figures['rows_per_second']:,.0f} rows/s"
            text += f", {self.rows:,} rows ({rates})"
        self.say(text)

    def figures(self) -> dict[str, Any]:
        """The counts as plain numbers."""
        seconds = perf_counter() - self.begin
        out: dict[str, Any] = {
            "triplets": self.triplets,
            "mean_loss": self.loss / max(self.triplets, 1),
            "updates": self.updates,
            "seconds": seconds,
            "learning_seconds": self.seconds,
            "triplets_per_second": self.triplets / max(self.seconds, 1e-9),
        }
        if self.rows:
            out |= {"rows": self.rows, "triplets_per_row": self.triplets / self.rows}
            out |= {"rows_per_second": self.rows / seconds}
        return out


def visible(text: str) -> str:
    """Text from files as a terminal may see it: control characters are written as escapes.

    Examples
    --------
    >>> visible("red\\x1b[2J")
    'red\\\\x1b[2J'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def standard_output() -> TextIO:
    """Where results go, if it is open."""
    if sys.stdout is None:
        raise OSError("standard output is closed, so the result cannot be written.")
    return sys.stdout


def print_json(value: Any) -> None:
    """Print one line of JSON to stdout."""
    typer.echo(as_line(value), standard_output(), nl=False)


def as_line(value: Any) -> str:
    """A value as one line of JSON."""
    return json.dumps(value, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


@contextmanager
def writing(path: Path | None) -> Iterator[Callable[[Iterable[str]], None]]:
    """A function that writes lines to a file or to stdout; a terminal sees control characters as escapes."""
    if path is None:
        out = standard_output()
        yield _shown if out.isatty() else out.writelines
        return
    with path.open("w", encoding="utf-8") as file:
        yield file.writelines


def _shown(lines: Iterable[str]) -> None:
    sys.stdout.writelines(visible(line.removesuffix("\n")) + "\n" for line in lines)


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table to stdout, with whole cells: folded to the width of a terminal, as wide as they are elsewhere."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    console = Console(width=None if standard_output().isatty() else _WIDEST)
    console.print(Text(visible(title)))
    console.print(table)
