"""Labels of a table: files of them, and their type."""

from pathlib import Path
from typing import Any

import numpy as np

from .._typing import Array
from ._batches import Batch, is_number

_KINDS = {"i": "int", "u": "int", "b": "int", "f": "float", "U": "str", "S": "str"}


def read_labels(path: Path) -> Array:
    """One label per row: a .npy array, or a text file with one label per line."""
    if path.suffix.lower() == ".npy":
        return np.load(path, allow_pickle=False).ravel()
    return np.array(path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n"))


class LabelType:
    """Type of the labels in text files: that of the classes of the model, or else of the first batch."""

    def __init__(self, word: str = "auto", classes: Array | None = None) -> None:
        if word not in (words := ("auto", "int", "float", "str")):
            raise ValueError(f"--label-type must be one of {', '.join(words)}, got {word!r}.")
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
