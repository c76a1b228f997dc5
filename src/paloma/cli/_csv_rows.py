"""CSV in blocks of lines: NumPy's parser if possible, cell by cell if a block is irregular or invalid."""

import csv
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .._typing import Array
from ._columns import Batch, Plan, Wanted, bad_cell, check_finite, plan

# The fast parser truncates labels to this length; blocks with longer ones are read cell by cell.
_WIDTH = 64


def csv_batches(blocks: Iterable[list[str]], wanted: Wanted, where: str) -> Iterator[Batch | None]:
    """Batches of rows from blocks of lines; an empty block, a pause of the stream, gives None.

    The first line is a header if it contains no number, or the name of the label.
    """
    columns, delimiter, row = None, ",", 1
    for block in blocks:
        lines = block if all(map(str.strip, block)) else [line for line in block if line.strip()]
        if columns is None and lines:
            delimiter = _delimiter(lines[0])
            names, lines = _header(lines, delimiter, wanted.label)
            columns = plan(names, wanted, where)
        if not lines:
            yield None
            continue
        assert columns is not None
        X, y = _parse(lines, columns, delimiter, row, where)
        yield Batch(X, y, columns.feature_names, row)
        row += len(lines)


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def _cells(lines: list[str], delimiter: str) -> list[list[str]]:
    return list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))


def _header(lines: list[str], delimiter: str, label: str) -> tuple[list[str], list[str]]:
    """Names of the columns, and the remaining lines; unnamed columns are numbered."""
    first = [cell.strip() for cell in _cells(lines[:1], delimiter)[0]]
    named = label in first and not label.isdecimal()
    if not named and any(_is_float(cell) for cell in first):
        return [str(k) for k in range(len(first))], lines
    return first, lines[1:]


def _is_float(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parse(lines: list[str], columns: Plan, delimiter: str, row: int, where: str) -> tuple[Array, Array | None]:
    try:
        X, y = _fast(lines, columns, delimiter)
    except ValueError:
        X, y = _slow(lines, columns, delimiter, row, where)
    if y is not None and (y == "").any():
        raise bad_cell(where, row + int(np.argmax(y == "")), columns.names[columns.label or 0], None)
    return check_finite(X, columns.feature_names, row, where), y


def _fast(lines: list[str], columns: Plan, delimiter: str) -> tuple[Array, Array | None]:
    """NumPy's parser; raises ValueError if the block is irregular."""
    if any('"' in line for line in lines) or {line.count(delimiter) for line in lines} != {len(columns.names) - 1}:
        raise ValueError("quotes, or rows of different lengths")
    dtype: list[Any] = [("x", np.float64, (len(columns.features),))]
    positions = list(columns.features)
    if columns.label is not None:
        dtype.append(("y", f"U{_WIDTH}"))
        positions.append(columns.label)
    table = np.loadtxt(lines, dtype, comments=None, delimiter=delimiter, usecols=positions, ndmin=1)
    if columns.label is None:
        return np.ascontiguousarray(table["x"]), None
    y = np.char.strip(table["y"])
    width = int(np.char.str_len(y).max(initial=1))
    if width >= _WIDTH:
        raise ValueError("a label may be truncated")
    return np.ascontiguousarray(table["x"]), y.astype(f"U{width}")


def _slow(lines: list[str], columns: Plan, delimiter: str, row: int, where: str) -> tuple[Array, Array | None]:
    """Cell by cell: handles quotes, and reports the row and the column of an invalid cell."""
    cells = _cells(lines, delimiter)
    for k, line in enumerate(cells):
        if len(line) != len(columns.names):
            raise ValueError(f"{where}, row {row + k}: found {len(line)} cells, expected {len(columns.names)}.")
    X = np.empty((len(cells), len(columns.features)))
    for k, line in enumerate(cells):
        for j, position in enumerate(columns.features):
            try:
                X[k, j] = float(line[position])
            except ValueError:
                raise bad_cell(where, row + k, columns.names[position], line[position]) from None
    return X, None if columns.label is None else np.array([line[columns.label].strip() for line in cells])
