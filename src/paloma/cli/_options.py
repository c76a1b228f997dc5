"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer


def output_file(text: str) -> Any:
    """The option --output: a file in a folder that is there, which is asked before anything is learnt."""
    return typer.Option("--output", "-o", help=text, callback=_in_a_folder)


def _in_a_folder(path: Path) -> Path:
    if path.is_dir() or not path.parent.is_dir():
        raise typer.BadParameter(f"{path} is a folder." if path.is_dir() else f"there is no folder {path.parent}.")
    return path


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A table: .csv, .tsv, .jsonl, .npz, .npy, .parquet, .svm, a data set's name, or - for stdin.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
Label = Annotated[str, typer.Option("--label", "-y", help="Column of the labels.")]
LabelColumn = Annotated[str | None, typer.Option("--label", "-y", help="Column of the labels, if not that of fit.")]
Labels = Annotated[Path | None, typer.Option(help="File of labels, one a row: .npy or text.")]
LabelKind = Annotated[str, typer.Option("--label-type", help="What labels are: auto, int, float or str.")]
Drop = Annotated[str, typer.Option(help="Columns to leave out, separated by commas.")]
Items = Annotated[str | None, typer.Option(help="Labelled rows to search in, instead of those the model keeps.")]
Neighbors = Annotated[int | None, typer.Option("--neighbors", "-k", min=1, help="Number of neighbours.")]
Triplets = Annotated[
    Path | None, typer.Option(help="Row numbers (anchor, positive, negative) from 0, one triplet a line: .npy or .csv.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No table while learning.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, for scripts.")]
