"""Rows that may be dense or CSR: the few operations whose spelling differs."""

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._compiled.pairs import pair_distances, paired
from ._typing import Array
from ._validation import read_only


def products(left: Any, right: Any) -> Array:
    """<left_r, right_r> for each row r; either side may be sparse."""
    if sp.issparse(left) or sp.issparse(right):
        first, second = (left, right) if sp.issparse(left) else (right, left)
        return np.asarray(first.multiply(second).sum(axis=1), np.float64).ravel()
    return row_products(left, right)


def row_products(left: Array, right: Array) -> Array:
    """The same of dense rows: sums in the type of the two, as float64."""
    return np.einsum("rs,rs->r", left, right).astype(np.float64, copy=False)


def evenly_spaced(values: Any, most: int) -> Any:
    """At most so many of the values, or rows, evenly spaced."""
    n = values.shape[0]
    return values[np.linspace(0, n - 1, min(n, most)).astype(np.intp)]


def in_blocks(X: sp.csr_matrix, blocks: Array, n_blocks: int) -> sp.csr_matrix:
    """Each row moved into the column block of its number: (n, d) becomes (n, n_blocks d)."""
    shift = np.repeat(blocks.astype(np.int64) * X.shape[1], np.diff(X.indptr))
    return sp.csr_matrix((X.data, X.indices + shift, X.indptr), (X.shape[0], n_blocks * X.shape[1]))


def identity_values(X: Any, anchors: Array, candidates: Array, distances: bool) -> Array:
    """Squared Euclidean distance, or inner product, of pairs of rows; CSR rows a tile at a time."""
    if not sp.issparse(X):
        X = read_only(X)
        return squared_distances(X, anchors, candidates) if distances else paired(X, X, anchors, candidates)
    out = np.empty(len(anchors))
    for a in range(0, len(anchors), 4096):
        part = slice(a, a + 4096)
        left, right = X[anchors[part]], X[candidates[part]]
        if distances:
            left = right = left - right
        out[part] = products(left, right)
    return out


def squared_distances(X: Array, first: Array, second: Array) -> Array:
    """|x_i - x_j|^2 of pairs (i, j) of dense rows, given by their numbers."""
    out = np.empty(len(first))
    pair_distances(read_only(X), np.ascontiguousarray(first), np.ascontiguousarray(second), out)
    return out


def stacked(parts: list[Any]) -> Any:
    """Rows of all parts, dense or CSR."""
    return sp.vstack(parts, "csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def contents(rows: Any) -> list[bytes]:
    """The values of each row as bytes: equal rows, dense or CSR with sorted indices, have equal ones."""
    if not sp.issparse(rows):
        return [row.tobytes() for row in rows]
    ends, indices = rows.indptr, rows.indices.astype(np.int64)
    return [indices[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in pairwise(ends)]


def squared_norms(rows: Any) -> Array:
    """|x|^2 of each row, dense or CSR."""
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), np.float64).ravel()
    return row_products(rows, rows)
