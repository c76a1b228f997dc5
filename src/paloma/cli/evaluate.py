"""``paloma eval``."""

from typing import Annotated

import typer

from ._options import Data, Drop, Items, Json, LabelColumn, Labels, Model, Neighbors, Triplets


def evaluate(
    model_file: Model,
    data: Data,
    items: Items = None,
    label: LabelColumn = None,
    labels: Labels = None,
    neighbors: Neighbors = None,
    triplets: Triplets = None,
    retrieval: Annotated[
        bool,
        typer.Option(
            "--retrieval", help="Rank the items for each row, and report mAP, precision, recall, hit rate and AP at k."
        ),
    ] = False,
    drop: Drop = "",
    as_json: Json = False,
) -> None:
    """Evaluate a model on labeled rows or on triplets.

    Rows are classified by the rows stored in the model or given by --items; if there are none, each row is classified
    by the others. The Euclidean baseline for the same rows is reported alongside.

    \b
    Example:
      paloma eval letters.paloma test.csv
      paloma eval letters.paloma test.csv --items train.csv --retrieval
    """
    from ..estimators import learner_of
    from ..persist import load
    from ..workflow import evaluate as run
    from ._formats import arguments, read_all
    from ._models import keeps_rows, label_type, read_items, wanted
    from ._report import print_json, print_table

    model = load(model_file)
    batch = read_all(data, wanted(model, label, triplets is None, drop), labels)
    batch.y = label_type(model).of(batch, data)
    given = arguments(batch, triplets)
    given.pop("triplet_weight", None)
    if items is None and "triplets" not in given and (retrieval or neighbors) and not keeps_rows(model):
        raise ValueError(
            "--retrieval and -k require rows, but the model contains none. Provide labeled rows with --items."
        )
    candidates = None if items is None else read_items(model, items)
    figures = run(model, **given, items=candidates, n_neighbors=neighbors, retrieval=retrieval)
    name = type(learner_of(model)).__name__
    if as_json:
        print_json({"model": str(model_file), "learner": name, **figures})
        return
    body = [
        [key.replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value:.4f}"]
        for key, value in figures.items()
    ]
    print_table(f"{name} on {data}", ["metric", "value"], body)
