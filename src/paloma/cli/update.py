"""``paloma update``."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from ._columns import Batch
from ._options import Drop, Json, LabelColumn, LabelKind, Labels, Model, Quiet


def update(
    model_file: Model,
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A table, or - for CSV or JSON lines from standard input.")
    ] = "-",
    learner: Annotated[
        str | None, typer.Option("--learner", "-l", help="Begin with this learner where the file is not there yet.")
    ] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="A parameter of it, e.g. --set C=0.1.")] = None,
    label: LabelColumn = None,
    labels: Labels = None,
    label_type: LabelKind = "auto",
    drop: Drop = "",
    batch: Annotated[int, typer.Option(min=1, help="Rows that are learnt together.")] = 1000,
    patience: Annotated[
        float, typer.Option(min=0.01, help="Seconds of silence after which fewer rows are learnt as well.")
    ] = 1.0,
    save_every: Annotated[float, typer.Option(min=0.0, help="Seconds between saves; 0: only at the end.")] = 30.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of a new learner.")] = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Go on learning from a table or a stream.

    Saves every few seconds and at the end; Ctrl-C saves, too, and ends with 130. The rows of a stream are CSV with a
    header, or JSON lines: objects by column name, {"x": [...], "label": ...}, or triplets {"anchor": [...], "positive":
    [...], "negative": [...]}. Rows that the model keeps to vote and to be searched stay those of fit.

    \b
    Example:
      tail -f events.csv | paloma update events.paloma --learner LODML
    """
    from .._progress import reporting
    from ._follow import Interrupt
    from ._formats import batches
    from ._models import Opened
    from ._models import learner as make
    from ._report import Learning, print_json

    new = not model_file.exists()
    if new and learner is None:
        raise FileNotFoundError(f"{model_file} is not there; begin a new model with --learner.")
    session = Session(Opened(make(learner or "", setting, seed)) if new else Opened.file(model_file), model_file)
    wanted, kind = session.opened.wanted(label, True, drop), session.opened.labels(label_type)
    learning = Learning(quiet or as_json)
    with Interrupt() as interrupt, reporting(learning):
        source = batches(data, wanted, labels=labels, size=batch, patience=patience, interrupt=interrupt)
        try:
            for part in source:
                if part is not None:
                    part.y = kind.of(part, data)
                    session.learn(part, wanted.label)
                    learning.rows += 0 if part.triplets else len(part)
                session.save_if_due(save_every)
                if interrupt.signal:
                    break
        except KeyboardInterrupt:  # a second Ctrl-C: a batch may be half learnt
            session.forget()
            raise
        finally:
            session.save()
    learning.finish()
    if as_json:
        print_json({"model": str(model_file), **learning.figures()})
    raise typer.Exit(interrupt.exit_code)


class Session:
    """A model that learns, and the file it is kept in."""

    def __init__(self, opened: Any, path: Path) -> None:
        self.opened, self.path = opened, path
        self._changed, self._saved = False, perf_counter()

    def learn(self, part: Batch, label: str) -> None:
        """One pass over a batch of rows or triplets."""
        opened = self.opened
        if part.triplets:
            points = opened.points(part.X)
            opened.learner.partial_fit(None, part.classes, triplets=points, triplet_weight=part.weight)
        else:
            opened.learner.partial_fit(opened.rows(part.X), part.y)
            if not hasattr(opened.model, "columns_"):
                opened.remember(part.names, label)
        self._changed = True

    def forget(self) -> None:
        """Do not save what was learnt since the last save."""
        self._changed = False

    def save_if_due(self, every: float) -> None:
        """Save where the last save is long enough ago."""
        if every and perf_counter() - self._saved >= every:
            self.save()

    def save(self) -> None:
        """Save what was learnt since the last save."""
        if self._changed:
            self.opened.save(self.path)
        self._changed, self._saved = False, perf_counter()
