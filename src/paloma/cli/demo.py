"""``paloma demo``."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    splits: Annotated[int, typer.Option(min=1, help="Random splits to average over.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="One split.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits and of the learners.")] = 0,
    rows: Annotated[int | None, typer.Option(min=500, help="Use only so many random rows of the data.")] = None,
    output: Annotated[Path, typer.Option(help="Where the picture goes: .png, .svg or .pdf.")] = Path("paloma-demo.png"),
) -> None:
    """Compare the learners on the embedded Letters data.

    A table and a picture, beside the figures of the paper.

    \b
    Example:
      paloma demo --quick
    """
    from ..experiments.demo import demo as run

    run(n_splits=1 if quick else splits, seed=seed, n_rows=rows, output=output)
