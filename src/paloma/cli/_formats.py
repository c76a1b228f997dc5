"""Readers for the table formats, chosen by file name."""

import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
import typer

from .._optional import optional
from .._progress import Pace
from .._typing import Array
from ._batches import Batch, bad_cell, cleaned, joined
from ._columns import Plan, Wanted, check_column, plan, refuse_drop
from ._csv_rows import csv_batches
from ._json_rows import jsonl_batches
from ._labels import read_labels
from ._report import size_of, visible
from ._tail import Interrupt, follow, lines_of, suffix_of

SIZE = 8192
# Seconds before the first line about reading, and between further ones; rows from which on `update` is the better way.
PATIENCE, PAUSE, MANY = 1.0, 5.0, 200_000
_TEXT = {".csv": csv_batches, ".tsv": csv_batches, ".jsonl": jsonl_batches, ".ndjson": jsonl_batches}
SVM = (".svm", ".svmlight", ".libsvm")
ARROW = (".parquet", ".feather", ".arrow")
KNOWN = ".csv, .tsv, .jsonl (each also with .gz), .npz, .npy, .parquet, .feather, .svm"
# Numbers of a batch of sparse rows beyond which it is not made dense.
DENSE_LIMIT = 1 << 28


def batches(
    source: str,
    wanted: Wanted,
    *,
    labels: Path | None = None,
    size: int = SIZE,
    patience: float = 1.0,
    interrupt: Interrupt | None = None,
    advance: Callable[[int], None] = lambda n_bytes: None,
) -> Iterator[Batch | None]:
    """Batches of at most `size` rows of a file, of a data set given by name, or of standard input ("-").

    None stands for a pause of the stream. `advance` is told the bytes of a text file as they are read.
    """
    path = Path(source)
    suffix, packed = suffix_of(path), path.suffix.lower() == ".gz"
    if labels is not None and suffix not in (".npz", ".npy", *SVM):
        raise ValueError(f"--labels goes with .npz, .npy and .svm; the labels of {source} are a column: use --label.")
    if source == "-":
        return _standard_input(wanted, size, patience, interrupt or Interrupt())
    if not path.exists() and not suffix:
        return _data_set(source, wanted, size)
    if path.is_dir():
        raise IsADirectoryError(f"{source} is a folder. `paloma embed` makes a table of a folder of images.")
    if not path.is_file():
        raise FileNotFoundError(f"File {source} does not exist.")
    if suffix in _TEXT:
        return _TEXT[suffix](lines_of(path, size, advance), wanted, source)
    if not packed and suffix in ARROW:
        return _arrow(path, wanted, size)
    if packed or suffix not in (".npz", ".npy", *SVM):
        raise ValueError(f"{source}: unknown file format. Known formats: {KNOWN}; - reads standard input.")
    read: Callable[..., tuple[Any, Any, Any]] = _arrays if suffix in (".npz", ".npy") else _svmlight
    X, y, ids = read(path, wanted)
    return _slices(X, read_labels(labels) if labels else y, wanted, size, source, ids=ids)


def read_all(source: str, wanted: Wanted, labels: Path | None = None, quiet: bool = True) -> Batch:
    """A whole table; unless quiet, says how far reading is if it takes long."""
    reading = _Reading(source, quiet)
    found = reading.told(batches(source, wanted, labels=labels, advance=reading.advance))
    parts = [batch for batch in found if batch is not None and len(batch)]
    if not parts:
        raise ValueError(f"{source} contains no rows.")
    if len({part.triplets for part in parts}) > 1:
        raise ValueError(f"{source} mixes rows and triplets.")
    return joined(parts)[0]


class _Reading:
    """Says on stderr how far a table was read: after a second, and then every few."""

    def __init__(self, source: str, quiet: bool) -> None:
        self._source, self._quiet = visible(source), quiet
        self._pace = Pace(size_of(source))
        self.advance = self._pace.advance

    def told(self, parts: Iterator[Batch | None]) -> Iterator[Batch | None]:
        begin, rows, next_line, advised = perf_counter(), 0, PATIENCE, False
        for part in parts:
            yield part
            rows += 0 if part is None else len(part)
            seconds = perf_counter() - begin
            if self._quiet or seconds < next_line:
                continue
            next_line = seconds + PAUSE
            typer.echo(self._line(rows, seconds), err=True)
            if not advised and self._expected(rows) > MANY:
                advised = True
                typer.echo(
                    f"  a large table: `paloma update {Path(self._source).stem}.paloma {self._source} --learner LODML` "
                    "learns it in one pass while it is read,\n  in little memory and in a fraction of the time",
                    err=True,
                )

    def _line(self, rows: int, seconds: float) -> str:
        how_far = f"in {seconds:.0f} s" if not self._pace.done else self._pace
        return f"reading {self._source}: {rows:,} rows, {how_far}"

    def _expected(self, rows: int) -> float:
        """Rows of the whole table, as far as one can tell."""
        return rows * self._pace.total / self._pace.done if self._pace.done else rows


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


def _slices(
    X: Any, y: Any, wanted: Wanted, size: int, where: str, names: list[str] | None = None, ids: Any = None
) -> Iterator[Batch]:
    refuse_drop(wanted, where)
    if wanted.ids and ids is None:
        raise ValueError(f"{where}: --id: the columns have no names. Use a table with a header.")
    if y is None and wanted.needed:
        raise ValueError(f"{where} contains no labels. Provide them with --labels.")
    if y is not None and len(y) != X.shape[0]:
        raise ValueError(f"{where}: {len(y)} labels for {X.shape[0]} rows.")
    if ids is not None and ids.shape != (X.shape[0],):
        raise ValueError(
            f"{where}: --id: expected {wanted.ids!r} to hold one id per row, an array of shape ({X.shape[0]},), "
            f"got shape {ids.shape}."
        )
    for a in range(0, X.shape[0], size):
        part = slice(a, a + size)
        rows, labels, keys = X[part], None if y is None else y[part], None if ids is None else ids[part]
        if sp.issparse(rows) and wanted.dense:
            rows = _dense(rows, where)
        if sp.issparse(rows):
            yield Batch(rows, labels, names, a + 1, ids=keys)
            continue
        rows = rows.astype(np.result_type(rows.dtype, np.float32), copy=False)
        columns = names or [str(k) for k in range(X.shape[1])]
        yield cleaned(rows, labels, keys, columns, a + 1, where, wanted, named=names is not None)


def _dense(rows: Any, where: str) -> Array:
    if rows.shape[0] * rows.shape[1] > DENSE_LIMIT:
        raise ValueError(
            f"{where}: rows of {rows.shape[1]:,} sparse features are too large for this learner. Use --learner L2ODML "
            "or L2OSL, which take sparse rows as they are."
        )
    return rows.toarray()


def _arrays(path: Path, wanted: Wanted) -> tuple[Any, Any, Any]:
    """X of a .npy file; X, y and ids of a .npz file."""
    y = ids = None
    try:
        if path.suffix.lower() == ".npy":
            X = np.load(path, allow_pickle=False, mmap_mode="r")
        else:
            with np.load(path, allow_pickle=False) as file:
                X, y = file["X"], file.get("y")
                if wanted.ids:
                    check_column(wanted.ids, file.files, str(path), "--id")
                    ids = file[wanted.ids]
    except KeyError:
        raise ValueError(f"{path} contains no array X.") from None
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(f"{path}: expected a numeric array of shape (n, d), got shape {X.shape} and type {X.dtype}.")
    return X, y, ids


def _svmlight(path: Path, wanted: Wanted) -> tuple[Any, Any, None]:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path), n_features=wanted.n_features)
    return X, y, None


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


def _arrow(path: Path, wanted: Wanted, size: int) -> Iterator[Batch]:
    """Batches of a Parquet or Feather file."""
    if path.suffix.lower() == ".parquet":
        file = optional("pyarrow.parquet", "parquet").ParquetFile(path)
        columns = plan(list(file.schema_arrow.names), wanted, str(path))
        source = file.iter_batches(size, columns=[columns.names[k] for k in _used(columns)])
    else:
        table = optional("pyarrow.feather", "parquet").read_table(path)
        columns = plan(list(table.schema.names), wanted, str(path))
        source = table.to_batches(size)
    row = 1
    for part in source:
        parts = [_column(part.column(name), name, row, str(path), wanted) for name in columns.feature_names]
        named = all(values.ndim == 1 for values in parts)
        X = np.column_stack(parts)
        names = columns.feature_names if named else [f"value {k}" for k in range(X.shape[1])]
        y, ids = (
            None
            if k is None
            else _column(part.column(columns.names[k]), columns.names[k], row, str(path), wanted, False)
            for k in (columns.label, columns.ids)
        )
        yield cleaned(X, y, ids, names, row, str(path), wanted, named)
        row += len(part)


def _stacked(vectors: Array, name: str, row: int, where: str) -> Array:
    for k, vector in enumerate(vectors):
        if len(vector) != len(vectors[0]):
            raise ValueError(
                f"{where}, row {row + k}, column {name!r}: found {len(vector)} values, expected {len(vectors[0])}."
            )
    return np.array(vectors.tolist(), np.float64)


def _used(columns: Plan) -> list[int]:
    return [*columns.features, *(k for k in (columns.label, columns.ids) if k is not None)]


def _column(column: Any, name: str, row: int, where: str, wanted: Wanted, number: bool = True) -> Array:
    """One column as an array; nulls, and strings in a numeric column, are reported by row."""
    if column.null_count and number and wanted.missing != "error":
        values = column.to_pylist()
        if all(value is None or isinstance(value, int | float) for value in values):
            return np.array([np.nan if value is None else value for value in values], np.float64)
    if column.null_count and not number and wanted.missing == "drop":
        return np.array(["" if value is None else str(value) for value in column.to_pylist()])
    if column.null_count:
        raise bad_cell(where, row + column.is_null().to_pylist().index(True), name, None)
    values = column.to_numpy(zero_copy_only=False)
    if number and len(values) and isinstance(values[0], np.ndarray):  # vectors, e.g. embeddings
        return _stacked(values, name, row, where)
    if number and values.dtype.kind not in "biuf":
        raise bad_cell(where, row, name, values[0] if len(values) else "")
    return values.astype(np.float64) if number else np.array(values.tolist())
