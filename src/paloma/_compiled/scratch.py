"""Buffers that one learning call reuses over its blocks: fresh pages cost more than the products they would hold."""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Scratch:
    """Named buffers that grow to the largest shape asked for; contents are never kept."""

    def __init__(self) -> None:
        self._flat: dict[str, NDArray[Any]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """A C-contiguous array of this shape over the buffer of this name."""
        size = prod(shape)
        flat = self._flat.get(name)
        if flat is None or flat.size < size or flat.dtype != dtype:
            flat = self._flat[name] = np.empty(size, dtype)
        return flat[:size].reshape(shape)
