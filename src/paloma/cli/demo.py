"""``paloma demo``."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    splits: Annotated[int, typer.Option(min=1, help="Number of random splits to average over.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Use one split only.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the splits and the learners.")] = 0,
    rows: Annotated[int | None, typer.Option(min=500, help="Number of random rows to use.", show_default="all")] = None,
    output: Annotated[Path, typer.Option(help="Plot to write: .png, .svg or .pdf.")] = Path("paloma-demo.png"),
) -> None:
    """Compare the learners on the bundled Letters data set.

    Prints a table next to the results of the paper, and plots learning curves.

    \b
    Example:
      paloma demo --quick
    """
    from ..experiments.demo import demo as run

    run(n_splits=1 if quick else splits, seed=seed, n_rows=rows, output=output)
