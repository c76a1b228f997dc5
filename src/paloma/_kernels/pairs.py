"""Values of pairs of rows under the identity, without gathering the rows."""

import numpy as np

from .jit import kernel


@kernel
def pair_values(X, first, second, distances):
    """|x_i - x_j|^2, or <x_i, x_j> where not `distances`, for each pair (i, j) of row numbers."""
    out = np.empty(first.shape[0])
    for r in range(first.shape[0]):
        x, y = X[first[r]], X[second[r]]
        if distances:
            total = (x[0] - y[0]) * (x[0] - y[0])
            for s in range(1, x.shape[0]):
                total += (x[s] - y[s]) * (x[s] - y[s])
        else:
            total = x[0] * y[0]
            for s in range(1, x.shape[0]):
                total += x[s] * y[s]
        out[r] = total
    return out
