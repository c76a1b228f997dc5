"""``paloma search``."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import Data, Items, Json, ModelOrIndex, Neighbors

_NUMBER = r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*"


def search(
    model_file: ModelOrIndex,
    data: Data,
    items: Items = None,
    neighbors: Neighbors = None,
    ids: Annotated[
        str,
        typer.Option("--id", metavar="COLUMN", help="Column that names the queries.", show_default="0, 1, 2, ..."),
    ] = "",
    limit: Annotated[int, typer.Option(min=1, help="Number of queries to show; --json shows all.")] = 10,
    as_json: Json = False,
) -> None:
    """Find the nearest rows under the learned metrics, in a model that contains rows or in an index.

    For each query, prints row numbers counted from 0 (item ids in an index), labels, and distances or scores. Queries
    are numbered, too, unless --id names them. DATA can also be a single row of comma-separated numbers.

    \b
    Example:
      paloma search letters.paloma new.csv -k 5 --json
      paloma search letters.index 2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,8
    """
    from ..estimators import learner_of, measure_of
    from ..neighbors import MetricIndex
    from ..persist import load
    from ._formats import SIZE, batches
    from ._models import queried, searchable
    from ._report import print_json, print_table

    model = load(model_file)
    is_index = isinstance(model, MetricIndex)
    row, expected = one_row(data), queried(model)
    expected.ids = ids
    if row is not None and expected.n_features not in (None, row.X.shape[1]):
        names = f" ({', '.join(expected.features)})" if expected.features else ""
        raise ValueError(f"DATA is a row of {row.X.shape[1]} numbers; the model takes {expected.n_features}{names}.")
    if row is not None and ids:
        raise ValueError(f"--id {ids} names a column of a table; DATA is a row of numbers.")
    source = batches(data, expected, size=SIZE if as_json else limit) if row is None else iter([row])
    if not is_index or items is not None:
        model = searchable(model, items, neighbors)
    found = _found(model, source, neighbors)
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
    learner = learner_of(model)
    measure = "distance" if measure_of(learner).is_distance else "score"
    title = f"Nearest rows under {type(learner).__name__}"
    print_table(title, ["query", "rank", "id" if is_index else "row", "label", measure], body)


def one_row(text: str) -> Any:
    """Parse a single row of comma-separated numbers; None if the text is something else.

    Examples
    --------
    >>> one_row("5.1, 3.5,-2e1").X.tolist()
    [[5.1, 3.5, -20.0]]
    >>> one_row("new.csv") is None
    True
    """
    import numpy as np

    from ._batches import Batch

    if not re.fullmatch(f"{_NUMBER}(,{_NUMBER})*", text) or Path(text).exists():
        return None
    return Batch(np.array([[float(cell) for cell in text.split(",")]]))


def _found(model: Any, source: Iterator[Any], k: int | None) -> Iterator[dict[str, Any]]:
    """Neighbors of each query, as plain values."""
    from ..workflow import search as run

    for batch in filter(None, source):
        found = run(model, batch.X, k)
        numbers = range(batch.first - 1, batch.first - 1 + len(batch))
        names = numbers if batch.ids is None else batch.ids.tolist()
        rows = zip(names, found.ids.tolist(), found.labels.tolist(), found.values.tolist(), strict=True)
        for name, *row in rows:
            near = [{"row": i, "label": label, "value": value} for i, label, value in zip(*row, strict=True)]
            yield {"query": name, "neighbors": near}
