"""What a model file holds of an object: fields with names, kinds, shapes that depend on each other, and ranges.

A state is a dict of numbers, arrays, CSR matrices and further states. A `Schema` says what a sound one looks like, and
`checked` refuses everything else: the same check is made of a state before it is written and after it was read, so that
whatever is built from one need not doubt it. Extents have names: the first field that mentions one fixes it for the
fields and parts after it, a whole number is an extent of its own name, and `known` gives those that come from
elsewhere, such as d, the number of features.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._typing import Array

Known = Mapping[str, Any]
# A number in a state, by its kind.
NUMBERS: dict[str, type] = {"int": int, "float": float, "flag": bool}
# Of a number without a range of its own: room to count on.
LARGEST_COUNT = 2**53
# Of rows: no learner takes larger ones, since the squares of squares would leave the precision.
LARGEST_VALUE = 1e75


class Triple(NamedTuple):
    """A CSR matrix of which the width is not known yet."""

    data: Array
    indices: Array
    indptr: Array


@dataclass(frozen=True)
class Field:
    """A number (`shape` is ""), or an array with extents by name ("k d d"), or numbers; "n<=c" is n, at most c.

    kind : "int", "float" (finite), "flag"; of arrays a NumPy code such as "i8", or "real" (the precision of the model,
        `known["real"]`), "floats" (either precision); "rows" (in the precision of the model, CSR if `known["sparse"]`),
        "csr" (float64), "map" (dense or CSR); "labels" (words or numbers, all different), "names" (a list of strings).
    low, high : the range, both included. below : the extent that all values are smaller than.
    any_order : an array may be Fortran-ordered; all others are C-ordered, as compiled loops take them.
    """

    name: str
    kind: str
    shape: str = ""
    low: float | None = None
    high: float | None = None
    below: str = ""
    optional: bool = False
    any_order: bool = False

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS and not self.shape


@dataclass(frozen=True)
class Part:
    """A state inside a state."""

    name: str
    schema: "Schema"
    optional: bool = False


class Schema:
    """Fields and parts, in the order in which they are checked; `rule` gives a sentence on what is wrong, or None."""

    def __init__(self, *entries: Field | Part, rule: Callable[[dict[str, Any]], str | None] | None = None) -> None:
        self.entries, self.rule = entries, rule

    def checked(self, state: Any, known: Known, where: str = "") -> dict[str, Any]:
        """A state in which everything is as it should be, in the order of the schema; anything else is a ValueError."""
        if not isinstance(state, dict):
            raise ValueError(f"{where or 'the state'} is missing")
        names = {entry.name for entry in self.entries}
        if wrong := sorted(map(str, names ^ set(state))):
            raise ValueError(f"{where or 'the state'} has missing or unknown entries: {', '.join(wrong)[:200]}")
        extents, out = dict(known), dict[str, Any]()
        for entry in self.entries:
            path = f"{where}.{entry.name}" if where else entry.name
            value = state[entry.name]
            if value is None:
                if not entry.optional:
                    raise ValueError(f"{path} is missing")
                out[entry.name] = None
            elif isinstance(entry, Field):
                out[entry.name] = _field(entry, value, extents, path)
                if entry.kind == "int":
                    extents[entry.name] = out[entry.name]
            else:
                out[entry.name] = entry.schema.checked(value, extents, path)
        if self.rule is not None and (sentence := self.rule(out)):
            raise ValueError(f"{where or 'the state'}: {sentence}")
        return out


def _field(field: Field, value: Any, extents: dict[str, Any], path: str) -> Any:
    if field.is_number:
        return _number(field, value, extents, path)
    if field.kind == "names":
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise ValueError(f"{path} must be a list of names")
        _fit(field, (len(value),), extents, path)
        return value
    if field.kind in ("rows", "csr", "map"):
        sparse = isinstance(value, Triple) or sp.issparse(value)
        if field.kind != "map" and sparse != (field.kind == "csr" or extents.get("sparse", sparse)):
            raise ValueError(f"{path} must be {'dense' if sparse else 'a CSR matrix'}")
        if sparse:
            return _csr(field, value, extents, path)
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{path} must be an array")
    _fit(field, value.shape, extents, path)
    if field.kind == "labels":
        return _labels(value, path)
    allowed = (np.float32, np.float64) if field.kind == "floats" else (_code(field, extents),)
    if value.dtype not in allowed:
        raise ValueError(f"{path} has the wrong type {value.dtype}")
    if not (value.flags.c_contiguous or (field.any_order and value.flags.f_contiguous)):
        raise ValueError(f"{path} has its values in the wrong order")
    _range(field, value, extents, path)
    return value


def _code(field: Field, extents: Known) -> Any:
    if field.kind == "csr":
        return np.dtype(np.float64)
    return extents["real"] if field.kind in ("real", "rows", "map") else np.dtype(field.kind)


def _number(field: Field, value: Any, extents: Known, path: str) -> Any:
    wanted = NUMBERS[field.kind]
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is not wanted:
        raise ValueError(f"{path} must be of type {wanted.__name__}, got {str(value)[:80]!r}")
    if wanted is not bool:
        _range(field, value, extents, path)
    return value


def _range(field: Field, values: Any, extents: Known, path: str) -> None:
    """Refuse values that are not finite, or outside their range."""
    if isinstance(values, np.ndarray) and (not values.size or values.dtype == bool):
        return
    least, most = (values, values) if isinstance(values, int | float) else (values.min().item(), values.max().item())
    if not -np.inf < least <= most < np.inf:  # a NaN is the least and the largest
        raise ValueError(f"{path} holds values that are not finite")
    if isinstance(values, int) and field.high is None and abs(values) > LARGEST_COUNT:
        raise ValueError(f"{path} is too large")
    if field.low is not None and least < field.low:
        raise ValueError(f"{path} must be at least {field.low}, got {least}")
    if field.high is not None and most > field.high:
        raise ValueError(f"{path} must be at most {field.high}, got {most}")
    if field.kind == "rows" and not -LARGEST_VALUE < least <= most < LARGEST_VALUE:
        raise ValueError(f"{path} holds values that are too large")
    if field.below and not most < extents[field.below]:
        raise ValueError(f"{path} must be less than {extents[field.below]}, got {most}")


def _fit(field: Field, shape: tuple[int, ...], extents: dict[str, Any], path: str) -> None:
    """Compare a shape with the extents; those that are not known yet are now."""
    names = field.shape.split()
    if len(shape) != len(names):
        raise ValueError(f"{path} must have shape ({', '.join(names)}), got {shape}")
    for token, n in zip(names, shape, strict=True):
        name, _, most = token.partition("<=")
        wanted = int(name) if name.isdigit() else extents.setdefault(name, n)
        if n != wanted:
            raise ValueError(f"{path} must have shape ({', '.join(names)}) with {name} = {wanted}, got {shape}")
        if most and n > (limit := int(most) if most.isdigit() else extents[most]):
            raise ValueError(f"{path} must have at most {limit} entries, got {n}")


def _labels(value: Array, path: str) -> Array:
    if value.dtype.kind not in "USiufb" or (value.dtype.kind == "f" and not np.isfinite(value).all()):
        raise ValueError(f"{path} must hold words, or finite numbers")
    if len(np.unique(value)) < len(value):
        raise ValueError(f"{path} holds the same label twice")
    return value


def _csr(field: Field, value: Any, extents: dict[str, Any], path: str) -> sp.csr_matrix:
    """A CSR matrix with sorted indices, each once in a row."""
    width = int(value.shape[1] if sp.issparse(value) else extents[field.shape.split()[1]])
    data, indices, indptr = (np.asarray(getattr(value, name)) for name in Triple._fields)
    if any(part.ndim != 1 for part in (data, indices, indptr)) or not len(indptr):
        raise ValueError(f"{path} is no CSR matrix: its parts must have one dimension")
    if data.dtype != _code(field, extents) or any(part.dtype.str not in ("<i4", "<i8") for part in (indices, indptr)):
        raise ValueError(f"{path} has the wrong type {data.dtype}, {indices.dtype}, {indptr.dtype}")
    _fit(field, (len(indptr) - 1, width), extents, path)
    lengths = np.diff(indptr)
    if indptr[0] != 0 or indptr[-1] != len(indices) or len(data) != len(indices) or lengths.min(initial=0) < 0:
        raise ValueError(f"{path} is no CSR matrix: its rows do not fit its values")
    if len(indices) and (indices.min() < 0 or indices.max() >= width):
        raise ValueError(f"{path} has columns outside 0 to {width - 1}")
    firsts = np.zeros(len(indices) + 1, bool)
    firsts[indptr] = True
    if (np.diff(indices) <= 0)[~firsts[1:-1]].any():
        raise ValueError(f"{path} is no CSR matrix: its columns are not sorted")
    _range(field, data, extents, path)
    return value if sp.issparse(value) else sp.csr_matrix((data, indices, indptr), (len(indptr) - 1, width))


def ascending(*columns: Array) -> bool:
    """Whether rows of these columns are in lexicographic order, each once."""
    if not len(columns[0]):
        return True
    larger, equal = np.zeros(len(columns[0]) - 1, bool), np.ones(len(columns[0]) - 1, bool)
    for column in columns:
        larger |= equal & (column[1:] > column[:-1])
        equal &= column[1:] == column[:-1]
    return bool(larger.all())
