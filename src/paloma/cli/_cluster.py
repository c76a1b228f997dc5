"""``paloma fit --scheduler`` and ``--workers``: learning on a Dask cluster."""

from pathlib import Path
from typing import Any

import typer

from ..distributed import connected, fit
from ..persist import save
from ._formats import read_labels
from ._models import columns


def fit_on_cluster(
    learner: Any,
    data: str,
    label: str,
    labels: Path | None,
    output: Path,
    *,
    cluster: dict[str, Any],
    settings: dict[str, Any],
    verbose: bool,
) -> Any:
    """Learn on a cluster and save the metric; settings that are None are left to `paloma.distributed.fit`."""
    if cluster["scheduler"] is None and any(cluster[name] for name in ("tls_ca", "tls_cert", "tls_key")):
        raise ValueError("--tls-ca, --tls-cert and --tls-key require --scheduler tls://...")
    X, y = _sources(data, label, labels)
    given = {name: value for name, value in settings.items() if value is not None}
    with connected(**cluster) as client:
        model = fit(learner.set_params(verbose=int(verbose)), X, y, client=client, **given)
    names = getattr(model, "feature_names_in_", None)
    model.set_params(verbose=0).columns_ = columns(None if names is None else names.tolist(), label)
    save(model, output)
    return model


def _sources(data: str, label: str, labels: Path | None) -> tuple[Path, Any]:
    """Rows that workers can read, and their labels."""
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


def print_rounds(model: Any) -> None:
    """Print a line for each round to stderr."""
    for row in model.rounds_:
        text = "round {round}: loss {loss:.4f}, accuracy {accuracy:.4f} on held-out rows, {seconds:.1f} s"
        typer.echo(text.format(**row), err=True)
