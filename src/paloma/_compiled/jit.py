"""The one decorator of every compiled function."""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

from .._progress import explain_wait

# Everything of fast-math but `nnan` and `ninf`: a NaN must still propagate.
_FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
# A division by 0 gives inf or NaN, as in NumPy: raising would leave matrices half moved, and takes longer to compile.
_OPTIONS = {"nogil": True, "fastmath": _FASTMATH, "error_model": "numpy"}


class _Compiling(event.Listener):
    """Says so when a loop is compiled, which takes seconds and happens once per machine and kind of data."""

    def on_start(self, event: event.Event) -> None:
        if event.data["dispatcher"].py_func.__module__.startswith("paloma."):
            explain_wait("paloma compiles its loops for this kind of data: once, for a few seconds.")

    def on_end(self, event: event.Event) -> None:
        pass


event.register("numba:compile", _Compiling())


def compiled(function: Callable[..., Any]) -> Any:
    """Compile once per machine (disk cache), release the GIL, allow reassociation but keep NaN."""
    return njit(cache=True, **_OPTIONS)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A piece of a compiled function, part of its caller: passing arrays between two costs as much as d = 16 work."""
    return njit(inline="always", **_OPTIONS)(function)
