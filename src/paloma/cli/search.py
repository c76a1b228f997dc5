"""``paloma search``."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from ._options import Data, Items, Json, Model, Neighbors


def search(
    model_file: Model,
    data: Data,
    items: Items = None,
    neighbors: Neighbors = None,
    limit: Annotated[int, typer.Option(min=1, help="Show the first so many queries; --json shows all.")] = 10,
    as_json: Json = False,
) -> None:
    """Find the nearest rows under the learnt metrics.

    For each query row numbers from 0, labels, and distances or scores.

    \b
    Example:
      paloma search letters.paloma new.csv -k 5 --json
    """
    from ._formats import SIZE, batches
    from ._models import Opened
    from ._report import print_json, print_table

    opened = Opened.file(model_file)
    source = batches(data, opened.wanted(None, False), size=SIZE if as_json else limit)
    found = _found(opened, opened.searcher(items, neighbors), source)
    if as_json:
        for result in found:
            print_json(result)
        return
    body = [
        ["" if rank else str(result["query"]), str(rank + 1), str(near["row"]), str(near["label"]), f"{value:.4f}"]
        for result in islice(found, limit)
        for rank, near in enumerate(result["neighbors"])
        for value in (near["value"],)
    ]
    measure = "distance" if hasattr(opened.learner, "pair_distance") else "score"
    title = f"Nearest rows under {type(opened.learner).__name__}"
    print_table(title, ["query", "rank", "row", "label", measure], body)


def _found(opened: Any, classifier: Any, source: Any) -> Iterator[dict[str, Any]]:
    """Neighbours of each query, as plain values."""
    labels = classifier.labels_
    for batch in filter(None, source):
        values, ids = classifier.kneighbors(opened.rows(batch.X))
        for q, (near, numbers) in enumerate(zip(values.tolist(), ids.tolist(), strict=True)):
            neighbors = [{"row": i, "label": labels[i].item(), "value": v} for i, v in zip(numbers, near, strict=True)]
            yield {"query": batch.first - 1 + q, "neighbors": neighbors}
