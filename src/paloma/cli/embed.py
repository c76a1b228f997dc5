"""``paloma embed``."""

from pathlib import Path
from typing import Annotated

import typer


def embed(
    folder: Annotated[Path, typer.Argument(help="Folder of images, with one subfolder per class.")],
    output: Annotated[Path, typer.Option("--output", "-o", help=".npz file to write.")],
    encoder: Annotated[Path, typer.Option(help="ONNX model that extracts features from images.")],
    batch_size: Annotated[int, typer.Option(min=1, help="Number of images to encode at a time.")] = 32,
    skip_errors: Annotated[bool, typer.Option("--skip-errors", help="Skip unreadable images and list them.")] = False,
) -> None:
    """Extract features from a folder of images.

    If interrupted, run the same command again to resume.

    \b
    Example:
      paloma embed photographs -o features.npz --encoder model.onnx
    """
    from ..datasets import embed as run

    for line in run(folder, output, encoder=encoder, batch_size=batch_size, skip_errors=skip_errors, verbose=1):
        typer.echo(f"skipped: {line}", err=True)
    typer.echo(output)
