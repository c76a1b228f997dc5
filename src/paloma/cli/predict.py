"""``paloma predict``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import Data, Items, Json, Model, Neighbors


def predict(
    model_file: Model,
    data: Data,
    items: Items = None,
    neighbors: Neighbors = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file instead of stdout.")] = None,
    as_json: Json = False,
) -> None:
    """Classify rows by their nearest neighbours.

    One label a line, or with --json an object with the share of each class.

    \b
    Example:
      paloma predict letters.paloma new.csv > labels.txt
    """
    from ._formats import batches
    from ._models import Opened
    from ._report import writing

    opened = Opened.file(model_file)
    classifier = opened.searcher(items, neighbors)
    with writing(output) as write:
        for batch in batches(data, opened.wanted(None, False)):
            if batch is not None:
                rows = opened.rows(batch.X)
                write(_objects(classifier, rows, batch.first - 1) if as_json else _labels(classifier, rows))


def _labels(classifier: Any, rows: Any) -> Iterator[str]:
    return (f"{label}\n" for label in classifier.predict(rows))


def _objects(classifier: Any, rows: Any, first: int) -> Iterator[str]:
    from ._report import as_line

    for k, shares in enumerate(classifier.predict_proba(rows)):
        voted = {str(classifier.classes_[c]): round(float(shares[c]), 6) for c in (shares > 1e-6).nonzero()[0]}
        yield as_line({"row": first + k, "label": classifier.classes_[shares.argmax()], "shares": voted})
