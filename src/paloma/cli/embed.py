"""``paloma embed``."""

from pathlib import Path
from typing import Annotated

import typer


def embed(
    folder: Annotated[Path, typer.Argument(help="Folder of images; the folder of an image is its class.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The .npz file to write.")],
    encoder: Annotated[Path, typer.Option(help="ONNX model that turns images into features.")],
    batch_size: Annotated[int, typer.Option(min=1, help="Images encoded at once.")] = 32,
    skip_errors: Annotated[
        bool, typer.Option("--skip-errors", help="Leave unreadable images out and list them.")
    ] = False,
) -> None:
    """Turn a folder of images into features; started again after a stop, it goes on where it was.

    \b
    Example:
      paloma embed photographs -o features.npz --encoder model.onnx
    """
    from ..datasets import embed as run

    for line in run(folder, output, encoder=encoder, batch_size=batch_size, skip_errors=skip_errors, verbose=1):
        typer.echo(f"left out: {line}", err=True)
    typer.echo(output)
