"""Errors as one line on stderr and exit status 1; the traceback only if requested."""

import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import typer

from ..exceptions import ServiceError
from ._report import visible

P = ParamSpec("P")
R = TypeVar("R")

# Raised for invalid input; the message of any other error also names its type.
_ABOUT_INPUT = (ValueError, TypeError, OSError, ImportError, ServiceError)
_shown = {"traceback": False}


def show_tracebacks(wanted: bool) -> None:
    """Set by ``--debug`` for the command that follows."""
    _shown["traceback"] = wanted


def in_one_line(command: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command so that an error ends it with one line instead of a traceback."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show
                # Columns are matched by name before rows become arrays.
                warnings.filterwarnings("ignore", "X does not have valid feature names")
                return command(*args, **kwargs)
        except KeyboardInterrupt:
            typer.echo("paloma: interrupted", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # The reader closed the pipe; flushing at exit must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        except Exception as error:
            # Errors in the command line itself carry an exit code, and typer prints them.
            if _shown["traceback"] or isinstance(error, typer.Abort) or hasattr(error, "exit_code"):
                raise
            typer.echo(f"paloma: error: {visible(line_of(error))}", err=True)
            raise typer.Exit(1) from error

    return wrapped


def _show(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"paloma: warning: {visible(' '.join(str(message).split()))}", err=True)


def line_of(error: Exception) -> str:
    """The message of an error on one line.

    Examples
    --------
    >>> line_of(ValueError("C must be positive,\\n  got -1."))
    'C must be positive, got -1.'
    >>> line_of(KeyError("a"))
    "KeyError: 'a' (run paloma --debug for the traceback)"
    """
    text = " ".join(str(error).split())
    if isinstance(error, _ABOUT_INPUT) and text:
        return text
    return f"{type(error).__name__}{': ' if text else ''}{text} (run paloma --debug for the traceback)"
