"""Errors as one line on stderr and exit status 1; the traceback only where it is asked for."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import typer

P = ParamSpec("P")
R = TypeVar("R")

# What paloma's functions raise about their input; anything else also gets its type named.
_ABOUT_INPUT = (ValueError, TypeError, OSError, ImportError)
_shown = {"traceback": False}


def show_tracebacks(wanted: bool) -> None:
    """Set by ``--debug``, for the command that follows it."""
    _shown["traceback"] = wanted


def in_one_line(command: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command so that an error ends it with one line instead of a traceback."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            typer.echo("paloma: interrupted", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # Whoever read us has read enough; Python must not complain again when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        except Exception as error:
            # Errors about the command line itself carry an exit code and are typer's to print.
            if _shown["traceback"] or isinstance(error, typer.Abort) or hasattr(error, "exit_code"):
                raise
            typer.echo(f"paloma: error: {line_of(error)}", err=True)
            raise typer.Exit(1) from error

    return wrapped


def line_of(error: Exception) -> str:
    """The message of an error in one line.

    Examples
    --------
    >>> line_of(ValueError("C must be positive,\\n  got -1."))
    'C must be positive, got -1.'
    >>> line_of(KeyError("a"))
    "KeyError: 'a' (paloma --debug shows where)"
    """
    text = " ".join(str(error).split())
    if isinstance(error, _ABOUT_INPUT) and text:
        return text
    return f"{type(error).__name__}{': ' if text else ''}{text} (paloma --debug shows where)"
