"""The command ``paloma``: parse, call one public function, print.

Each command is a function in a module of its own, registered here; slow imports are inside it.
"""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from . import _errors
from .convert import convert
from .data import prepare, show
from .demo import demo
from .embed import embed
from .evaluate import evaluate
from .fit import fit
from .index import index
from .info import info
from .predict import predict
from .reproduce import reproduce
from .search import search
from .serve import serve
from .update import update

__all__ = ["COMMANDS", "app", "main"]

app = typer.Typer(
    name="paloma",
    help="Online passive-aggressive learning of local metrics and similarities.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
GROUPS = {
    "data": """Prepare and inspect data sets.

    \b
    Example:
      paloma data show letters
    """
}
# A nested dict is a group of commands, described in GROUPS.
COMMANDS: dict[str, Any] = {
    "demo": demo,
    "fit": fit,
    "update": update,
    "eval": evaluate,
    "predict": predict,
    "index": index,
    "search": search,
    "serve": serve,
    "info": info,
    "convert": convert,
    "data": {"prepare": prepare, "show": show},
    "embed": embed,
    "reproduce": reproduce,
}


class Command(TyperCommand):
    """A command whose options may name their section of the help, as ``rich_help_panel``."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for the arguments, one for the options, and one for each group of options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
                title = getattr(parameter, "rich_help_panel", None) or usual
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _add(commands: dict[str, Any], to: typer.Typer) -> None:
    for name, command in commands.items():
        if isinstance(command, dict):
            group = typer.Typer(help=GROUPS[name], no_args_is_help=True, rich_markup_mode=None)
            _add(command, group)
            to.add_typer(group, name=name)
        else:
            to.command(name, cls=Command)(_errors.in_one_line(command))


_add(COMMANDS, app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from .._version import __version__

        typer.echo(f"paloma {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback if an error occurs.")] = False,
) -> None:
    """Online passive-aggressive learning of local metrics and similarities."""
    _errors.show_tracebacks(debug)


def main() -> None:
    """Run the command line; the entry point of ``paloma`` and ``python -m paloma``."""
    app(prog_name="paloma")
