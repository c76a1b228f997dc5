"""``paloma info``."""

from pathlib import Path
from typing import Annotated

import typer

from ._options import Json, Model


def info(
    model_file: Model,
    classes: Annotated[int, typer.Option(min=0, help="Number of classes to show, those that deviate most first.")] = 5,
    features: Annotated[int, typer.Option(min=1, help="Number of features to list for each.")] = 3,
    picture: Annotated[Path | None, typer.Option(help="Plot to write: .png, .svg or .pdf.")] = None,
    card: Annotated[bool, typer.Option("--card", help="Print a model card in Markdown, to publish beside it.")] = False,
    as_json: Json = False,
) -> None:
    """Describe a model file.

    Shows the learner, its parameters and classes, the spectra of U and of the strongest L, and the features with the
    largest weights.

    \b
    Example:
      paloma info letters.paloma --classes 8
      paloma info letters.paloma --card > README.md
    """
    from ..export import card as card_of
    from ..persist import load
    from ._describe import described, draw, lines
    from ._report import print_json, standard_output, visible

    model = load(model_file)
    if card:
        for line in card_of(model, model_file.name).splitlines():
            typer.echo(visible(line), standard_output())
        return
    found = described(model, classes, features)
    found = {"file": str(model_file), "bytes": model_file.stat().st_size, **found}
    if picture is not None:
        draw(found, picture)
    if as_json:
        print_json(found)
        return
    for line in lines(found):
        typer.echo(visible(line), standard_output())
