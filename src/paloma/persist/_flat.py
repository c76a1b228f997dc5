"""States as a file holds them: numbers as JSON, arrays under the names of their places, "model.space.shared".

Nothing refers to anything: what two objects share is written twice, and whatever was read belongs to one place alone.
A CSR matrix is three arrays, a Fortran-ordered array is written transposed as "NAME.T", words as their code points, one
row each, names as UTF-8 with zeros between them.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from .._core.fields import Field, Schema, Triple
from .._typing import Array
from ..exceptions import ModelFileError
from ._container import NAMES


class Writer:
    """Takes states apart; `arrays` holds copies of their arrays, so that nothing changes while it is written."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}

    def state(self, schema: Schema, state: dict[str, Any], known: dict[str, Any], where: str) -> dict[str, Any]:
        """JSON of the numbers of a state, whose arrays are taken in; a state that is not sound is refused."""
        try:
            sound = schema.checked(copied(state), known, where)
        except ValueError as error:
            raise ModelFileError(f"The model cannot be saved: {error}.") from None
        return self._flat(schema, sound, where)

    def _flat(self, schema: Schema, state: dict[str, Any], where: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for entry in schema.entries:
            value, path = state[entry.name], f"{where}.{entry.name}"
            if not isinstance(entry, Field):
                out[entry.name] = None if value is None else self._flat(entry.schema, value, path)
            elif entry.is_number:
                out[entry.name] = value
            elif value is not None:
                self.array(value, path)
        return out

    def array(self, value: Any, path: str) -> None:
        """Take in an array, a CSR matrix or a list of names."""
        if isinstance(value, list):
            if any("\0" in name for name in value):
                raise ModelFileError(f"{path}: a name holds a zero character, which a model file cannot hold.")
            value = np.frombuffer("\0".join([*value, ""]).encode("utf-8", "surrogatepass"), np.uint8)
        if sp.issparse(value):
            for name in Triple._fields:
                self.array(getattr(value, name), f"{path}.{name}")
            return
        if value.dtype.kind in "US":
            unit = np.uint32 if value.dtype.kind == "U" else np.uint8
            value = np.ascontiguousarray(value).view(unit).reshape(*value.shape, -1)
        value = value.astype(value.dtype.newbyteorder("<"), copy=False)
        if value.dtype not in NAMES:
            raise ModelFileError(f"{path} is an array of {value.dtype}, which a model file cannot hold.")
        if value.flags.f_contiguous and not value.flags.c_contiguous:
            path, value = f"{path}.T", value.T
        self.arrays[path] = np.ascontiguousarray(value).reshape(value.shape)


class Reader:
    """The arrays of a file; each can be taken once. size : bytes of the file, which bounds what may be made of it."""

    def __init__(self, arrays: dict[str, Array], size: int) -> None:
        self._arrays, self.size = dict(arrays), size

    @property
    def room(self) -> int:
        """Numbers that may be allocated because the file says so."""
        return 2**20 + self.size

    def afford(self, rows: int, columns: int, what: str) -> None:
        """Refuse to build a table that is out of all proportion to the file."""
        if rows * columns > 16 * self.room:
            raise ModelFileError(f"{what} would need a table of {rows:,} by {columns:,} numbers")

    def finish(self) -> None:
        """Every array must have been part of the model."""
        if self._arrays:
            raise ModelFileError(f"unknown arrays: {', '.join(sorted(self._arrays))[:200]}")

    def state(self, schema: Schema, numbers: Any, known: dict[str, Any], where: str) -> dict[str, Any]:
        """The state of a schema, checked."""
        return schema.checked(self.raw(schema, numbers, where), known, where)

    def raw(self, schema: Schema, numbers: Any, where: str) -> dict[str, Any]:
        """Numbers and arrays put together; only their names are checked."""
        if not isinstance(numbers, dict):
            raise ModelFileError(f"{where} is missing")
        out: dict[str, Any] = {}
        for entry in schema.entries:
            path = f"{where}.{entry.name}"
            if isinstance(entry, Field) and not entry.is_number:
                out[entry.name] = self.array(path, entry.kind)
            elif isinstance(entry, Field):
                out[entry.name] = numbers.get(entry.name)
            else:
                inside = numbers.get(entry.name)
                out[entry.name] = None if inside is None else self.raw(entry.schema, inside, path)
        if unknown := set(numbers) - {entry.name for entry in schema.entries if not _is_array(entry)}:
            raise ModelFileError(f"{where} has unknown entries: {', '.join(sorted(map(str, unknown)))[:200]}")
        return out

    def array(self, path: str, kind: str) -> Any:
        """What stands in one place: an array, a CSR matrix, a list of names; None where there is nothing."""
        if f"{path}.data" in self._arrays:
            return Triple(*(self._taken(f"{path}.{name}") for name in Triple._fields))
        if f"{path}.T" in self._arrays:
            return self._taken(f"{path}.T").T
        if path not in self._arrays:
            return None
        value = self._taken(path)
        if kind == "labels":
            return _words(value, path)
        if kind == "names":
            return _names(value, path)
        return value

    def _taken(self, path: str) -> Array:
        if path not in self._arrays:
            raise ModelFileError(f"{path} is missing")
        return self._arrays.pop(path)


def copied(state: Any) -> Any:
    """A state whose arrays are its own."""
    if isinstance(state, dict):
        return {name: copied(value) for name, value in state.items()}
    if isinstance(state, np.ndarray):
        return np.array(state, order="K")
    if sp.issparse(state):
        own = sp.csr_matrix(state, copy=True)
        own.sum_duplicates()
        return own
    return state


def _is_array(entry: Any) -> bool:
    return isinstance(entry, Field) and not entry.is_number


def _words(value: Array, path: str) -> Array:
    """Words out of their code points; numbers as they are."""
    if value.ndim < 2:
        return value
    kind = {"u4": "U", "u1": "S"}.get(value.dtype.str[1:])
    if kind is None or value.ndim != 2 or not value.shape[1]:
        raise ModelFileError(f"{path} holds no words")
    if kind == "U" and value.max(initial=0) > 0x10FFFF:
        raise ModelFileError(f"{path} holds what is no character")
    return np.ascontiguousarray(value).view(f"{kind}{value.shape[1]}").reshape(len(value))


def _names(value: Array, path: str) -> list[str]:
    if value.dtype != np.uint8 or value.ndim != 1:
        raise ModelFileError(f"{path} holds no names")
    *names, rest = value.tobytes().decode("utf-8", "surrogatepass").split("\0")
    if rest:
        raise ModelFileError(f"{path} holds a name without an end")
    return names
