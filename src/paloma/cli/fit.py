"""``paloma fit``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ._columns import LABEL, Batch
from ._options import Data, Drop, Json, Label, LabelKind, Labels, Quiet, Triplets, output_file


def fit(
    data: Data,
    output: Annotated[Path, output_file("The model file to write.")],
    learner: Annotated[str, typer.Option("--learner", "-l", help="LODML, ODML, LOSL, OASIS, L2ODML, ...")] = "LODML",
    setting: Annotated[list[str] | None, typer.Option("--set", help="A parameter, e.g. --set C=0.1; repeat.")] = None,
    label: Label = LABEL,
    labels: Labels = None,
    label_type: LabelKind = "auto",
    drop: Drop = "",
    triplets: Triplets = None,
    prepare: Annotated[
        str, typer.Option(help="What is done to the rows first: auto, none, standard, minmax, maxabs or unit.")
    ] = "auto",
    neighbors: Annotated[int, typer.Option("--neighbors", "-k", min=1, help="Neighbours that vote in predict.")] = 3,
    metric_only: Annotated[
        bool, typer.Option("--metric-only", help="Keep no rows: a small file; predict and search then need --items.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the learner.")] = 0,
    scheduler: Annotated[
        str | None, typer.Option(help="Learn on the cluster of this Dask scheduler, e.g. tcp://10.0.0.5:8786.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Learn on so many processes of this machine.")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="On a cluster: rounds of learning and mixing; 8 unless given.")
    ] = None,
    shard_rows: Annotated[
        int | None, typer.Option(min=2, help="On a cluster: rows of a .npy file that are learnt at a time, 65,536.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="On a cluster: file that keeps each round, to go on from.")
    ] = None,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="With --workers: serve Dask's dashboard.")] = False,
    tls_ca: Annotated[Path | None, typer.Option(help="For a tls:// scheduler: the authority's certificate.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The client's certificate.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The client's key.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a metric from a table and save it.

    With labels the rows are saved as well, to vote in predict and to be searched. On a cluster, by --scheduler or
    --workers, DATA is .npy or Parquet, read by the workers and taken as it is; only the metric is saved.

    \b
    Example:
      paloma fit letters.csv -o letters.paloma --learner LODML --set C=0.02
      paloma fit rows.npy --labels y.npy -o rows.paloma --workers 2 --checkpoint rounds.paloma
    """
    from .._progress import reporting
    from ._columns import LabelType, Wanted
    from ._formats import read_all, read_triplets
    from ._models import Opened, dropped
    from ._models import learner as make
    from ._report import Learning, print_json

    metric = make(learner, setting, seed)
    tls = {"tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
    settings = {"rounds": rounds, "shard_rows": shard_rows, "checkpoint": checkpoint}
    if scheduler is not None or workers is not None:
        from ._spread import Spread

        spread = Spread(scheduler, {"workers": workers, "dashboard": dashboard, **tls}, settings)
        unused = {"--triplets": triplets, "--drop": drop, "--prepare": prepare not in ("auto", "none")}
        spread.refuse([name for name, value in unused.items() if value])
        return spread.fit(metric, data, label, labels, output, quiet, as_json)
    alone = [name for name, value in {**settings, **tls, "dashboard": dashboard}.items() if value]
    if alone:
        raise ValueError(f"--{alone[0].replace('_', '-')} is for a cluster: give --scheduler or --workers as well.")
    given = None if triplets is None else read_triplets(triplets)
    batch = read_all(data, Wanted(label, given is None, None, dropped(drop)), labels)
    batch.y = LabelType(label_type).of(batch, data)
    learning = Learning(quiet or as_json, rows=0 if batch.triplets else len(batch))
    with reporting(learning):
        if batch.triplets:
            model = metric.fit(None, batch.classes, triplets=batch.X, triplet_weight=batch.weight)
        else:
            model = _fitted(metric, batch, given, prepare, None if metric_only else neighbors)
    learning.finish()
    opened = Opened(model)
    opened.remember(batch.names, label)
    opened.save(output)
    if as_json:
        print_json({"model": str(output), "learner": type(metric).__name__, **learning.figures()})
    elif not quiet:
        typer.echo(f"{type(metric).__name__}, {len(metric.classes_)} classes, saved to {output}", err=True)
    return None


def _fitted(metric: Any, batch: Batch, triplets: Any, prepare: str, k: int | None) -> Any:
    """The learner fitted behind what prepares the rows; with labels and k, as the metric of a classifier."""
    import scipy.sparse as sp

    from ..neighbors import MetricKNeighborsClassifier
    from ._models import prepared

    model = prepared(metric, prepare, sp.issparse(batch.X))
    rows = batch.X if model is metric else model[:-1].fit_transform(batch.X, batch.y)
    metric.fit(rows, batch.y, triplets=triplets)
    if k is None or batch.y is None:
        return model
    voting = MetricKNeighborsClassifier(metric, n_neighbors=k).fit(rows, batch.y)
    if model is metric:
        return voting
    model.steps[-1] = ("metrickneighborsclassifier", voting)
    return model
