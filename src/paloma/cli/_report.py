"""What the commands print: the table while learning, and results as a table or as JSON."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

_HEADER = f"{'triplets':>14} {'mean loss':>10} {'since last':>10} {'updates %':>10} {'triplets/s':>12}"


@dataclass
class Learning:
    """Counts what is learnt, and prints a line on stderr whenever twice as many triplets are seen.

    `seconds` are those of the learning alone: reading, and forming triplets out of rows, are not in them.
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
        """The last line of the table, and a sentence."""
        if self.triplets > self._printed[0]:
            self._line()
        figures = self.figures()
        text = f"{self.triplets:,} triplets in {figures['seconds']:.2f} s"
        if self.rows:
            rates = f"{figures['triplets_a_row']:.1f} triplets a row, {figures['rows_a_second']:,.0f} rows/s"
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
            "triplets_a_second": self.triplets / max(self.seconds, 1e-9),
        }
        if self.rows:
            out |= {"rows": self.rows, "triplets_a_row": self.triplets / self.rows}
            out |= {"rows_a_second": self.rows / seconds}
        return out


def print_json(value: Any) -> None:
    """One line of JSON on stdout."""
    typer.echo(as_line(value), nl=False)


def as_line(value: Any) -> str:
    """A value as one line of JSON."""
    return json.dumps(value, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


@contextmanager
def writing(path: Path | None) -> Iterator[Callable[[Iterable[str]], None]]:
    """A function that writes lines to a file, or to stdout."""
    if path is None:
        yield sys.stdout.writelines
        return
    with path.open("w", encoding="utf-8") as file:
        yield file.writelines


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table on stdout."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else 100
    Console(width=width).print(table)
