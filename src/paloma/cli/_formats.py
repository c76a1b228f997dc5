"""Readers for the table formats, chosen by file name."""

import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._optional import optional
from .._typing import Array
from ._columns import Batch, Plan, Wanted, bad_cell, check_finite, plan, refuse_drop
from ._csv_rows import csv_batches
from ._json_rows import jsonl_batches
from ._tail import Interrupt, follow, lines_of

SIZE = 8192
_TEXT = {".csv": csv_batches, ".tsv": csv_batches, ".jsonl": jsonl_batches, ".ndjson": jsonl_batches}
SVM = (".svm", ".svmlight", ".libsvm")
KNOWN = ".csv, .tsv, .jsonl, .npz, .npy, .parquet, .svm"


def batches(
    source: str,
    wanted: Wanted,
    *,
    labels: Path | None = None,
    size: int = SIZE,
    patience: float = 1.0,
    interrupt: Interrupt | None = None,
) -> Iterator[Batch | None]:
    """Batches of at most `size` rows of a file, of a data set given by name, or of standard input ("-").

    None stands for a pause of the stream.
    """
    if source == "-":
        return _standard_input(wanted, size, patience, interrupt or Interrupt())
    path = Path(source)
    suffix = path.suffix.lower()
    if not path.exists() and not suffix:
        return _data_set(source, wanted, size)
    if not path.is_file():
        raise FileNotFoundError(f"File {source} does not exist.")
    if suffix in _TEXT:
        return _TEXT[suffix](lines_of(path, size), wanted, source)
    if suffix == ".parquet":
        return _parquet(path, wanted, size)
    if suffix not in (".npz", ".npy", *SVM):
        raise ValueError(f"{source}: unknown file format. Known formats: {KNOWN}; - reads standard input.")
    read: Callable[..., tuple[Any, Any]] = _arrays if suffix in (".npz", ".npy") else _svmlight
    X, y = read(path, wanted)
    return _slices(X, read_labels(labels) if labels else y, wanted, size, source)


def read_all(source: str, wanted: Wanted, labels: Path | None = None) -> Batch:
    """A whole table."""
    parts = [batch for batch in batches(source, wanted, labels=labels) if batch is not None and len(batch)]
    if not parts:
        raise ValueError(f"{source} contains no rows.")
    if len({part.triplets for part in parts}) > 1:
        raise ValueError(f"{source} mixes rows and triplets.")
    first = parts[0]
    X = sp.vstack([p.X for p in parts], "csr") if sp.issparse(first.X) else np.concatenate([p.X for p in parts])
    y = None if first.y is None else np.concatenate([p.y for p in parts])
    weight = None if first.weight is None else np.concatenate([p.weight for p in parts if p.weight is not None])
    return Batch(X, y, first.names, 1, weight, first.triplets)


def _standard_input(wanted: Wanted, size: int, patience: float, interrupt: Interrupt) -> Iterator[Batch | None]:
    """JSON lines or CSV, depending on the first character."""
    blocks = follow(sys.stdin.buffer, size, patience, interrupt)
    where, first = "standard input", list[str]()
    for first in blocks:
        if any(line.strip() for line in first):
            break
        yield None
    form = jsonl_batches if "".join(first).lstrip().startswith("{") else csv_batches
    yield from form(chain([first], blocks), wanted, where)


def _data_set(name: str, wanted: Wanted, size: int) -> Iterator[Batch]:
    from ..datasets import load

    data = load(name)
    names = [str(column) for column in data.get("feature_names", ())] or None
    return _slices(data.data, data.target, wanted, size, name, names)


def _slices(X: Any, y: Any, wanted: Wanted, size: int, where: str, names: list[str] | None = None) -> Iterator[Batch]:
    refuse_drop(wanted, where)
    if y is None and wanted.needed:
        raise ValueError(f"{where} contains no labels. Provide them with --labels.")
    if y is not None and len(y) != X.shape[0]:
        raise ValueError(f"{where}: {len(y)} labels for {X.shape[0]} rows.")
    for a in range(0, X.shape[0], size):
        part = slice(a, a + size)
        rows = X[part]
        if not sp.issparse(rows):
            rows = rows.astype(np.result_type(rows.dtype, np.float32), copy=False)
            check_finite(rows, names or [str(k) for k in range(X.shape[1])], a + 1, where)
        yield Batch(rows, None if y is None else y[part], names, a + 1)


def _arrays(path: Path, wanted: Wanted) -> tuple[Any, Any]:
    """X of a .npy file; X and y of a .npz file."""
    try:
        if path.suffix.lower() == ".npy":
            X, y = np.load(path, allow_pickle=False, mmap_mode="r"), None
        else:
            with np.load(path, allow_pickle=False) as file:
                X, y = file["X"], file.get("y")
    except KeyError:
        raise ValueError(f"{path} contains no array X.") from None
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(f"{path}: expected a numeric array of shape (n, d), got shape {X.shape} and type {X.dtype}.")
    return X, y


def _svmlight(path: Path, wanted: Wanted) -> tuple[Any, Any]:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path), n_features=wanted.n_features)
    return X, y


def read_triplets(path: Path) -> Array:
    """(n, 3) row numbers of a .npy or .csv file."""
    if path.suffix.lower() == ".npy":
        return np.load(path, allow_pickle=False)
    try:
        return np.loadtxt(path, np.int64, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path}: expected three comma-separated row numbers per line ({error}).") from None


def arguments(batch: Batch, triplets: Path | None) -> dict[str, Any]:
    """A batch as learners take it, with the triplets of a file if there is one."""
    if triplets is None:
        return batch.arguments
    if batch.triplets:
        raise ValueError("--triplets requires a table of rows, but DATA contains triplets itself.")
    return {**batch.arguments, "triplets": read_triplets(triplets)}


def read_labels(path: Path) -> Array:
    """One label per row: a .npy array, or a text file with one label per line."""
    if path.suffix.lower() == ".npy":
        return np.load(path, allow_pickle=False).ravel()
    return np.array(path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n"))


def _parquet(path: Path, wanted: Wanted, size: int) -> Iterator[Batch]:
    file = optional("pyarrow.parquet", "parquet").ParquetFile(path)
    columns = plan(list(file.schema_arrow.names), wanted, str(path))
    row = 1
    for part in file.iter_batches(size, columns=[columns.names[k] for k in _used(columns)]):
        parts = [_column(part.column(name), name, row, str(path)) for name in columns.feature_names]
        named = all(values.ndim == 1 for values in parts)
        X, y = np.column_stack(parts), None
        names = columns.feature_names if named else [f"value {k}" for k in range(X.shape[1])]
        if columns.label is not None:
            label = columns.names[columns.label]
            y = _column(part.column(label), label, row, str(path), number=False)
        yield Batch(check_finite(X, names, row, str(path)), y, names if named else None, row)
        row += len(part)


def _stacked(vectors: Array, name: str, row: int, where: str) -> Array:
    for k, vector in enumerate(vectors):
        if len(vector) != len(vectors[0]):
            raise ValueError(
                f"{where}, row {row + k}, column {name!r}: found {len(vector)} values, expected {len(vectors[0])}."
            )
    return np.array(vectors.tolist(), np.float64)


def _used(columns: Plan) -> list[int]:
    return columns.features if columns.label is None else [*columns.features, columns.label]


def _column(column: Any, name: str, row: int, where: str, number: bool = True) -> Array:
    """One column as an array; nulls, and strings in a numeric column, are reported by row."""
    if column.null_count:
        raise bad_cell(where, row + column.is_null().to_pylist().index(True), name, None)
    values = column.to_numpy(zero_copy_only=False)
    if number and len(values) and isinstance(values[0], np.ndarray):  # vectors, e.g. embeddings
        return _stacked(values, name, row, where)
    if number and values.dtype.kind not in "biuf":
        raise bad_cell(where, row, name, values[0] if len(values) else "")
    return values.astype(np.float64) if number else np.array(values.tolist())
