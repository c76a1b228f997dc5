"""Columns of a table: features and label; and errors that name a row and a column."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import groupby
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._typing import Array

LABEL = "label"
_KINDS = {"i": "int", "u": "int", "b": "int", "f": "float", "U": "str", "S": "str"}


@dataclass
class Wanted:
    """The columns that a command reads from a table.

    label : name of the label column; `needed` says whether a table must have it, `read` whether anybody reads it.
    features : feature columns of the model, in its order; None: all columns except the label and those of `drop`.
    n_features : number of features of the model, if they have no names.
    ids : name of the column that holds ids; "": there is none.
    missing : what becomes of missing values: an "error", "drop" the row, or "keep" them as NaN.
    skip : how many invalid rows may be skipped. dense : whether sparse rows are made dense.
    n_missing, n_skipped : rows that were dropped and skipped so far.
    """

    label: str = LABEL
    needed: bool = True
    read: bool = field(default=True, kw_only=True)
    features: list[str] | None = None
    drop: tuple[str, ...] = ()
    n_features: int | None = None
    ids: str = ""
    missing: str = "error"
    skip: int = 0
    dense: bool = False
    n_missing: int = 0
    n_skipped: int = 0

    def told(self) -> str:
        """What was left out so far, in words; "" if nothing was."""
        parts = []
        if self.n_missing:
            parts.append(f"{self.n_missing:,} rows with missing values dropped")
        if self.n_skipped:
            parts.append(f"{self.n_skipped:,} invalid rows skipped")
        return ", ".join(parts)


@dataclass
class Plan:
    """Positions of the features and of the label in a table."""

    names: list[str]
    features: list[int]
    label: int | None
    ids: int | None = None

    @property
    def feature_names(self) -> list[str]:
        return [self.names[k] for k in self.features]


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


def names_in(text: str) -> tuple[str, ...]:
    """Column names from a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def plan(names: list[str], wanted: Wanted, where: str) -> Plan:
    """Find the wanted columns, or report the one that is missing; a column named "", as pandas' index, is none."""
    places = {name: k for k, name in enumerate(names)}
    if len(places) < len(names):
        repeated = min(name for k, name in enumerate(names) if places[name] != k)
        raise ValueError(f"{where}: column {repeated!r} occurs more than once.")
    label, dropped = places.get(wanted.label), {"", *wanted.drop, wanted.ids}
    if label is None and wanted.needed:
        raise ValueError(
            f"{where}: there is no label column {wanted.label!r}.{_meant(wanted.label, names)} Select it with --label. "
            f"Columns: {_listed(names)}."
        )
    if wanted.ids:
        check_column(wanted.ids, places, where, "--id")
    for name in wanted.drop:
        check_column(name, places, where, "--drop")
    features = wanted.features
    if features is None:
        features = [name for k, name in enumerate(names) if k != label and name not in dropped]
    missing = [name for name in features if name not in places]
    if missing and names == [str(k) for k in range(len(names))]:
        raise ValueError(
            f"{where} has no header, so that its columns have no names; those of the model do ({_listed(features)}). "
            "Add a first line with the names."
        )
    if missing:
        raise ValueError(
            f"{where}: column {missing[0]!r} of the model is missing.{_meant(missing[0], names)} "
            f"Columns: {_listed(names)}."
        )
    if not features:
        raise ValueError(f"{where}: there are no feature columns. Columns: {_listed(names)}.")
    ids = places.get(wanted.ids) if wanted.ids else None
    return Plan(names, [places[name] for name in features], label if wanted.read else None, ids)


def check_column(name: str, names: Collection[str], where: str, option: str) -> None:
    """Refuse an option that names a column which is not among `names`."""
    if name not in names:
        known = list(names)
        raise ValueError(
            f"{where}: {option}: there is no column {name!r}.{_meant(name, known)} Columns: {_listed(known)}."
        )


def refuse_drop(wanted: Wanted, where: str) -> None:
    """A table whose columns have no names."""
    if wanted.drop:
        raise ValueError(f"{where}: --drop: the columns have no names. Leave out --drop, or use a table with a header.")


def _listed(names: list[str]) -> str:
    if len(names) <= 12:
        return ", ".join(map(repr, names))
    return f"{', '.join(map(repr, names[:8]))}, ..., {', '.join(map(repr, names[-4:]))} ({len(names)} in total)"


def _meant(name: str, names: list[str]) -> str:
    """A guess at which column is meant; "" if none is like it."""
    lower = {other.strip().lower(): other for other in reversed(names)}
    close = get_close_matches(name.strip().lower(), lower, 1, 0.75)
    return f" Did you mean {lower[close[0]]!r}?" if close else ""


# How tables write that a value is missing.
_ABSENT = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})


def is_absent(text: Any) -> bool:
    return text is None or (isinstance(text, str) and text.strip().lower() in _ABSENT)


def settled(
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


class LabelType:
    """Type of the labels in text files: that of the classes of the model, or else of the first batch."""

    def __init__(self, word: str = "auto", classes: Array | None = None) -> None:
        self.word = word
        if word == "auto" and classes is not None and len(classes):
            self.word = _KINDS[classes.dtype.kind]

    def of(self, batch: Batch, where: str) -> Any:
        """The labels of a batch, all of one type."""
        if batch.y is None:
            return None
        labels = np.asarray(batch.y)
        if labels.dtype.kind not in _KINDS:
            raise ValueError(f"{where}: labels must be numbers or strings, got {labels.dtype}.")
        if self.word == "auto":
            self.word = "int" if labels.dtype.kind in "iub" or _all_whole(labels) else _KINDS[labels.dtype.kind]
        if self.word == "str":
            return labels.astype(str)
        try:
            return labels.astype(np.int64 if self.word == "int" else np.float64)
        except (ValueError, OverflowError):
            return self._complain(batch, labels, where)

    def _complain(self, batch: Batch, labels: Array, where: str) -> Any:
        for k, label in enumerate(labels.reshape(len(batch), -1).tolist()):
            for text in label:
                if not is_number(text):
                    raise ValueError(
                        f"{where}, row {batch.first + k}: label {text!r} is not a number, but earlier labels are. "
                        "Use --label-type str from the start."
                    )
        raise ValueError(f"{where}: the labels do not match --label-type {self.word}.")


def _all_whole(labels: Array) -> bool:
    """Whether every label is written as an integer is: 007 is a name, and another one than 7."""
    if labels.dtype.kind == "f":
        return bool((labels == np.floor(labels)).all())
    words = labels.ravel().tolist()
    return all(word.removeprefix("-").isdecimal() and str(int(word)) == word for word in words)
