"""Texts and their labels from a table."""

import csv
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from .._optional import optional
from ._columns import check_column
from ._json_rows import json_object
from ._options import LABEL
from ._tail import lines_of, suffix_of

_LINES = 8192


def read_texts(path: Path, text: str, label: str | None) -> tuple[list[str], list[Any] | None]:
    """The column of texts, and that of labels if there is one; `label` None: "label" if the table has it."""
    suffix = suffix_of(path)
    if suffix not in _ROWS:
        raise ValueError(f"{path}: texts are read from .csv, .tsv, .jsonl (each also with .gz), .parquet or .feather.")
    if not path.is_file():
        raise FileNotFoundError(f"File {path} does not exist.")
    texts, labels, names = list[str](), list[Any](), list[str]()
    for number, row in enumerate(_ROWS[suffix](path), 1):
        if not names:
            names = list(row)
            check_column(text, names, str(path), "--text")
            label = label or (LABEL if LABEL in names else None)
            if label is not None:
                check_column(label, names, str(path), "--label")
        if row.get(text) is None:
            raise ValueError(f"{path}, row {number}, column {text!r}: the text is missing.")
        if label is not None and row.get(label) in (None, ""):
            raise ValueError(f"{path}, row {number}, column {label!r}: the label is missing.")
        texts.append(str(row[text]))
        labels.append(None if label is None else row[label])
    if not texts:
        raise ValueError(f"{path} contains no rows.")
    return texts, None if label is None else labels


def _lines(path: Path) -> Iterator[str]:
    return chain.from_iterable(lines_of(path, _LINES))


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    yield from csv.DictReader(_lines(path), delimiter="\t" if ".tsv" in path.suffixes else ",")


def _jsonl(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_lines(path), 1):
        yield json_object(line, number, str(path))


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    for part in optional("pyarrow.parquet", "parquet").ParquetFile(path).iter_batches(_LINES):
        yield from part.to_pylist()


def _feather(path: Path) -> Iterator[dict[str, Any]]:
    for part in optional("pyarrow.feather", "parquet").read_table(path).to_batches(_LINES):
        yield from part.to_pylist()


_ROWS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    ".csv": _csv, ".tsv": _csv, ".jsonl": _jsonl, ".ndjson": _jsonl,
    ".parquet": _parquet, ".feather": _feather, ".arrow": _feather,
}  # fmt: skip
