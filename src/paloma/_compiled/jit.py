"""The one decorator of every compiled function."""

from collections.abc import Callable
from typing import Any

from numba import njit

# Everything of fast-math but `nnan` and `ninf`: a NaN must still propagate.
_FASTMATH = {"reassoc", "contract", "nsz", "arcp"}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile once per machine (disk cache), release the GIL, allow reassociation but keep NaN."""
    return njit(cache=True, nogil=True, fastmath=_FASTMATH)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A piece of a compiled function, part of its caller: passing arrays between two costs as much as d = 16 work."""
    return njit(inline="always", nogil=True, fastmath=_FASTMATH)(function)
