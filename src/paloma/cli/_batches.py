"""Some rows of a table; and errors that name a row and a column."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._typing import Array
from ._columns import Wanted

# How tables write that a value is missing.
_ABSENT = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})


@dataclass
class Batch:
    """Some rows of a table: features, labels as written, and the number of the first row, counted from 1.

    Triplets have points (n, 3, d) instead of rows, the classes of positive and negative (n, 2), and weights.
    """

    X: Any
    y: Any = None
    names: list[str] | None = None
    first: int = 1
    weight: Array | None = None
    triplets: bool = False
    ids: Array | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def arguments(self) -> dict[str, Any]:
        """The batch as `fit` and `partial_fit` of a learner take it."""
        if not self.triplets:
            return {"X": self.X, "y": self.y}
        return {"X": None, "y": self.classes, "triplets": self.X, "triplet_weight": self.weight}

    @property
    def classes(self) -> Any:
        """Classes of triplets as learners take them, (n, 3); the anchor's is never read."""
        return None if self.y is None else self.y[:, [0, 0, 1]]


def is_absent(text: Any) -> bool:
    return text is None or (isinstance(text, str) and text.strip().lower() in _ABSENT)


def cleaned(
    X: Array, y: Any, ids: Any, names: list[str], first: int, where: str, wanted: Wanted, named: bool = True
) -> Batch:
    """A batch without what may not stay: infinity is refused, missing values are treated as wanted.

    names : what columns are called in messages, and if `named` in the batch as well.
    """
    batch = Batch(X, y, names if named else None, first, ids=ids)
    if wanted.missing == "error":
        check_finite(X, names, first, where)
        return batch
    absent = np.isnan(X)
    check_finite(np.where(absent, 0.0, X), names, first, where)
    gone = absent.any(axis=1)
    if y is not None and np.asarray(y).dtype.kind in "US":
        gone |= np.isin(np.char.lower(np.char.strip(np.asarray(y, str))), ["", "na", "n/a", "nan", "null", "?"])
    if wanted.missing == "drop" and gone.any():
        wanted.n_missing += int(gone.sum())
        batch.X, batch.y, batch.ids = (None if part is None else part[~gone] for part in (X, y, ids))
    return batch


def tolerant(parse: Callable[[list[str], int], Any], lines: list[str], row: int, wanted: Wanted) -> list[Any]:
    """What `parse` makes of the lines; if it refuses, and rows may be skipped, of each line that it does not refuse."""
    try:
        return [parse(lines, row)]
    except ValueError:
        if wanted.n_skipped >= wanted.skip:
            raise
    parts = []
    for k, line in enumerate(lines):
        try:
            parts.append(parse([line], row + k))
        except ValueError:
            if wanted.n_skipped >= wanted.skip:
                raise
            wanted.n_skipped += 1
    return parts


def joined(parts: list[Batch]) -> list[Batch]:
    """Batches of the same kind that follow each other as one."""
    out = list[Batch]()
    for (triplets, _), run in groupby(parts, key=lambda part: (part.triplets, part.names)):
        some = list(run)
        first = some[0]

        def together(name: str, some: list[Batch] = some) -> Any:
            arrays = [getattr(part, name) for part in some]
            if arrays[0] is None or len(arrays) == 1:
                return arrays[0]
            return sp.vstack(arrays, "csr") if sp.issparse(arrays[0]) else np.concatenate(arrays)

        arrays = {name: together(name) for name in ("X", "y", "weight", "ids")}
        out.append(Batch(names=first.names, first=first.first, triplets=triplets, **arrays))
    return out


def bad_cell(
    where: str, row: int, column: str, text: Any, remedy: str = "fit and update accept --missing drop or mean"
) -> ValueError:
    """The error about one cell; remedy : what helps if there is no value."""
    if text is None or (isinstance(text, str) and not text.strip()):
        what = f"the value is missing; {remedy}"
    elif isinstance(text, int | float) or is_number(text):
        what = f"{text} is not finite"
    elif is_number(str(text).replace(",", ".")):
        what = f"{text!r} has a decimal comma; write decimal points"
    else:
        what = f"{text!r} is not a number; ignore the column with --drop, or select it as the label with --label"
    return ValueError(f"{where}, row {row}, column {column!r}: {what}.")


def is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def check_finite(X: Array, names: list[str], first: int, where: str) -> None:
    """Reject NaN and infinity, naming row and column."""
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise bad_cell(where, first + int(row), names[column], float(X[row, column]))
