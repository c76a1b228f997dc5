"""Where the rows are: Dask arrays and dataframes, .npy files, Parquet; one chunk is one shard, read by the workers."""

import mmap
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import _validation as check
from .._core.locality import FREE
from .._optional import optional
from .._typing import Array
from ..estimators import settings_of

PARQUET_PIECE = "64MiB"


@dataclass
class File:
    """Rows of an array in a file, mapped when they are read: only the pages of these rows come into memory."""

    path: str
    dtype: Any
    shape: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, array: Any) -> "File":
        if not isinstance(array.base, mmap.mmap) or not array.flags.c_contiguous or not array.filename:
            raise ValueError(
                "Memory maps and .npy files must be whole and C-ordered: pass the path of the file, and write it "
                "with numpy.save(path, numpy.ascontiguousarray(X))."
            )
        return cls(str(Path(array.filename).resolve()), array.dtype, array.shape, int(array.offset))

    def read(self, start: int, stop: int) -> Array:
        whole = np.memmap(self.path, self.dtype, "r", self.offset, self.shape)
        return np.array(whole[start:stop])


def shards_of(X: Any, y: Any, shard_rows: int, labeled: bool = True) -> list[Any]:
    """One delayed (rows, labels) for each chunk of X, as they are found; without labels the latter may be None."""
    dask = optional("dask", "dask")
    if y is None and labeled:
        raise ValueError("paloma.distributed.fit requires y: triplets are formed from labels.")
    X, y = _opened(X), _opened(y)
    if _is_frame(X):
        return _of_frame(X, y)
    if isinstance(X, File):
        edges = [*range(0, X.shape[0], shard_rows), X.shape[0]] if X.shape[0] else [0, 0]
        read = dask.delayed(_read_file, pure=False)
        pieces = [read(X, a, b) for a, b in pairwise(edges)]
    elif _is_array(X):
        if X.ndim != 2:
            raise ValueError(f"X must have 2 dimensions, got {X.ndim}.")
        X = X.rechunk({1: -1})
        pieces, edges = X.to_delayed().ravel().tolist(), np.cumsum([0, *X.chunks[0]]).tolist()
    else:
        raise TypeError(
            f"X must be a Dask array or dataframe, or the path of a .npy or Parquet file, got {type(X).__name__}. For "
            "rows in memory use the learner's own fit, or wrap them: dask.array.from_array(X, chunks=...)."
        )
    pair = dask.delayed(_pair, pure=False)
    return [pair(x, label) for x, label in zip(pieces, _labels(y, edges, len(pieces)), strict=True)]


def _labels(y: Any, edges: Any, n: int) -> list[Any]:
    """Labels of the rows between edges, delayed."""
    dask = optional("dask", "dask")
    if _is_array(y):
        if not np.isnan(np.sum(edges)) and tuple(np.diff(edges)) != y.chunks[0]:
            if not np.isnan(y.shape[0]) and y.shape[0] != edges[-1]:
                raise ValueError(f"y has {y.shape[0]} labels for {edges[-1]} rows of X.")
            y = y.rechunk((tuple(np.diff(edges)),))
        blocks = y.to_delayed().ravel().tolist()
    elif _is_frame(y):
        blocks = y.to_delayed()
    elif y is None:
        return [None] * n
    else:
        if np.isnan(np.sum(edges)):
            raise ValueError(
                "X has chunks of unknown size: pass y as a Dask array with the same number of chunks or as the name "
                "of a dataframe column, or call compute_chunk_sizes() on a Dask array X."
            )
        length = y.shape[0] if isinstance(y, File) else len(y)
        if length != edges[-1]:
            raise ValueError(f"y has {length} labels for {edges[-1]} rows of X.")
        read = dask.delayed(_read_file if isinstance(y, File) else _take, pure=False)
        spans = pairwise(edges)
        return [read(y, a, b) if isinstance(y, File) else read(np.asarray(y)[a:b]) for a, b in spans]
    if len(blocks) != n:
        raise ValueError(f"y has {len(blocks)} partitions, X has {n}; they must match.")
    return list(blocks)


def _of_frame(X: Any, y: Any) -> list[Any]:
    dask = optional("dask", "dask")
    if isinstance(y, str):
        if y not in X.columns:
            raise ValueError(
                f"The dataframe has no column {y!r} for the labels; it has {', '.join(map(str, X.columns))}."
            )
        split = dask.delayed(_split, pure=False)
        return [split(part, y) for part in X.to_delayed()]
    pair = dask.delayed(_pair, pure=False)
    parts = X.to_delayed()
    return [pair(x, label) for x, label in zip(parts, _labels(y, [np.nan], len(parts)), strict=True)]


def _opened(source: Any) -> Any:
    """A collection, or a File, from a path or a memory map; anything else as it is."""
    if isinstance(source, np.memmap):
        return File.of(source)
    path = Path(source) if isinstance(source, str | Path) else None
    if path is None or (isinstance(source, str) and not path.suffix and not path.exists()):
        return source  # the name of a column, perhaps
    if path.suffix == ".npy":
        return File.of(np.load(path, mmap_mode="r"))
    if path.suffix in (".parquet", ".pq") or path.is_dir():
        return optional("dask.dataframe", "dask").read_parquet(str(path.resolve()), blocksize=PARQUET_PIECE)
    return source


def _is_array(source: Any) -> bool:
    return hasattr(source, "rechunk")


def _is_frame(source: Any) -> bool:
    return hasattr(source, "to_delayed") and hasattr(source, "map_partitions")


def _read_file(file: File, start: int, stop: int) -> Array:
    return file.read(start, stop)


def _take(labels: Array) -> Array:
    return labels


def _pair(X: Any, y: Any) -> tuple[Any, Any]:
    return X, y


def _split(frame: Any, label: str) -> tuple[Any, Any]:
    return frame.drop(columns=label), frame[label]


# -- inside a worker -----------------------------------------------------------------------------------------------


@dataclass
class Rows:
    """A shard as learners take it."""

    X: Any
    y: Array

    def codes(self, learner: Any, labels: Any, held: Array) -> Array:
        """Class codes; rows without a label, and those held out, are FREE and take no part."""
        codes = labels.codes(self.y, settings_of(learner).unlabeled) if len(self.y) else np.empty(0, np.int32)
        codes[held] = FREE
        return codes


def read(learner: Any, pair: tuple[Any, Any], number: int, dtype: Any = None) -> Rows:
    """A shard, checked; an error names it. A learner that knows its features checks them against its own."""
    X, y = pair
    reset = not hasattr(learner, "n_features_in_")
    try:
        labels = np.zeros(X.shape[0], np.int8) if y is None else np.asarray(y)
        if X.shape[0] == 0:
            if len(labels):
                raise ValueError(f"y has {len(labels)} labels for 0 rows of X.")
            width = learner.n_features_in_ if not reset else X.shape[1]
            return Rows(np.empty((0, width), dtype or np.float64), labels[:0])
        rows = check.check_rows(learner, X, reset=reset)
        labels = check.check_labels(learner, labels, rows.shape[0])
        if reset and (learner.scale is None or rows.dtype == np.float64):
            check.check_magnitude(learner, rows, 1.0)
    except (ValueError, TypeError) as error:
        raise type(error)(f"Partition {number}: {error}") from None
    if dtype is not None and rows.dtype != dtype:
        rows = rows.astype(dtype)
    return Rows(rows if sp.issparse(rows) else check.read_only(rows), labels)
