"""Inner products and distances of pairs of rows, without gathering the rows."""

import numpy as np

from .jit import compiled, inlined


@inlined
def inner(x, y):
    """<x, y>, in the type of the two."""
    total = x[0] * y[0]
    for s in range(1, x.shape[0]):
        total += x[s] * y[s]
    return total


@compiled
def row_products(left, right):
    """<left_r, right_r> for each row r."""
    out = np.empty(left.shape[0])
    for r in range(left.shape[0]):
        out[r] = inner(left[r], right[r])
    return out


@compiled
def paired(left, right, i, j):
    """<left[i_r], right[j_r]> for each r."""
    out = np.empty(i.shape[0])
    for r in range(i.shape[0]):
        out[r] = inner(left[i[r]], right[j[r]])
    return out


@compiled
def pair_distances(X, first, second):
    """|x_i - x_j|^2 for each pair (i, j) of row numbers."""
    out = np.empty(first.shape[0])
    for r in range(first.shape[0]):
        x, y = X[first[r]], X[second[r]]
        total = (x[0] - y[0]) * (x[0] - y[0])
        for s in range(1, x.shape[0]):
            total += (x[s] - y[s]) * (x[s] - y[s])
        out[r] = total
    return out
