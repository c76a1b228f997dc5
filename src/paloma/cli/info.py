"""``paloma info``."""

from pathlib import Path
from typing import Annotated

import typer

from ._options import Json, Model


def info(
    model_file: Model,
    classes: Annotated[int, typer.Option(min=0, help="How many of the classes that differ most to show.")] = 5,
    features: Annotated[int, typer.Option(min=1, help="How many features to name for each.")] = 3,
    picture: Annotated[Path | None, typer.Option(help="Also draw it: .png, .svg or .pdf.")] = None,
    as_json: Json = False,
) -> None:
    """Show what a model file holds.

    Learner, parameters, classes, the spectra of U and of the strongest L, and which features weigh most where.

    \b
    Example:
      paloma info letters.paloma --classes 8
    """
    from ..persist import load
    from ._inside import described, draw, lines
    from ._report import print_json

    found = described(load(model_file), classes, features)
    found = {"file": str(model_file), "bytes": model_file.stat().st_size, **found}
    if picture is not None:
        draw(found, picture)
    if as_json:
        print_json(found)
        return
    for line in lines(found):
        typer.echo(line)
