"""Columns of a table: which are features, which is the label; and errors that name a row and a column."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LABEL = "label"
_KINDS = {"i": "int", "u": "int", "b": "int", "f": "float", "U": "str", "S": "str"}


@dataclass
class Wanted:
    """What a command wants of a table.

    label : the label's column; `needed` says whether a table must have it.
    features : the columns a model knows, in its order; None takes all others but those of `drop`.
    """

    label: str = LABEL
    needed: bool = True
    features: list[str] | None = None
    drop: tuple[str, ...] = ()


@dataclass
class Plan:
    """Positions of the features and of the label in a table of these columns."""

    names: list[str]
    features: list[int]
    label: int | None

    @property
    def feature_names(self) -> list[str]:
        return [self.names[k] for k in self.features]


@dataclass
class Batch:
    """Some rows of a table: features, labels as they were written, and the number of the first row, counted from 1.

    Triplets have points (n, 3, d) instead of rows, the classes of positive and negative (n, 2), and weights.
    """

    X: Any
    y: Any = None
    names: list[str] | None = None
    first: int = 1
    weight: Array | None = None
    triplets: bool = False

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def classes(self) -> Any:
        """Classes of triplets as learners take them, (n, 3); the anchor's is never read."""
        return None if self.y is None else self.y[:, [0, 0, 1]]


def plan(names: list[str], wanted: Wanted, where: str) -> Plan:
    """Find the wanted columns, or say which is missing."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{where}: the column {repeated[0]!r} occurs more than once.")
    label = names.index(wanted.label) if wanted.label in names else None
    if label is None and wanted.needed:
        raise ValueError(
            f"{where}: no label column {wanted.label!r}; name it with --label. The columns are {_listed(names)}."
        )
    features = wanted.features
    if features is None:
        features = [name for k, name in enumerate(names) if k != label and name not in wanted.drop]
    missing = [name for name in features if name not in names]
    if missing:
        raise ValueError(f"{where}: no column {missing[0]!r}, which the model knows. The columns are {_listed(names)}.")
    if not features:
        raise ValueError(f"{where}: no feature columns beside the label. The columns are {_listed(names)}.")
    return Plan(names, [names.index(name) for name in features], label)


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:12]))
    return shown if len(names) <= 12 else f"{shown}, ... ({len(names)} in all)"


def bad_cell(where: str, row: int, column: str, text: Any) -> ValueError:
    """The error about one cell."""
    if text is None or (isinstance(text, str) and not text.strip()):
        what = "the value is missing"
    elif isinstance(text, int | float) or _is_number(text):
        what = f"{text} is not finite"
    else:
        what = f"{text!r} is not a number; leave the column out with --drop, or name it with --label"
    return ValueError(f"{where}, row {row}, column {column!r}: {what}.")


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def check_finite(X: Array, names: list[str], first: int, where: str) -> Array:
    """Refuse NaN and infinities, by row and column."""
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise bad_cell(where, first + int(row), names[column], float(X[row, column]))
    return X


class LabelType:
    """Labels of text files as numbers or words: as the model has them, else as the first batch shows them."""

    def __init__(self, word: str = "auto", classes: Array | None = None) -> None:
        self.word = word
        if word == "auto" and classes is not None and len(classes):
            self.word = _KINDS[classes.dtype.kind]

    def of(self, batch: Batch, where: str) -> Any:
        """The labels of a batch, all of one type."""
        if batch.y is None:
            return None
        labels = np.asarray(batch.y)
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
                if not _is_number(text):
                    raise ValueError(
                        f"{where}, row {batch.first + k}: the label {text!r} is a word, those before were numbers; "
                        "use --label-type str from the start."
                    )
        raise ValueError(f"{where}: the labels do not fit --label-type {self.word}.")


def _all_whole(labels: Array) -> bool:
    """Whether every label is written as a whole number."""
    if labels.dtype.kind == "f":
        return bool((labels == np.floor(labels)).all())
    return all(label.removeprefix("-").isdecimal() for label in labels.ravel().tolist())
