"""``paloma reproduce``."""

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    target: Annotated[str, typer.Argument(help="What to reproduce: table2, fig4, fig5, fig6, fig7, or all.")] = "all",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the journal and the report.")] = Path(
        "paloma-paper"
    ),
    sets: Annotated[str, typer.Option(help="Data sets, separated by commas.", show_default="all available")] = "",
    runs: Annotated[int | None, typer.Option(min=1, help="Maximum number of runs per data set.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One run per data set and a coarse parameter search.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the first run.")] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes.", show_default="one per core")
    ] = None,
    report_only: Annotated[bool, typer.Option("--report-only", help="Only report finished runs.")] = False,
) -> None:
    """Run the experiments of the paper.

    If interrupted, run the same command again to resume.

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
