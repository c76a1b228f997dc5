"""The demonstration: local and global learners on Letters, a table next to the paper's, and learning curves."""

import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from .._progress import progress
from ._curve import N_POINTS, draw, learning_curves
from ._letters import EUCLID, FRACTIONS, LEARNERS, SIMILARITIES, Result, compare, some_rows, split, warm_up
from .paper import TABLE2

# Table 2 of the paper, 3-NN accuracy in % on Letters, mean and standard deviation of 10 runs.
LETTERS = {key[1:]: cell for key, cell in TABLE2.items() if key[0] == "letters"}
PAPER = {(f / 100, learner): (cell.mean, cell.spread) for (f, learner), cell in LETTERS.items()}
FORMATS = (".png", ".svg", ".pdf")


def demo(
    *,
    n_splits: int = 3,
    seed: int = 0,
    n_rows: int | None = None,
    output: str | Path = "paloma-demo.png",
    console: Console | None = None,
) -> list[Result]:
    """Run the paper's protocol on the bundled Letters data, print a table, and save a picture.

    Parameters
    ----------
    n_splits : int
        Random splits to average over, at 30% and at 70% training rows each.
    seed : int
        Seed of the splits, of the order of the triplets and of the learners.
    n_rows : int, optional
        Use only this many random rows.
    output : path
        Where to save the picture of the learning curves: .png, .svg, or .pdf. Without matplotlib there is no picture,
        and a line says how to get it.
    console : rich.console.Console, optional
        Where the table goes; by default stdout.

    Returns
    -------
    list of Result
        Accuracies and seconds of fit of each learner at each fraction, one value per split.
    """
    console = Console() if console is None else console
    _check_picture(Path(output))
    X, y = some_rows(n_rows, seed)
    n_fits = n_splits * len(FRACTIONS) * (len(LEARNERS) + 1)
    with progress("Letters", n_fits + len(LEARNERS) * N_POINTS, sys.stderr.isatty()) as advance:
        advance(0, "compiling")
        warm_up(X, y)
        results = compare(X, y, n_splits, seed, advance)
        curves = learning_curves(split(X, y, FRACTIONS[0], seed), seed, advance)
    console.print(table_of(results))
    console.print(_notes(len(X), n_splits), highlight=False, soft_wrap=True)
    try:
        draw(curves, Path(output))
    except ImportError as error:
        console.print(f"No picture: {error}", markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(f"Learning curves: {output}", markup=False, highlight=False, soft_wrap=True)
    return results


def table_of(results: list[Result]) -> Table:
    """The results, a section for each training fraction, the best of each in bold."""
    table = Table(title="3-NN accuracy on Letters, %")
    for heading in ("Train", "Learner", "Accuracy", "Fit, s", "Paper"):
        table.add_column(heading, justify="left" if heading == "Learner" else "right")
    for fraction in FRACTIONS:
        section = [result for result in results if result.fraction == fraction]
        best = max(np.mean(result.accuracies) for result in section)
        for number, result in enumerate(section):
            style = "bold" if np.mean(result.accuracies) == best else None
            table.add_row(f"{fraction:.0%}" if number == 0 else "", *_cells(result), style=style)
        table.add_section()
    return table


def _cells(result: Result) -> tuple[str, str, str, str]:
    values = 100 * np.array(result.accuracies)
    spread = float(values.std(ddof=1)) if len(values) > 1 else None
    seconds = "–" if result.learner == EUCLID else f"{np.mean(result.seconds):.2f}"
    paper = PAPER.get((result.fraction, result.learner))
    return result.learner, _figure(float(values.mean()), spread), seconds, _figure(*paper) if paper else "–"


def _figure(mean: float, spread: float | None) -> str:
    return f"{mean:.2f}" if spread is None else f"{mean:.2f} ± {spread:.2f}"


def _notes(n_rows: int, n_splits: int) -> str:
    runs = f"mean ± standard deviation of {n_splits} random splits" if n_splits > 1 else "one random split"
    similarities = " and ".join(SIMILARITIES)
    return (
        f"{n_rows:,} rows, standardized; {runs}; default parameters; triplets from the labels.\n{similarities} use "
        "paloma.preprocessing.UnitRows; the paper's figures do not."
    )


def _check_picture(path: Path) -> None:
    """Refuse a picture that could not be saved before anything takes time."""
    if path.suffix not in FORMATS:
        raise ValueError(f"The picture's file name must end in one of {', '.join(FORMATS)}; got {str(path)!r}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder of the picture does not exist: {path.parent}")
