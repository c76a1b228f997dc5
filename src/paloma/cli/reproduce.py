"""``paloma reproduce``."""

import csv
from pathlib import Path
from typing import Annotated

import typer

# Tables of the report that are shown on the terminal, and their titles there.
_SHOWN = {
    "table2-ours.csv": "Table 2: classification rate in %",
    "projection.csv": "Dual random projection",
}


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
    paths = run(target, workers=workers, report_only=report_only, **settings)  # type: ignore[arg-type]
    for path in paths:
        if path.name in _SHOWN:
            _show(path, _SHOWN[path.name])
    for path in paths:
        if path.name.startswith("report"):
            typer.echo(path)


def _show(path: Path, title: str) -> None:
    """Print a table of the report to stdout, the paper's figures on lines of their own."""
    from ._report import print_table

    with path.open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    ours = [k for k, name in enumerate(names) if name not in ("paper", "comparable")]
    paper = {k: k + 1 for k in ours if names[k + 1 : k + 2] == ["paper"]}
    lines = []
    for row in rows:
        lines.append([row[k] for k in ours])
        if paper:
            lines.append(["  the paper", *(row[paper[k]].partition(" ")[0] if k in paper else "" for k in ours[1:])])
    print_table(title, [names[k] for k in ours], lines)
