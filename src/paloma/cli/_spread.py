"""``paloma fit --scheduler`` and ``--workers``: learning on a Dask cluster."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from ..distributed import connected, fit
from ._formats import read_labels
from ._models import Opened
from ._report import print_json


@dataclass
class Spread:
    """Where to learn, and how; settings that are None are `paloma.distributed.fit`'s own."""

    scheduler: str | None
    cluster: dict[str, Any]
    settings: dict[str, Any]

    def refuse(self, options: list[str]) -> None:
        """Options that say something about rows which this process never sees, or about another kind of cluster."""
        if self.scheduler is None and any(self.cluster[name] for name in ("tls_ca", "tls_cert", "tls_key")):
            raise ValueError("--tls-ca, --tls-cert and --tls-key go with --scheduler tls://...")
        if options:
            raise ValueError(
                f"{', '.join(options)} cannot go with --scheduler or --workers: rows are taken as they are."
            )

    def fit(
        self, metric: Any, data: str, label: str, labels: Path | None, output: Path, quiet: bool, as_json: bool
    ) -> None:
        """Learn on the cluster, save the metric, print the rounds."""
        metric.set_params(verbose=int(not (quiet or as_json)))
        X, y = _sources(data, label, labels)
        given = {name: value for name, value in self.settings.items() if value is not None}
        with connected(self.scheduler, **self.cluster) as client:
            model = fit(metric, X, y, client=client, **given)
        model.set_params(verbose=0)
        opened = Opened(model)
        names = getattr(model, "feature_names_in_", None)
        opened.remember(None if names is None else names.tolist(), label)
        opened.save(output)
        if as_json:
            print_json({"model": str(output), "learner": type(metric).__name__, "rounds": model.rounds_})
        elif not quiet:
            for row in model.rounds_:
                text = "round {round}: loss {loss:.4f}, accuracy {accuracy:.4f} on rows held out, {seconds:.1f} s"
                typer.echo(text.format(**row), err=True)
            typer.echo(f"{type(metric).__name__}, {len(model.classes_)} classes, saved to {output}", err=True)


def _sources(data: str, label: str, labels: Path | None) -> tuple[Path, Any]:
    """Rows that workers can read, and their labels."""
    path = Path(data)
    if not path.exists():
        raise FileNotFoundError(f"No such file: {data}")
    if path.suffix == ".npy":
        if labels is None:
            raise ValueError(f"{data} has no labels: give them with --labels.")
        return path, labels if labels.suffix == ".npy" else read_labels(labels)
    if path.suffix in (".parquet", ".pq") or path.is_dir():
        return path, label
    raise ValueError(f"On a cluster DATA must be .npy or Parquet, which workers read by parts, got {data}.")
