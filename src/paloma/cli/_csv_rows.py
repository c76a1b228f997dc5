"""CSV in blocks of lines: NumPy's parser if possible, cell by cell if a block is irregular or invalid."""

import csv
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .._typing import Array
from ._batches import Batch, bad_cell, cleaned, is_absent, is_number, joined, tolerant
from ._columns import Plan, Wanted, plan

# The fast parser truncates labels to this length; blocks with longer ones are read cell by cell.
_WIDTH = 64


def csv_batches(blocks: Iterable[list[str]], wanted: Wanted, where: str) -> Iterator[Batch | None]:
    """Batches of rows from blocks of lines; an empty block, a pause of the stream, gives None.

    The first line is a header if it contains no number, or names that are known.
    """
    columns, delimiter, row = None, ",", 1
    for block in blocks:
        lines = block if all(map(str.strip, block)) else [line for line in block if line.strip()]
        if columns is None and lines:
            delimiter = _delimiter(lines[0])
            names, lines = _header(lines, delimiter, wanted)
            columns = plan(names, wanted, where)
        if not lines:
            yield None
            continue
        assert columns is not None
        parse = partial(_parse, columns=columns, delimiter=delimiter, where=where, wanted=wanted)
        yield from joined(tolerant(parse, lines, row, wanted))
        row += len(lines)


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def _cells(lines: list[str], delimiter: str) -> list[list[str]]:
    return list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))


def _header(lines: list[str], delimiter: str, wanted: Wanted) -> tuple[list[str], list[str]]:
    """Names of the columns, and the remaining lines; unnamed columns are numbered.

    Names may be numbers, as pandas writes them: 0, 1, 2, ..., or those of the model; of fewer than three columns such a
    line may as well be a row.
    """
    first = [cell.strip() for cell in _cells(lines[:1], delimiter)[0]]
    known = wanted.features or [str(k) for k in range(len(first) - first.count(""))]
    named = wanted.label in first and not wanted.label.isdecimal()
    named |= len(known) > 2 and list(filter(set(known).__contains__, first)) == known
    if not named and any(is_number(cell) for cell in first):
        return [str(k) for k in range(len(first))], lines
    return first, lines[1:]


Parsed = tuple[Array, Array | None, Array | None]


def _parse(lines: list[str], row: int, *, columns: Plan, delimiter: str, where: str, wanted: Wanted) -> Batch:
    try:
        X, y, ids = _fast(lines, columns, delimiter)
    except ValueError:
        X, y, ids = _slow(lines, columns, delimiter, row, where, wanted)
    for position, words in ((columns.label, y), (columns.ids, ids)):
        if words is not None and (words == "").any() and (wanted.missing != "drop" or words is ids):
            remedy = "fit, update and index accept --missing drop" if words is y else "every row needs an id"
            raise bad_cell(where, row + int(np.argmax(words == "")), columns.names[position or 0], None, remedy)
    return cleaned(X, y, ids, columns.feature_names, row, where, wanted)


def _fast(lines: list[str], columns: Plan, delimiter: str) -> Parsed:
    """NumPy's parser; raises ValueError if the block is irregular."""
    if any('"' in line for line in lines) or {line.count(delimiter) for line in lines} != {len(columns.names) - 1}:
        raise ValueError("quotes, or rows of different lengths")
    dtype: list[Any] = [("x", np.float64, (len(columns.features),))]
    positions = list(columns.features)
    words = {"y": columns.label, "ids": columns.ids}
    for name, position in words.items():
        if position is not None:
            dtype.append((name, f"U{_WIDTH}"))
            positions.append(position)
    table = np.loadtxt(lines, dtype, comments=None, delimiter=delimiter, usecols=positions, ndmin=1)
    y, ids = (None if position is None else _whole_words(table[name]) for name, position in words.items())
    return np.ascontiguousarray(table["x"]), y, ids


def _whole_words(column: Array) -> Array:
    words = np.char.strip(column)
    width = int(np.char.str_len(words).max(initial=1))
    if width >= _WIDTH:
        raise ValueError("a word may be truncated")
    return words.astype(f"U{width}")


def _slow(lines: list[str], columns: Plan, delimiter: str, row: int, where: str, wanted: Wanted) -> Parsed:
    """Cell by cell: handles quotes, and reports the row and the column of an invalid cell."""
    cells = _cells(lines, delimiter)
    for k, line in enumerate(cells):
        if len(line) != len(columns.names):
            raise ValueError(f"{where}, row {row + k}: found {len(line)} cells, expected {len(columns.names)}.")
    X = np.empty((len(cells), len(columns.features)))
    for k, line in enumerate(cells):
        for j, position in enumerate(columns.features):
            if wanted.missing != "error" and is_absent(line[position]):
                X[k, j] = np.nan
                continue
            try:
                X[k, j] = float(line[position])
            except ValueError:
                raise bad_cell(where, row + k, columns.names[position], line[position]) from None
    y, ids = (
        None if position is None else np.array([line[position].strip() for line in cells])
        for position in (columns.label, columns.ids)
    )
    return X, y, ids
