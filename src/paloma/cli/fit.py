"""``paloma fit``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from . import _options as opt
from ._report import Learning, print_json, reading


def fit(
    data: opt.Data,
    output: Annotated[Path, opt.output_file("Model file to write.")],
    learner: Annotated[
        str, typer.Option("--learner", "-l", help="Learner to use: LODML, ODML, LOSL, OASIS, L2ODML, ...")
    ] = "LODML",
    setting: opt.Setting = None,
    label: opt.Label = opt.LABEL,
    labels: opt.Labels = None,
    label_type: opt.LabelKind = "auto",
    drop: opt.Drop = "",
    missing: opt.Missing = "error",
    skip_errors: opt.SkipErrors = 0,
    triplets: opt.Triplets = None,
    prepare: opt.Prepare = "auto",
    neighbors: Annotated[
        int | None,
        typer.Option(
            "--neighbors",
            "-k",
            min=1,
            help="Number of neighbors that vote in predict.",
            show_default="as in MetricKNeighborsClassifier",
        ),
    ] = None,
    metric_only: opt.MetricOnly = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the learner.")] = 0,
    scheduler: opt.Scheduler = None,
    workers: opt.Workers = None,
    rounds: opt.Rounds = None,
    shard_rows: opt.ShardRows = None,
    checkpoint: opt.Checkpoint = None,
    dashboard: opt.Dashboard = False,
    tls_ca: opt.TlsCa = None,
    tls_cert: opt.TlsCert = None,
    tls_key: opt.TlsKey = None,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Learn a metric from a table and save it.

    Labeled rows are stored in the model, so that it can classify and be searched. On a cluster (--scheduler or
    --workers), DATA is .npy or Parquet, read by the workers without preprocessing, and only the metric is stored.

    \b
    Example:
      paloma fit letters.csv -o letters.paloma --learner LODML --set C=0.02
      paloma fit rows.npy --labels y.npy -o rows.paloma --workers 2 --checkpoint rounds.paloma
    """
    silent = quiet or as_json
    Learning(silent).say(reading(data))
    from sklearn.utils import get_tags

    from .._progress import reporting
    from ..estimators import learner_of
    from ..workflow import train
    from ._columns import Wanted, names_in
    from ._formats import arguments, read_all
    from ._labels import LabelType
    from ._models import columns, preprocessing, taken, tolerating
    from ._models import learner as create

    metric = create(learner, setting, seed)
    cluster: dict[str, Any] = {"dashboard": dashboard, "tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
    settings = {"rounds": rounds, "shard_rows": shard_rows, "checkpoint": checkpoint}
    if scheduler is not None or workers is not None:
        unused = {"--triplets": triplets, "--drop": drop, "--prepare": prepare not in ("auto", "none")}
        unused |= {"--missing": missing != "error", "--skip-errors": skip_errors > 0}
        if refused := [name for name, value in unused.items() if value]:
            raise ValueError(f"{', '.join(refused)} cannot be combined with --scheduler or --workers.")
        cluster |= {"scheduler": scheduler, "workers": workers}
        model = _on_cluster(metric, data, label, labels, output, cluster, settings, silent)
        figures = {"rounds": model.rounds_}
    else:
        if alone := [name.replace("_", "-") for name, value in {**settings, **cluster}.items() if value]:
            raise ValueError(f"--{alone[0]} requires a cluster: add --scheduler or --workers.")
        steps, dense = preprocessing(prepare), not get_tags(metric).input_tags.sparse
        wanted = Wanted(label, triplets is None, None, names_in(drop), dense=dense)
        batch = read_all(data, tolerating(wanted, missing, skip_errors), labels, silent)
        batch.y = LabelType(label_type).of(batch, data)
        if not silent:
            for line in taken(batch, label, wanted):
                typer.echo(line, err=True)
        learning = Learning(silent, rows=0 if batch.triplets else len(batch))
        with reporting(learning, learning.stage):
            model = train(
                metric, **arguments(batch, triplets), preprocessing=steps, fill_missing=missing == "mean",
                keep_rows=not metric_only,
                n_neighbors=neighbors, columns=columns(batch.names, label), path=output,
            )  # fmt: skip
        learning.finish()
        figures = learning.figures()
    name = type(metric).__name__
    if as_json:
        print_json({"model": str(output), "learner": name, **figures})
    elif not quiet:
        typer.echo(f"{name}, {len(learner_of(model).classes_)} classes, saved to {output}", err=True)


def _on_cluster(
    learner: Any, data: str, label: str, labels: Path | None, output: Path, cluster: dict[str, Any],
    settings: dict[str, Any], silent: bool,
) -> Any:  # fmt: skip
    """Learn on a Dask cluster and save the metric; settings that are None are left to `paloma.distributed.fit`."""
    from ..distributed import connected
    from ..distributed import fit as run
    from ..persist import save
    from ._models import columns

    if cluster["scheduler"] is None and any(cluster[name] for name in ("tls_ca", "tls_cert", "tls_key")):
        raise ValueError("--tls-ca, --tls-cert and --tls-key require --scheduler tls://...")
    X, y = _sources(data, label, labels)
    given = {name: value for name, value in settings.items() if value is not None}
    with connected(**cluster) as client:
        model: Any = run(learner.set_params(verbose=int(not silent)), X, y, client=client, **given)
    names = getattr(model, "feature_names_in_", None)
    model.set_params(verbose=0).columns_ = columns(None if names is None else names.tolist(), label)
    save(model, output)
    for row in [] if silent else model.rounds_:
        text = "round {round}: loss {loss:.4f}, accuracy {accuracy:.4f} on held-out rows, {seconds:.1f} s"
        typer.echo(text.format(**row), err=True)
    return model


def _sources(data: str, label: str, labels: Path | None) -> tuple[Path, Any]:
    """Rows that workers can read, and their labels."""
    from ._labels import read_labels

    path = Path(data)
    if not path.exists():
        raise FileNotFoundError(f"File {data} does not exist.")
    if path.suffix == ".npy":
        if labels is None:
            raise ValueError(f"{data} contains no labels. Provide them with --labels.")
        return path, labels if labels.suffix == ".npy" else read_labels(labels)
    if path.suffix in (".parquet", ".pq") or path.is_dir():
        return path, label
    raise ValueError(f"On a cluster, DATA must be .npy or Parquet, which workers can read in parts; got {data}.")
