"""Column groups: which columns of X make up each modality."""

from typing import Any

import numpy as np

from ..._typing import Array


def column_groups(groups: Any, d: int, names: Any = None) -> dict[str, Array]:
    """{name: column numbers} of a `groups` parameter, for X with d columns, called `names` if it is a frame.

    In a dict slice(0, 0) is not a group: a ColumnTransformer lists in this way what it dropped.

    Examples
    --------
    >>> column_groups([("shape", slice(0, 2)), ("color", [2, -1])], 4)
    {'shape': array([0, 1]), 'color': array([2, 3])}
    """
    if groups is None:
        return {"all": np.arange(d)}
    if isinstance(groups, str | bytes) or not hasattr(groups, "__iter__"):
        raise TypeError(f"groups must be a list of column selections, a dict of them, or None; got {groups!r}.")
    if isinstance(groups, dict):
        pairs = [(name, part) for name, part in groups.items() if not _dropped(part)]
    else:
        pairs = [_named(k, group) for k, group in enumerate(groups)]
    if not pairs:
        raise ValueError("groups must contain at least one selection of columns, got none.")
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError(f"groups must have different names, got {[name for name, _ in pairs]}.")
    return {name: _numbers(name, selection, d, names) for name, selection in pairs}


def _dropped(selection: Any) -> bool:
    return isinstance(selection, slice) and selection == slice(0, 0)


def _named(k: int, group: Any) -> tuple[str, Any]:
    """A (name, columns) pair as it is; plain columns get a name from their place."""
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], str):
        return group[0], group[1]
    return f"group{k}", group


def _numbers(name: str, selection: Any, d: int, names: Any) -> Array:
    """Column numbers of one selection: a slice, a mask, numbers, or names."""
    try:
        numbers = np.arange(d)[_key(selection, d, names)]
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"groups: {name!r} must select columns of X, which has {d}, by a slice, a mask, numbers, or names if X is "
            f"a dataframe; got {selection!r} ({error})."
        ) from None
    if not len(numbers):
        raise ValueError(f"groups: {name!r} selects no columns.")
    if len(np.unique(numbers)) < len(numbers):
        raise ValueError(f"groups: {name!r} selects a column twice.")
    return numbers


def _key(selection: Any, d: int, names: Any) -> Any:
    if isinstance(selection, slice):
        return selection
    key = np.atleast_1d(np.asarray(selection))
    if key.dtype.kind in "UO":
        known = {} if names is None else {name: k for k, name in enumerate(names)}
        if missing := [str(name) for name in key.tolist() if name not in known]:
            raise ValueError(f"no column is called {missing[0]!r}")
        return np.array([known[name] for name in key.tolist()])
    if key.ndim != 1 or key.dtype.kind not in "iub" or (key.dtype.kind == "b" and len(key) != d):
        raise ValueError(f"an array of shape {key.shape} and dtype {key.dtype}")
    return key
