"""Memory by the lines that it comes in."""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Bytes of a line.
LINE = 64


def on_lines(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An empty array that begins where a line does: a vector that is on two lines takes twice as long."""
    size = prod(shape) * np.dtype(dtype).itemsize
    flat = np.empty(size + LINE, np.uint8)
    begin = -flat.ctypes.data % LINE
    return flat[begin : begin + size].view(dtype).reshape(shape)
