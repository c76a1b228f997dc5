"""``paloma predict``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from ._options import Data, Items, Json, Model, Neighbors, output_file


def predict(
    model_file: Model,
    data: Data,
    items: Items = None,
    neighbors: Neighbors = None,
    output: Annotated[Path | None, output_file("File to write.", show_default="stdout")] = None,
    as_json: Json = False,
) -> None:
    """Classify rows by their nearest neighbors.

    Prints one label per line, or with --json one object per line with the share of each class in the vote.

    \b
    Example:
      paloma predict letters.paloma new.csv > labels.txt
    """
    from ..persist import load
    from ._formats import batches
    from ._models import queried, searchable
    from ._report import writing

    model = load(model_file)
    source = batches(data, queried(model))
    model = searchable(model, items, neighbors)
    with writing(output) as write:
        for batch in filter(None, source):
            write(_objects(model, batch.X, batch.first - 1) if as_json else _labels(model, batch.X))


def _labels(model: Any, X: Any) -> Iterator[str]:
    return (f"{label}\n" for label in model.predict(X))


def _objects(model: Any, X: Any, first: int) -> Iterator[str]:
    from ._report import as_line

    for k, shares in enumerate(model.predict_proba(X)):
        voted = {str(model.classes_[c]): round(float(shares[c]), 6) for c in (shares > 1e-6).nonzero()[0]}
        yield as_line({"row": first + k, "label": model.classes_[shares.argmax()], "shares": voted})
