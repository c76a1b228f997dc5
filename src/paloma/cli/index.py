"""``paloma index``, and what ``search`` and ``eval`` do with an index or with retrieval."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ._columns import Batch
from ._options import Data, Drop, LabelColumn, Labels, Model, output_file

_NUMBER = r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*"


def index(
    model_file: Model,
    data: Data,
    output: Annotated[Path, output_file("The index file to write.")],
    label: LabelColumn = None,
    labels: Labels = None,
    backend: Annotated[str, typer.Option(help="exact, faiss-flat, faiss-hnsw, faiss-ivf or pgvector.")] = "exact",
    settings: Annotated[list[str] | None, typer.Option("--set", help="An option of the backend, name=value.")] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Bring an index under its metric as it is now.")] = False,
    drop: Drop = "",
) -> None:
    """Put the rows of a table into an index; rows without labels are scored by the shared metric.

    Where the model file is an index already, the rows are added to it.

    \b
    Example:
      paloma index letters.paloma train.csv -o letters.index
    """
    from ..neighbors import MetricIndex
    from ..persist import save
    from ._formats import read_all
    from ._models import Opened, parsed

    opened = Opened.file(model_file)
    held = opened.model
    if not isinstance(held, MetricIndex):
        held = MetricIndex(_metric_of(opened), backend=backend, **parsed(settings))
    known = Opened(held.metric)
    batch = read_all(data, known.wanted(label, False, drop), labels)
    ids = held.add(batch.X, known.labels().of(batch, data))
    if refresh:
        held.refresh()
    save(held, output)
    typer.echo(f"{len(ids):,} items added, {len(held):,} in {output} ({held.backend}).", err=True)


def _metric_of(opened: Any) -> Any:
    """A learner, or a pipeline that ends in one, out of a model that may end in a classifier."""
    from sklearn.pipeline import make_pipeline

    if opened.last is opened.learner:
        return opened.model
    if opened.before is None:
        return opened.learner
    metric = make_pipeline(*(step for _, step in opened.before.steps), opened.learner)
    metric.columns_ = getattr(opened.model, "columns_", None)
    return metric


def one_row(text: str) -> Batch | None:
    """A single row written as numbers with commas; None if it is something else.

    Examples
    --------
    >>> one_row("5.1, 3.5,-2e1").X.tolist()
    [[5.1, 3.5, -20.0]]
    >>> one_row("new.csv") is None
    True
    """
    import numpy as np

    if not re.fullmatch(f"{_NUMBER}(,{_NUMBER})*", text) or Path(text).exists():
        return None
    return Batch(np.array([[float(cell) for cell in text.split(",")]]))


def neighbors_in(held: Any, source: Iterator[Any], k: int) -> Iterator[dict[str, Any]]:
    """Nearest items of each query in an index, as plain values."""
    for batch in filter(None, source):
        values, ids = held.search(batch.X, k)
        labels = held.labels_of(ids)
        for q, row in enumerate(zip(ids.tolist(), labels.tolist(), values.tolist(), strict=True)):
            near = [{"row": i, "label": label, "value": v} for i, label, v in zip(*row, strict=True)]
            yield {"query": batch.first - 1 + q, "neighbors": near}


def retrieval_figures(opened: Any, rows: Any, y: Any, items: str | None, k: int | None) -> dict[str, float]:
    """Retrieval metrics of queries in a database, under the metric and under Euclid."""
    from ..evaluate import retrieval
    from ._formats import read_all

    if items is not None:
        batch = read_all(items, opened.wanted(None, True))
        database, known = opened.rows(batch.X), opened.labels().of(batch, items)
    elif hasattr(opened.last, "rows_"):
        database, known = opened.last.rows_, opened.last.labels_
    else:
        raise ValueError("The model keeps no rows to search in; give labelled rows with --items.")
    k = 10 if k is None else k
    learnt, plain = (retrieval(metric, database, known, rows, y, k=k) for metric in (opened.learner, None))
    euclid = {f"euclid {name}": plain[name] for name in ("mAP", f"precision@{k}")}
    return {"items": len(known), **{name: float(value) for name, value in learnt.items()}, **euclid}
