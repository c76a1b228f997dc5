"""``paloma reproduce``."""

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    target: Annotated[str, typer.Argument(help="table2, fig4, fig5, fig6, fig7 or all.")] = "all",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the journal and the report.")] = Path(
        "paloma-paper"
    ),
    sets: Annotated[str, typer.Option(help="Data sets, separated by commas; by default all that are there.")] = "",
    runs: Annotated[int | None, typer.Option(min=1, help="At most so many runs of each data set.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One run and a coarse search.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run.")] = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; by default one a core.")] = None,
    report_only: Annotated[bool, typer.Option("--report-only", help="Run nothing, report what is there.")] = False,
) -> None:
    """Run the paper's experiments; start it again after a stop and it goes on where it was.

    \b
    Example:
      paloma reproduce table2 --sets letters --quick
    """
    from ..experiments.reproduce import reproduce as run

    names = [name.strip() for name in sets.split(",") if name.strip()] or None
    settings = {"output": output, "sets": names, "n_runs": runs, "quick": quick, "seed": seed}
    for path in run(target, workers=workers, report_only=report_only, **settings):  # type: ignore[arg-type]
        if path.name.startswith("report"):
            typer.echo(path)
