"""A tree of objects as JSON and arrays, and back.

None, bool, int, finite float, str and list are themselves in JSON. Everything else is an object of one entry, named
after its kind: {"tuple": [...]}, {"array": {...}}, {"object": {...}} ... Arrays and objects that occur twice are held
once; {"same": k} is the k-th of them, in the order in which they are complete.
"""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..exceptions import ModelFileError
from . import _random
from ._container import NAMES
from ._registry import class_of, name_of
from ._state import restored, state_of

Array = NDArray[Any]
_SPARSE = {"csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}
# What a file that makes no sense may raise on its way.
_WRONG = (ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError)
_SCALARS = {np.dtype(kind).str: np.dtype(kind).type for kind in "?bBhHiIqQefd"}


class Writer:
    """Takes a model apart; `arrays` then holds what is too large for JSON."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []  # keeps ids from being used again
        self._open: set[int] = set()

    def node(self, value: Any, where: str) -> Any:
        """JSON of one value; `where` names it in errors."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list:
            return [self.node(item, f"{where}[{k}]") for k, item in enumerate(value)]
        if kind in (tuple, set, slice, dict):
            return self._collection(kind, value, where)
        if isinstance(value, np.generic) and value.dtype.str in _SCALARS:
            return {"scalar": [value.dtype.str, self.node(value.item(), where)]}
        if kind is np.str_:
            return {"scalar": ["str", str(value)]}
        if isinstance(value, np.dtype) and value in NAMES:
            return {"dtype": value.str}
        return self._shared(value, where)

    def _collection(self, kind: type, value: Any, where: str) -> Any:
        if kind is dict:
            pairs = [[self.node(k, where), self.node(v, f"{where}[{k!r}]")] for k, v in value.items()]
            return {"dict": pairs}
        items = [value.start, value.stop, value.step] if kind is slice else value
        items = sorted(items) if kind is set else list(items)
        return {kind.__name__: self.node(items, where)}

    def _shared(self, value: Any, where: str) -> Any:
        """Something that may occur again: an array, a sparse matrix, a source of randomness, an object."""
        if id(value) in self._known:
            return {"same": self._known[id(value)]}
        if id(value) in self._open:
            raise ModelFileError(f"{where} contains itself and cannot be saved.")
        self._open.add(id(value))
        out = self._once(value, where)
        self._known[id(value)] = len(self._known)
        self._kept.append(value)
        return out

    def _once(self, value: Any, where: str) -> Any:
        kind = type(value)
        if kind is np.ndarray:
            return self._array(value, where)
        if kind in _SPARSE.values():
            parts = {name: self.node(getattr(value, name), where) for name in ("data", "indices", "indptr")}
            return {"sparse": {"kind": kind.__name__, "shape": [int(n) for n in value.shape], **parts}}
        if kind in (np.random.Generator, np.random.RandomState):
            return {"random": [kind.__name__, self.node(_random.state_of(value, where), where)]}
        name = name_of(value)
        if name is None:
            raise ModelFileError(f"{where} is {_described(value)}, which a model file cannot hold.")
        state = state_of(value)
        return {"object": {"class": name, "fields": {k: self.node(v, f"{where}.{k}") for k, v in state.items()}}}

    def _array(self, value: Array, where: str) -> Any:
        if value.dtype.kind == "O":
            items = [self.node(item, where) for item in value.ravel().tolist()]
            return {"objects": {"shape": list(value.shape), "items": items}}
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        turned = value.T if order == "F" else value
        plain: Any = np.ascontiguousarray(turned).reshape(turned.shape)
        text = plain.dtype.str[1:] if plain.dtype.kind in "US" else ""
        if text:
            plain = plain.reshape(-1).view(np.uint32 if text[0] == "U" else np.uint8)
        plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
        if plain.dtype not in NAMES:
            raise ModelFileError(f"{where} is an array of {value.dtype}, which a model file cannot hold.")
        name = str(len(self.arrays))
        self.arrays[name] = plain
        entry: dict[str, Any] = {"name": name, "order": order, "writeable": bool(value.flags.writeable)}
        return {"array": entry | ({"text": text, "shape": list(value.shape)} if text else {})}


def _described(value: Any) -> str:
    if isinstance(value, type) or (callable(value) and not hasattr(value, "get_params")):
        return f"the callable {getattr(value, '__name__', value)!r}"
    return f"a {type(value).__module__}.{type(value).__name__}"


class Reader:
    """Puts a model together again. Whatever is wrong is a ModelFileError."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self._arrays, self._unused, self._known = arrays, set(arrays), list[Any]()

    def whole(self, node: Any) -> Any:
        """The model of a header; every array of the file must be part of it."""
        try:
            model = self.node(node)
        except ModelFileError:
            raise
        except _WRONG as error:
            raise ModelFileError(f"{type(error).__name__}: {error}") from None
        if self._unused:
            raise ModelFileError(f"{len(self._unused)} arrays belong to nothing")
        return model

    def node(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.node(item) for item in node]
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        read = getattr(self, f"_read_{kind}", None) if isinstance(kind, str) else None
        if read is None:
            raise ModelFileError(f"unknown kind of entry {kind[:80]!r}")
        value = read(content)
        if kind in ("array", "objects", "sparse", "random", "object"):
            self._known.append(value)
        return value

    def _read_same(self, content: Any) -> Any:
        if type(content) is not int or not 0 <= content < len(self._known):
            raise ModelFileError("an entry refers to one that does not come before it")
        return self._known[content]

    def _read_float(self, content: Any) -> float:
        return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[content]

    def _read_tuple(self, content: Any) -> tuple[Any, ...]:
        return tuple(self._list(content))

    def _read_set(self, content: Any) -> set[Any]:
        return set(self._list(content))

    def _read_slice(self, content: Any) -> slice:
        return slice(*self._list(content))

    def _read_dict(self, content: Any) -> dict[Any, Any]:
        return {self.node(key): self.node(value) for key, value in content}

    def _list(self, content: Any) -> list[Any]:
        if not isinstance(content, list):
            raise ModelFileError("a list is missing")
        return [self.node(item) for item in content]

    def _read_scalar(self, content: Any) -> Any:
        dtype, value = content
        return np.str_(value) if dtype == "str" else _SCALARS[dtype](self.node(value))

    def _read_dtype(self, content: Any) -> np.dtype[Any]:
        return next(dtype for dtype in NAMES if dtype.str == content)

    def _read_array(self, content: Any) -> Array:
        array = self._arrays[content["name"]]
        self._unused.discard(content["name"])
        if text := content.get("text"):
            array = _text(array, text, content["shape"], content["order"])
        if content["order"] == "F":
            array = array.T
        array.flags.writeable = content["writeable"] is True
        return array

    def _read_objects(self, content: Any) -> Array:
        out = np.empty(len(content["items"]), object)
        out[:] = self._list(content["items"])
        if any(isinstance(item, list | dict | np.ndarray) for item in out):
            raise ModelFileError("an array holds what is no label")
        return out.reshape(content["shape"])

    def _read_sparse(self, content: Any) -> Any:
        parts = tuple(self.node(content[name]) for name in ("data", "indices", "indptr"))
        out = _SPARSE[content["kind"]](parts, shape=tuple(content["shape"]))
        out.check_format(full_check=True)
        return out

    def _read_random(self, content: Any) -> Any:
        name, state = content
        return _random.restored(name, self.node(state))

    def _read_object(self, content: Any) -> Any:
        fields = {name: self.node(value) for name, value in content["fields"].items()}
        return restored(class_of(content["class"]), fields)


def _text(array: Array, dtype: str, shape: list[int], order: str) -> Array:
    """Strings out of their code points."""
    if not (dtype[0] in "US" and int(dtype[1:]) > 0 and array.dtype == (np.uint32 if dtype[0] == "U" else np.uint8)):
        raise ModelFileError(f"an array has the unknown type {dtype[:80]!r}")
    if dtype[0] == "U" and array.size and array.max() > 0x10FFFF:
        raise ModelFileError("an array of strings holds what is no character")
    return array.view(dtype).reshape(shape[::-1] if order == "F" else shape)
