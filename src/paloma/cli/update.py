"""``paloma update``."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from . import _options as opt
from ._report import Learning, print_json, reading, size_of


def update(
    model_file: opt.Model,
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Table to read, or - for CSV or JSON lines from standard input.")
    ] = "-",
    learner: Annotated[
        str | None, typer.Option("--learner", "-l", help="Learner to create if MODEL does not exist.")
    ] = None,
    setting: opt.Setting = None,
    label: opt.LabelColumn = None,
    labels: opt.Labels = None,
    label_type: opt.LabelKind = "auto",
    drop: opt.Drop = "",
    missing: opt.Missing = "error",
    skip_errors: opt.SkipErrors = 0,
    prepare: opt.Prepare = "auto",
    metric_only: opt.MetricOnly = False,
    batch: Annotated[int, typer.Option(min=1, help="Number of rows to learn at a time.")] = 1000,
    patience: Annotated[
        float, typer.Option(min=0.01, help="Seconds without input before an incomplete batch is learned.")
    ] = 1.0,
    save_every: Annotated[float, typer.Option(min=0.0, help="Seconds between saves; 0 saves only at the end.")] = 30.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of a new learner.")] = 0,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Continue learning from a table or a stream.

    Saves periodically and at the end, also after Ctrl-C, which exits with status 130. A stream is CSV with a header or
    JSON lines: objects by column name, {"x": [...], "label": ...}, or triplets {"anchor": [...], "positive": [...],
    "negative": [...]}. A model that stores rows for voting and search also stores new ones, up to 1,000 of each class.
    A new model is the same as by fit: --prepare is fitted on the first 100 rows or more. A second update of the same
    MODEL is refused while one is running.

    \b
    Example:
      tail -f events.csv | paloma update events.paloma --learner LODML
    """
    learning = Learning(quiet or as_json)
    learning.say(reading(data))
    from .._progress import reporting
    from ..estimators import learner_of
    from ..persist import load, locked
    from ..workflow import update as run
    from . import _models
    from ._formats import batches
    from ._tail import Interrupt

    with locked(model_file):
        if model_file.exists():
            model = load(model_file)
        elif learner is None:
            raise FileNotFoundError(f"{model_file} does not exist. Create a new model with --learner.")
        else:
            model = _models.learner(learner, setting, seed)
        steps, names = _models.preprocessing(prepare), dict[str, Any]()
        begins = not learner_of(model).__sklearn_is_fitted__()
        if missing == "mean" and not begins:
            raise ValueError("--missing mean: the means belong to the model, which was begun without them. Use drop.")
        wanted = _models.tolerating(_models.wanted(model, label, True, drop), missing, skip_errors)
        kind = _models.label_type(model, label_type)
        with Interrupt() as interrupt, reporting(learning), learning.stage("", size_of(data)) as advance:
            source = batches(
                data, wanted, labels=labels, size=batch, patience=patience, interrupt=interrupt, advance=advance
            )
            run(
                model, _until(interrupt, _read(names, source, wanted, kind, learning, data)), preprocessing=steps,
                fill_missing=missing == "mean", keep_rows=not metric_only, columns=names, path=model_file,
                save_every=save_every,
            )  # fmt: skip
    learning.finish()
    if wanted.told() and not (quiet or as_json):
        typer.echo(wanted.told(), err=True)
    if as_json:
        left_out = {"rows_dropped": wanted.n_missing, "rows_skipped": wanted.n_skipped}
        print_json({"model": str(model_file), **learning.figures(), **left_out})
    raise typer.Exit(interrupt.exit_code)


def _read(names: dict[str, Any], source: Any, wanted: Any, kind: Any, learning: Learning, data: str) -> Iterator[Any]:
    """Batches for `paloma.workflow.update`; counts the rows, and notes the names of their columns."""
    from ._models import columns

    for part in source:
        if not part:
            yield None
            continue
        part.y = kind.of(part, data)
        if not part.triplets and not names:
            names |= columns(part.names, wanted.label)
        yield part.arguments
        learning.rows += 0 if part.triplets else len(part)


def _until(interrupt: Any, items: Iterator[Any]) -> Iterator[Any]:
    """The items up to the one during which a signal arrived."""
    for item in items:
        yield item
        if interrupt.signal:
            return
