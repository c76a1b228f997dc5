"""Parameters and other small values as JSON, and back.

None, booleans, whole numbers of 64 bits, finite floats, strings and lists are themselves. Everything else is an object
of one entry, named after its kind: {"tuple": [...]}, {"dict": [[key, value], ...]}, {"slice": [start, stop, step]},
{"float": "inf"}, {"bytes": "00ff"}, {"objects": [...]} (an array of Python objects). {"array": "numbers"}, "words",
"random" (a RandomState), "names" and "list" (long lists of strings, and of whole numbers) stand among the arrays of the
file under the name of their place.
"""

import math
from typing import Any

import numpy as np

from ..exceptions import ModelFileError
from ._flat import Reader, Writer
from ._random import legacy_of, legacy_state

# Longer lists of one kind are arrays.
LONG = 64
_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def written(writer: Writer, value: Any, where: str) -> Any:
    """JSON of a value; anything but plain data is refused, named by where it stands."""
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int and -(2**63) <= value < 2**64:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is list and len(value) > LONG and {type(item) for item in value} in ({int}, {str}):
        names = type(value[0]) is str
        writer.array(value if names else np.array(value, np.int64), where)
        return {"array": "names" if names else "list"}
    if kind in (list, tuple):
        items = [written(writer, item, f"{where}.{k}") for k, item in enumerate(value)]
        return items if kind is list else {"tuple": items}
    if kind is dict:
        pairs = enumerate(value.items())
        return {"dict": [[written(writer, k, where), written(writer, v, f"{where}.{n}")] for n, (k, v) in pairs]}
    if kind is slice:
        return {"slice": [written(writer, part, where) for part in (value.start, value.stop, value.step)]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is np.ndarray and value.dtype.kind == "O" and value.ndim == 1:
        return {"objects": [written(writer, item, where) for item in value.tolist()]}
    if kind is np.random.RandomState:
        writer.array(legacy_state(value, where), where)
        return {"array": "random"}
    if kind is np.ndarray and value.dtype.kind != "O" and (value.ndim == 1 or value.dtype.kind not in "US"):
        writer.array(np.array(value, order="K"), where)
        return {"array": "words" if value.dtype.kind in "US" else "numbers"}
    raise ModelFileError(f"{where} is {described(value)}, which a model file cannot hold.")


def described(value: Any) -> str:
    """What a value is, for errors."""
    if isinstance(value, type) or (callable(value) and not hasattr(value, "get_params")):
        return f"the callable {getattr(value, '__name__', value)!r}"
    return f"a {type(value).__module__}.{type(value).__name__}"


def read(reader: Reader, node: Any, where: str) -> Any:
    """The value of JSON that `written` gave."""
    if isinstance(node, list):
        return [read(reader, item, f"{where}.{k}") for k, item in enumerate(node)]
    if not isinstance(node, dict):
        if isinstance(node, int) and not -(2**63) <= node < 2**64:
            raise ModelFileError(f"{where} is too large")
        return node
    ((kind, content),) = node.items()
    if kind == "array":
        return _array(reader, content, where)
    if kind == "float":
        return _FLOATS[content]
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "dict":
        return _dict(reader, content, where)
    if kind not in ("tuple", "slice", "objects") or not isinstance(content, list):
        raise ModelFileError(f"{where} is of the unknown kind {kind[:80]!r}")
    items = [read(reader, item, f"{where}.{k}") for k, item in enumerate(content)]
    if kind == "tuple":
        return tuple(items)
    if kind == "slice":
        return slice(*items)
    if not all(isinstance(item, str | int | float | bool | None) for item in items):
        raise ModelFileError(f"{where} holds what is no word")
    out = np.empty(len(items), object)
    out[:] = items
    return out


def _dict(reader: Reader, content: Any, where: str) -> dict[Any, Any]:
    if not isinstance(content, list) or not all(isinstance(item, list) and len(item) == 2 for item in content):
        raise ModelFileError(f"{where} is no list of pairs")
    out = {read(reader, key, where): read(reader, value, f"{where}.{k}") for k, (key, value) in enumerate(content)}
    if len(out) != len(content):
        raise ModelFileError(f"{where} has a key twice")
    return out


def _array(reader: Reader, kind: Any, where: str) -> Any:
    found = reader.array(where, {"words": "labels", "names": "names"}.get(str(kind), ""))
    if kind == "names" and isinstance(found, list):
        return found
    if not isinstance(found, np.ndarray) or kind not in ("words", "numbers", "random", "list"):
        raise ModelFileError(f"{where} is no array")
    if kind == "random":
        return legacy_of(found)
    if kind == "list" and (found.dtype != np.int64 or found.ndim != 1):
        raise ModelFileError(f"{where} is no list of whole numbers")
    return found.tolist() if kind == "list" else found
