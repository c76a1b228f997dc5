"""``paloma search``."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from ._options import Data, Items, Json, Model, Neighbors
from .index import neighbors_in, one_row


def search(
    model_file: Model,
    data: Data,
    items: Items = None,
    neighbors: Neighbors = None,
    limit: Annotated[int, typer.Option(min=1, help="Show the first so many queries; --json shows all.")] = 10,
    as_json: Json = False,
) -> None:
    """Find the nearest rows under the learnt metrics, in a model that keeps rows or in an index.

    For each query row numbers from 0 (in an index the ids of the items), labels, and distances or scores. DATA may also
    be a single row: numbers with commas.

    \b
    Example:
      paloma search letters.paloma new.csv -k 5 --json
      paloma search letters.index 2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,8
    """
    from ..neighbors import MetricIndex
    from ._formats import SIZE, batches
    from ._models import Opened
    from ._report import print_json, print_table

    opened = Opened.file(model_file)
    is_index = isinstance(opened.model, MetricIndex)
    wanted = (Opened(opened.model.metric) if is_index else opened).wanted(None, False)
    row = one_row(data)
    source = batches(data, wanted, size=SIZE if as_json else limit) if row is None else iter([row])
    if is_index:
        found = neighbors_in(opened.model, source, neighbors or 3)
    else:
        found = _found(opened, opened.searcher(items, neighbors), source)
    if as_json:
        for result in found:
            print_json(result)
        return
    body = [
        [
            "" if rank else str(result["query"]),
            *map(str, (rank + 1, near["row"], near["label"])),
            f"{near['value']:.4f}",
        ]
        for result in islice(found, limit)
        for rank, near in enumerate(result["neighbors"])
    ]
    measure = "distance" if hasattr(opened.learner, "pair_distance") else "score"
    title = f"Nearest rows under {type(opened.learner).__name__}"
    print_table(title, ["query", "rank", "id" if is_index else "row", "label", measure], body)


def _found(opened: Any, classifier: Any, source: Any) -> Iterator[dict[str, Any]]:
    """Neighbours of each query, as plain values."""
    labels = classifier.labels_
    for batch in filter(None, source):
        values, ids = classifier.kneighbors(opened.rows(batch.X))
        for q, (near, numbers) in enumerate(zip(values.tolist(), ids.tolist(), strict=True)):
            neighbors = [{"row": i, "label": labels[i].item(), "value": v} for i, v in zip(numbers, near, strict=True)]
            yield {"query": batch.first - 1 + q, "neighbors": neighbors}
