"""``paloma eval``."""

from typing import Annotated, Any

import typer

from ._options import Data, Drop, Items, Json, LabelColumn, Labels, Model, Neighbors, Triplets
from .index import retrieval_figures


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
        typer.Option("--retrieval", help="Rank the items for each row: mAP, P@k, recall@k, hit@k, AP@k."),
    ] = False,
    drop: Drop = "",
    as_json: Json = False,
) -> None:
    """Measure a model on labelled rows or on triplets.

    Beside it stand the Euclidean neighbours of the same rows. Where the model keeps rows, or --items gives some, they
    vote on the rows of the table; otherwise each row is voted on by the others.

    \b
    Example:
      paloma eval letters.paloma test.csv
      paloma eval letters.paloma test.csv --items train.csv --retrieval
    """
    from ._formats import read_all, read_triplets
    from ._models import Opened
    from ._report import print_json, print_table

    opened = Opened.file(model_file)
    batch = read_all(data, opened.wanted(label, triplets is None, drop), labels)
    batch.y = opened.labels().of(batch, data)
    if batch.triplets:
        score = opened.learner.triplet_score(None, opened.points(batch.X), batch.classes)
        figures = {"triplets": len(batch), "ranked_right": score}
    elif triplets is not None:
        given = read_triplets(triplets)
        score = opened.learner.triplet_score(opened.rows(batch.X), given, batch.y)
        figures = {"triplets": len(given), "ranked_right": score}
    elif retrieval:
        figures = {"rows": len(batch), **retrieval_figures(opened, opened.rows(batch.X), batch.y, items, neighbors)}
    else:
        figures = {"rows": len(batch), **_neighbours(opened, opened.rows(batch.X), batch.y, items, neighbors)}
    name = type(opened.learner).__name__
    if as_json:
        print_json({"model": str(model_file), "learner": name, **figures})
        return
    body = [
        [key.replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value:.4f}"]
        for key, value in figures.items()
    ]
    print_table(f"{name} on {data}", ["measure", "value"], body)


def _neighbours(opened: Any, rows: Any, y: Any, items: str | None, k: int | None) -> dict[str, float]:
    """Accuracy of the nearest neighbours under the metric and under Euclid."""
    from ..neighbors import euclidean_accuracy

    if items is None and not hasattr(opened.last, "kneighbors"):
        return {"neighbors": 3, "leave_one_out_accuracy": opened.learner.score(rows, y),
                "euclid": euclidean_accuracy(rows, y)}  # fmt: skip
    classifier = opened.searcher(items, k)
    n = classifier.n_neighbors
    euclid = euclidean_accuracy(rows, y, n_neighbors=n, items=classifier.rows_, item_labels=classifier.labels_)
    return {"neighbors": n, "accuracy": classifier.score(rows, y), "euclid": euclid}
