"""The weights in a file that torch wrote, without torch and without running what the file says.

The older of torch's two formats: three pickles (magic number, protocol, machine), the pickle of the tensors, which name
their storages, the pickle of the storages' keys, and then each storage: its length as int64 and its numbers.
"""

import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._typing import Array

MAGIC = 0x1950A86A20F9469CFC6C
_TYPES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


def read_weights(path: Path) -> dict[str, Array]:
    """The tensors of a state dict by name; anything else in the file is refused."""
    with path.open("rb") as file:
        try:
            magic = _Plain(file).load()
        except pickle.UnpicklingError:
            magic = None
        if magic != MAGIC:
            raise ValueError(f"{path} is not a file of weights in torch's older format.")
        _Plain(file).load(), _Plain(file).load()
        tensors = _Tensors(file)
        found = tensors.load()
        numbers = {}
        for key in _Plain(file).load():
            size = int.from_bytes(file.read(8), "little")
            numbers[key] = np.frombuffer(file.read(size * tensors.types[key].itemsize), tensors.types[key])
    return {name: _tensor(numbers[key], *about) for name, (key, *about) in found.items()}


def _tensor(numbers: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    strides = tuple(stride * numbers.itemsize for stride in strides)
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(numbers[offset:], shape, strides))


class _Plain(pickle.Unpickler):
    """Numbers, strings, lists and dicts; no function is called."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a file of weights.")


class _Tensors(_Plain):
    """Tensors as (key of the storage, offset, shape, strides)."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.types: dict[str, np.dtype[Any]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda key, offset, shape, strides, *_: (key, offset, shape, strides)
        if module == "torch" and name in _TYPES:
            return _TYPES[name]
        return super().find_class(module, name)

    def persistent_load(self, about: Any) -> str:
        _, dtype, key, *_ = about
        self.types[key] = dtype
        return key
