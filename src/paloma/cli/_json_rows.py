"""JSON lines: rows by column name or as lists, and triplets of points.

{"height": 1.5, "width": 2.0, "label": "A"}
{"x": [1.5, 2.0], "label": "A"}
{"anchor": [...], "positive": [...], "negative": [...], "classes": ["A", "B"], "weight": 1.0}
"""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np

from .._typing import Array
from ._batches import Batch, bad_cell, cleaned, is_absent, joined, tolerant
from ._columns import Plan, Wanted, plan, refuse_drop

_POINTS = ("anchor", "positive", "negative")


def jsonl_batches(blocks: Iterable[list[str]], wanted: Wanted, where: str) -> Iterator[Batch | None]:
    """Batches from blocks of lines, rows and triplets separately; an empty block, a pause of the stream, gives None."""
    columns: Plan | None = None
    row = 1
    for block in blocks:
        lines = [line for line in block if line.strip()]
        if not lines:
            yield None

        def parse(some: list[str], first: int) -> list[Batch]:
            nonlocal columns
            objects, out = [json_object(line, first + k, where) for k, line in enumerate(some)], list[Batch]()
            for kind, run in groupby(objects, key=_kind):
                items = list(run)
                if kind == "triplets":
                    out.append(_triplets(items, first, where))
                elif kind == "lists":
                    out.append(_lists(items, wanted, first, where))
                else:
                    columns = columns or plan(list(items[0]), wanted, where)
                    out.append(_rows(items, columns, wanted, first, where))
                first += len(items)
            return out

        yield from joined([part for parts in tolerant(parse, lines, row, wanted) for part in parts])
        row += len(lines)


def json_object(line: str, row: int, where: str) -> dict[str, Any]:
    """The object that a line holds."""
    try:
        item = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}, row {row}: invalid JSON ({error}).") from None
    if not isinstance(item, dict):
        raise ValueError(f"{where}, row {row}: expected one JSON object per line, got {type(item).__name__}.")
    return item


def _kind(item: dict[str, Any]) -> str:
    if "anchor" in item:
        return "triplets"
    return "lists" if isinstance(item.get("x"), list) else "rows"


def _rows(items: list[dict[str, Any]], columns: Plan, wanted: Wanted, row: int, where: str) -> Batch:
    names = columns.feature_names
    X = _numbers([[item.get(name) for name in names] for item in items], names, row, where, wanted)
    label, ids = (None if k is None else columns.names[k] for k in (columns.label, columns.ids))
    labels = _labels(items, label, row, where)
    return cleaned(X, labels, _labels(items, ids, row, where), names, row, where, wanted)


def _lists(items: list[dict[str, Any]], wanted: Wanted, row: int, where: str) -> Batch:
    refuse_drop(wanted, where)
    rows = [item["x"] for item in items]
    names = [f"x[{k}]" for k in range(len(rows[0]))]
    for k, values in enumerate(rows):
        if len(values) != len(names):
            raise ValueError(f"{where}, row {row + k}: found {len(values)} values, expected {len(names)}.")
    label = wanted.label if wanted.needed or (wanted.read and wanted.label in items[0]) else None
    X, labels = _numbers(rows, names, row, where, wanted), _labels(items, label, row, where)
    keys = _labels(items, wanted.ids or None, row, where)
    return cleaned(X, labels, keys, names, row, where, wanted, named=False)


def _numbers(rows: list[list[Any]], names: list[str], row: int, where: str, wanted: Wanted) -> Array:
    if wanted.missing != "error":
        rows = [[np.nan if is_absent(value) else value for value in values] for values in rows]
    X = np.array(rows, object)
    if X.ndim != 2 or not all(type(value) in (int, float) for value in X.ravel()):
        for k, values in enumerate(rows):
            for name, value in zip(names, values, strict=True):
                if type(value) not in (int, float):
                    raise bad_cell(where, row + k, name, value)
    return X.astype(np.float64)


def _labels(items: list[dict[str, Any]], label: str | None, row: int, where: str) -> Array | None:
    if label is None:
        return None
    labels = [item.get(label) for item in items]
    for k, value in enumerate(labels):
        if value is None or value == "":
            raise bad_cell(where, row + k, label, None, "fit, update and index accept --missing drop")
    return np.array(labels)


def _triplets(items: list[dict[str, Any]], row: int, where: str) -> Batch:
    located = f"{where}, rows {row} to {row + len(items) - 1}"
    try:
        X = np.array([[item[name] for name in _POINTS] for item in items], np.float64)
    except (KeyError, TypeError, ValueError):
        X = np.empty(0)
    if X.ndim != 3 or not np.isfinite(X).all():
        raise ValueError(f"{located}: a triplet requires three lists of finite numbers: anchor, positive and negative.")
    classes = [item.get("classes") for item in items]
    given = any(pair is not None for pair in classes)
    if given and not all(isinstance(pair, list) and len(pair) == 2 for pair in classes):
        raise ValueError(f"{located}: either all triplets or none must have classes [positive, negative].")
    weight = np.array([float(item.get("weight", 1.0)) for item in items])
    return Batch(X, np.array(classes) if given else None, None, row, weight, triplets=True)
