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
from ._columns import Batch, Plan, Wanted, bad_cell, check_finite, plan, refuse_drop

_POINTS = ("anchor", "positive", "negative")


def jsonl_batches(blocks: Iterable[list[str]], wanted: Wanted, where: str) -> Iterator[Batch | None]:
    """Batches from blocks of lines, rows and triplets separately; an empty block, a pause of the stream, gives None."""
    columns: Plan | None = None
    row = 1
    for block in blocks:
        lines = [line for line in block if line.strip()]
        if not lines:
            yield None
        objects = [_object(line, row + k, where) for k, line in enumerate(lines)]
        for kind, run in groupby(objects, key=_kind):
            items = list(run)
            if kind == "triplets":
                yield _triplets(items, row, where)
            elif kind == "lists":
                yield _lists(items, wanted, row, where)
            else:
                columns = columns or plan(list(items[0]), wanted, where)
                yield _rows(items, columns, row, where)
            row += len(items)


def _object(line: str, row: int, where: str) -> dict[str, Any]:
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


def _rows(items: list[dict[str, Any]], columns: Plan, row: int, where: str) -> Batch:
    names = columns.feature_names
    X = _numbers([[item.get(name) for name in names] for item in items], names, row, where)
    label = None if columns.label is None else columns.names[columns.label]
    return Batch(X, _labels(items, label, row, where), names, row)


def _lists(items: list[dict[str, Any]], wanted: Wanted, row: int, where: str) -> Batch:
    refuse_drop(wanted, where)
    rows = [item["x"] for item in items]
    names = [f"x[{k}]" for k in range(len(rows[0]))]
    for k, values in enumerate(rows):
        if len(values) != len(names):
            raise ValueError(f"{where}, row {row + k}: found {len(values)} values, expected {len(names)}.")
    label = wanted.label if wanted.needed or wanted.label in items[0] else None
    return Batch(_numbers(rows, names, row, where), _labels(items, label, row, where), None, row)


def _numbers(rows: list[list[Any]], names: list[str], row: int, where: str) -> Array:
    X = np.array(rows, object)
    if X.ndim != 2 or not all(type(value) in (int, float) for value in X.ravel()):
        for k, values in enumerate(rows):
            for name, value in zip(names, values, strict=True):
                if type(value) not in (int, float):
                    raise bad_cell(where, row + k, name, value)
    return check_finite(X.astype(np.float64), names, row, where)


def _labels(items: list[dict[str, Any]], label: str | None, row: int, where: str) -> Array | None:
    if label is None:
        return None
    labels = [item.get(label) for item in items]
    for k, value in enumerate(labels):
        if value is None or value == "":
            raise bad_cell(where, row + k, label, None)
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
