"""Writers for the table formats, chosen by file name."""

import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._optional import optional
from .._typing import Array
from ._batches import Batch
from ._formats import SVM


def write(batch: Batch, target: Path, label: str) -> None:
    """Write a table in the format that the file name implies."""
    suffix = target.suffix.lower()
    writers: dict[str, Callable[[Batch, Path, str], None]] = {
        ".csv": _write_csv, ".jsonl": _write_jsonl, ".npz": _write_npz, ".parquet": _write_parquet,
        **dict.fromkeys(SVM, _write_svmlight),
    }  # fmt: skip
    if suffix not in writers:
        raise ValueError(f"{target}: unknown output format. Known formats: {', '.join(writers)}.")
    writers[suffix](batch, target, label)


def _named(batch: Batch) -> list[str]:
    return batch.names or [f"x{k}" for k in range(batch.X.shape[1])]


def _dense(batch: Batch) -> Array:
    return batch.X.toarray() if sp.issparse(batch.X) else batch.X


def _plain(values: Iterable[float]) -> list[Any]:
    """Integers without a decimal point, other numbers in full precision."""
    return [int(value) if value == int(value) else value for value in values]


def _write_csv(batch: Batch, target: Path, label: str) -> None:
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*_named(batch), label] if batch.y is not None else _named(batch))
        for k, row in enumerate(_dense(batch).tolist()):
            writer.writerow(_plain(row) if batch.y is None else [*_plain(row), batch.y[k]])


def _write_jsonl(batch: Batch, target: Path, label: str) -> None:
    with target.open("w", encoding="utf-8") as file:
        for k, row in enumerate(_dense(batch).tolist()):
            item = dict(zip(_named(batch), _plain(row), strict=True))
            if batch.y is not None:
                item[label] = batch.y[k].item()
            file.write(json.dumps(item) + "\n")


def _write_npz(batch: Batch, target: Path, label: str) -> None:
    if batch.y is None:
        np.savez_compressed(target, X=_dense(batch))
    else:
        np.savez_compressed(target, X=_dense(batch), y=np.asarray(batch.y))


def _write_parquet(batch: Batch, target: Path, label: str) -> None:
    arrow = optional("pyarrow", "parquet")
    columns = dict(zip(_named(batch), _dense(batch).T, strict=True))
    if batch.y is not None:
        columns[label] = batch.y
    optional("pyarrow.parquet", "parquet").write_table(arrow.table(columns), target)


def _write_svmlight(batch: Batch, target: Path, label: str) -> None:
    from sklearn.datasets import dump_svmlight_file

    y = np.zeros(len(batch)) if batch.y is None else np.asarray(batch.y)
    if y.dtype.kind not in "biuf":
        raise ValueError(f"{target}: svmlight requires numeric labels, got strings. Write .csv or .npz instead.")
    dump_svmlight_file(batch.X, y, str(target))
