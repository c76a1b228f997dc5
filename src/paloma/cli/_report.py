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

_HEADER = f"{'triplets':>14} {'mean loss':>10} {'since last':>10} {'updates %':>10} {'triplets/s':>12}"


@dataclass
class Learning:
    """Counts what is learned, and prints a line to stderr whenever the number of triplets has doubled.

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

    def __call__(self, triplets: int, loss: float, updates: int, seconds: float) -> None:
        """A listener for `paloma._progress.reporting`."""
        self.triplets += triplets
        self.loss += loss
        self.updates += updates
        self.seconds += seconds
        if self.triplets >= self._next:
            self._line()
            while self._next <= self.triplets:
                self._next *= 2

    def _line(self) -> None:
        since, before = self.triplets - self._printed[0], self._printed[1]
        if not self._printed[0]:
            self._say(_HEADER)
        self._printed = (self.triplets, self.loss)
        self._say(
            f"{self.triplets:>14,} {self.loss / self.triplets:>10.4f} {(self.loss - before) / since:>10.4f} "
            f"{100 * self.updates / self.triplets:>10.1f} {self.triplets / max(self.seconds, 1e-9):>12,.0f}"
        )

    def _say(self, text: str) -> None:
        if not self.quiet:
            typer.echo(text, err=True)

    def finish(self) -> None:
        """Print the last line of the table and a summary."""
        if self.triplets > self._printed[0]:
            self._line()
        figures = self.figures()
        text = f"{self.triplets:,} triplets in {figures['seconds']:.2f} s"
        if self.rows:
            rates = f"{figures['triplets_per_row']:.1f} triplets per row, {figures['rows_per_second']:,.0f} rows/s"
            text += f", {self.rows:,} rows ({rates})"
        self._say(text)

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
    """Print a table to stdout."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(visible(title)), title_justify="left")
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    width = None if standard_output().isatty() else 100
    Console(width=width).print(table)
