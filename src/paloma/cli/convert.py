"""``paloma convert``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import LABEL, Drop, Label, Labels


def convert(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="Table, name of a data set (letters, digits, ...), or model file."),
    ],
    target: Annotated[
        Path,
        typer.Argument(metavar="TARGET", help="File to write: .csv, .jsonl, .npz, .parquet, .svm; .npz for a model."),
    ],
    label: Label = LABEL,
    labels: Labels = None,
    drop: Drop = "",
    rows: Annotated[str | None, typer.Option(help="Range of rows from:to, counted from 0, e.g. 16000:20000.")] = None,
) -> None:
    """Convert a table to another format, or export the matrices of a model.

    \b
    Example:
      paloma convert letters letters.csv
    """
    from ._batches import Batch
    from ._columns import Wanted, names_in
    from ._formats import read_all
    from ._labels import LabelType
    from ._writers import write

    if _is_model(source):
        write_matrices(source, target)
        return
    batch = read_all(source, Wanted(label, False, None, names_in(drop)), labels)
    if batch.triplets:
        raise ValueError(f"{source} contains triplets, which cannot be converted.")
    y, part = LabelType().of(batch, source), _part(rows)
    if not batch.X[part].shape[0]:
        raise ValueError(f"--rows {rows} names none of the {len(batch):,} rows of {source}.")
    write(Batch(batch.X[part], None if y is None else y[part], batch.names), target, label)
    typer.echo(f"{batch.X[part].shape[0]:,} rows, {batch.X.shape[1]} features, saved to {target}", err=True)


def _part(rows: str | None) -> slice:
    if rows is None:
        return slice(None)
    try:
        start, _, stop = rows.partition(":")
        return slice(int(start or 0), int(stop) if stop else None)
    except ValueError:
        raise ValueError(f"--rows must be from:to, e.g. 0:1000, got {rows!r}.") from None


def _is_model(source: str) -> bool:
    path = Path(source)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(64)[8:].startswith(b'{"__metadata__":{"format":"paloma"')


def write_matrices(source: str, target: Path) -> None:
    """U, L, and M of every class in the units of the learner's rows, for other programs."""
    import numpy as np

    from ..estimators import learner_of
    from ..persist import load

    if target.suffix.lower() != ".npz":
        raise ValueError(f"{target}: the matrices of a model can only be written as .npz.")
    learner: Any = learner_of(load(source))
    np.savez_compressed(
        target,
        shared=learner.shared_,
        local=learner.local_,
        classes=learner.classes_,
        scale=learner.scale_,
        metric=learner.metric_matrix(),
        metrics=np.array([learner.metric_matrix(label) for label in learner.classes_]),
    )
    typer.echo(f"{len(learner.classes_)} classes, {learner.n_features_in_} features, saved to {target}", err=True)
