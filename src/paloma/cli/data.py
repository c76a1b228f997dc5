"""``paloma data``: prepare and inspect data sets."""

from pathlib import Path
from typing import Annotated

import typer


def prepare(
    name: Annotated[str, typer.Argument(help="letters, yaleb, caltech101, caltech256, cifar10, pets or cub200.")],
    source: Annotated[Path, typer.Option("--from", help="Folder with the downloaded files, archived or extracted.")],
    to: Annotated[Path | None, typer.Option(help="Folder to write to.", show_default="$PALOMA_DATA")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder of images: efficientnet-lite2, or an ONNX model.")
    ] = None,
    skip_errors: Annotated[bool, typer.Option("--skip-errors", help="Skip unreadable images.")] = False,
    no_check: Annotated[bool, typer.Option("--no-check", help="Do not compare with Table 1 of the paper.")] = False,
) -> None:
    """Convert the official archives of a data set to an .npz file for `paloma.datasets.load`.

    \b
    Example:
      paloma data prepare pets --from downloads --to data --encoder efficientnet-lite2
    """
    from ..datasets import prepare as run

    path = run(name, source, to, encoder=encoder, check=not no_check, skip_errors=skip_errors, verbose=1)
    typer.echo(path)


def show(name: Annotated[str, typer.Argument(help="Name of a data set.")]) -> None:
    """Print the size of a data set.

    \b
    Example:
      paloma data show letters
    """
    import numpy as np

    from ..datasets import load

    found = load(name)
    split = f", split {len(found.train_idx)}/{len(found.test_idx)}" if "train_idx" in found else ""
    typer.echo(f"{name}: {found.data.shape[0]} x {found.data.shape[1]}, {len(np.unique(found.target))} classes{split}")
