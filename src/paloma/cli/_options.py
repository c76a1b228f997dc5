"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

# The label column, unless another name is given.
LABEL = "label"


def output_file(text: str, **settings: Any) -> Any:
    """The option --output: a file in an existing folder, which is checked before any work is done."""
    return typer.Option("--output", "-o", help=text, callback=_in_a_folder, **settings)


def _in_a_folder(path: Path | None) -> Path | None:
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise typer.BadParameter(f"{path} is a folder." if path.is_dir() else f"folder {path.parent} does not exist.")
    return path


def _a_file(path: Path | None) -> Path | None:
    if path is not None and not path.is_file():
        raise typer.BadParameter(f"file {path} does not exist.")
    return path


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Table to read: .csv, .tsv, .jsonl, .npz, .npy, .parquet, .feather, .svm, the name of a data set, or - "
        "for stdin.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")]
ModelOrIndex = Annotated[Path, typer.Argument(metavar="MODEL", help="Model or index file.")]
Label = Annotated[str, typer.Option("--label", "-y", help="Name of the label column.")]
LabelColumn = Annotated[
    str | None, typer.Option("--label", "-y", help="Name of the label column, if it differs from that used in fit.")
]
Labels = Annotated[
    Path | None,
    typer.Option(help="File with one label per row of an .npz, .npy or .svm: .npy or text.", callback=_a_file),
]
LabelKind = Annotated[str, typer.Option("--label-type", help="Type of the labels: auto, int, float or str.")]
Drop = Annotated[str, typer.Option(help="Columns to ignore, separated by commas.")]
Missing = Annotated[
    str,
    typer.Option(
        help="Missing values: error, drop the row, or fill in the mean of the column, here and in later tables."
    ),
]
SkipErrors = Annotated[
    int, typer.Option("--skip-errors", metavar="N", min=0, help="Skip up to N invalid rows, and count them.")
]
Items = Annotated[str | None, typer.Option(help="Labeled rows to search, instead of those stored in the model.")]
Neighbors = Annotated[int | None, typer.Option("--neighbors", "-k", min=1, help="Number of neighbors.")]
Triplets = Annotated[
    Path | None,
    typer.Option(
        help="File with one triplet per line: the row numbers, counted from 0, of its anchor, positive and negative; "
        ".npy or .csv.",
        callback=_a_file,
    ),
]
Prepare = Annotated[str, typer.Option(help="Preprocessing of the rows: auto, none, standard, minmax, maxabs or unit.")]
MetricOnly = Annotated[
    bool,
    typer.Option(
        "--metric-only", help="Do not store the rows: the file is small, but predict and search require --items."
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Parameter of the learner, e.g. --set C=0.1; may be repeated."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not report progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")]


def _cluster_option(text: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Cluster options", **settings)


Scheduler = Annotated[
    str | None, _cluster_option("Learn on the cluster of this Dask scheduler, e.g. tcp://10.0.0.5:8786.")
]
Workers = Annotated[int | None, _cluster_option("Learn in this many local processes.", min=1)]
Rounds = Annotated[int | None, _cluster_option("Number of rounds of learning and averaging.", min=1, show_default="8")]
ShardRows = Annotated[
    int | None, _cluster_option("Rows of a .npy file to learn at a time.", min=2, show_default="65536")
]
Checkpoint = Annotated[Path | None, _cluster_option("File to store each round in, and to resume from.")]
Dashboard = Annotated[bool, _cluster_option("Serve the Dask dashboard; requires --workers.", "--dashboard")]
TlsCa = Annotated[Path | None, _cluster_option("CA certificate for a tls:// scheduler.")]
TlsCert = Annotated[Path | None, _cluster_option("Client certificate for a tls:// scheduler.")]
TlsKey = Annotated[Path | None, _cluster_option("Client key for a tls:// scheduler.")]
