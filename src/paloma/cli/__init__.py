"""The command ``paloma``: parse, call one public function, print.

Each command is a function in a module of its own, registered here; imports that take time stand inside it.
"""

from typing import Annotated

import typer

from . import _errors
from .data import data
from .demo import demo
from .embed import embed
from .reproduce import reproduce

__all__ = ["app", "main"]

app = typer.Typer(
    name="paloma",
    help="Online passive-aggressive learning of local metrics and similarities.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(_errors.in_one_line(demo))
app.command()(_errors.in_one_line(reproduce))
app.command()(_errors.in_one_line(embed))
app.add_typer(data, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"paloma {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Online passive-aggressive learning of local metrics and similarities."""
    _errors.show_tracebacks(debug)


def main() -> None:
    """Run the command line; the entry point of ``paloma`` and ``python -m paloma``."""
    app(prog_name="paloma")
