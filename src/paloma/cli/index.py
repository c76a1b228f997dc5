"""``paloma index``."""

from pathlib import Path
from typing import Annotated

import typer

from ._options import Data, Drop, LabelColumn, Labels, ModelOrIndex, SkipErrors, output_file


def index(
    model_file: ModelOrIndex,
    data: Data,
    output: Annotated[Path, output_file("Index file to write.")],
    label: LabelColumn = None,
    labels: Labels = None,
    ids: Annotated[
        str,
        typer.Option(
            "--id", metavar="COLUMN", help="Column of ids, whole numbers or strings.", show_default="0, 1, 2, ..."
        ),
    ] = "",
    missing: Annotated[str, typer.Option(help="Missing values: error, or drop the row.")] = "error",
    skip_errors: SkipErrors = 0,
    backend: Annotated[
        str | None,
        typer.Option(help="exact, faiss-flat, faiss-hnsw, faiss-ivf, or pgvector.", show_default="exact"),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Option of the backend; may be repeated.")
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Bring all items of an existing index under its current metric.")
    ] = False,
    drop: Drop = "",
) -> None:
    """Add the rows of a table to an index.

    If MODEL is an index, the rows are added to its items. Rows without labels are scored by the shared metric.

    \b
    Example:
      paloma index letters.paloma train.csv -o letters.index
    """
    from ..persist import load, locked
    from ..workflow import build_index
    from ._formats import read_all
    from ._models import as_ids, label_type, parsed, tolerating, wanted

    with locked(output):
        model = load(model_file)
        columns = tolerating(wanted(model, label, False, drop), missing, skip_errors, fills=False)
        columns.ids = ids
        batch = read_all(data, columns, labels, quiet=False)
        y = label_type(model).of(batch, data)
        built = build_index(
            model, batch.X, y, ids=as_ids(batch.ids), backend=backend, refresh=refresh, path=output, **parsed(settings)
        )
    left_out = f"; {columns.told()}" if columns.told() else ""
    typer.echo(f"{len(batch):,} items added, {len(built):,} in {output} ({built.backend}){left_out}.", err=True)
