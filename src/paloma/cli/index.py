"""``paloma index``."""

from pathlib import Path
from typing import Annotated

import typer

from ._options import Data, Drop, LabelColumn, Labels, ModelOrIndex, output_file


def index(
    model_file: ModelOrIndex,
    data: Data,
    output: Annotated[Path, output_file("Index file to write.")],
    label: LabelColumn = None,
    labels: Labels = None,
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
    from ._models import label_type, parsed, wanted

    with locked(output):
        model = load(model_file)
        batch = read_all(data, wanted(model, label, False, drop), labels)
        y = label_type(model).of(batch, data)
        built = build_index(model, batch.X, y, backend=backend, refresh=refresh, path=output, **parsed(settings))
    typer.echo(f"{len(batch):,} items added, {len(built):,} in {output} ({built.backend}).", err=True)
