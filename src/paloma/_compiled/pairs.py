"""Pairs of rows: their differences, inner products and distances."""

import numpy as np

from .jit import compiled, in_place, inlined


@inlined
def inner(x, y):
    """<x, y>, in the type of the two."""
    total = x[0] * y[0]
    for s in range(1, x.shape[0]):
        total += x[s] * y[s]
    return total


@compiled
def paired(left, right, i, j):
    """<left[i_r], right[j_r]> for each r."""
    out = np.empty(i.shape[0])
    for r in range(i.shape[0]):
        out[r] = inner(left[i[r]], right[j[r]])
    return out


@in_place
def pair_distances(X, first, second, out):
    """|x_i - x_j|^2 for each pair (i, j) of row numbers."""
    for r in range(first.shape[0]):
        i, j = first[r], second[r]
        x = X[i, 0] - X[j, 0]
        total = x * x
        for s in range(1, X.shape[1]):
            x = X[i, s] - X[j, s]
            total += x * x
        out[r] = total


@compiled
def differences(X, first, second, factor, out):
    """Rows (x[first] - x[second]) * factor, the only points of a block that are ever gathered."""
    for r in range(first.shape[0]):
        i, j = first[r], second[r]
        for s in range(X.shape[1]):
            out[r, s] = (X[i, s] - X[j, s]) * factor


@compiled
def scaled_rows(X, rows, factor, out):
    """Rows x[rows] * factor; an array of factors has one value per row."""
    for r in range(rows.shape[0]):
        i = rows[r]
        for s in range(X.shape[1]):
            out[r, s] = X[i, s] * factor[r]
