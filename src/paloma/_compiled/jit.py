"""The one decorator of every compiled function."""

import gc
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

from .._progress import explain_wait

# Everything of fast-math but `nnan` and `ninf`: a NaN must still propagate.
_FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
# A division by 0 gives inf or NaN, as in NumPy: raising would leave matrices half moved, and takes longer to compile.
# Nobody calls our loops from C.
_OPTIONS = {"nogil": True, "fastmath": _FASTMATH, "error_model": "numpy", "no_cfunc_wrapper": True}


class _Compiling(event.Listener):
    """Says so when a loop is compiled, which takes seconds and happens once per machine and kind of data.

    Garbage is not collected meanwhile: of the compiler's millions of objects hardly any is, and looking for it takes a
    tenth of the time. numba compiles in one thread at a time; a loop may have others compiled.
    """

    def __init__(self) -> None:
        self._depth, self._collecting = 0, False

    def on_start(self, event: event.Event) -> None:
        if event.data["dispatcher"].py_func.__module__.startswith("paloma."):
            explain_wait("paloma compiles its loops for this kind of data: once, for a few seconds.")
            if not self._depth:
                self._collecting = gc.isenabled()
                gc.disable()
            self._depth += 1

    def on_end(self, event: event.Event) -> None:
        if event.data["dispatcher"].py_func.__module__.startswith("paloma."):
            self._depth -= 1
            if not self._depth and self._collecting:
                gc.enable()


event.register("numba:compile", _Compiling())


def compiled(function: Callable[..., Any]) -> Any:
    """Compile once per machine (disk cache), release the GIL, allow reassociation but keep NaN."""
    return njit(cache=True, **_OPTIONS)(function)


def in_place(function: Callable[..., Any]) -> Any:
    """The same for a loop that makes no arrays, of its own or by what it calls: none is counted, which is less code."""
    return njit(cache=True, _nrt=False, **_OPTIONS)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A piece of a compiled function, part of its caller: passing arrays between two costs as much as d = 16 work."""
    return njit(inline="always", **_OPTIONS)(function)
