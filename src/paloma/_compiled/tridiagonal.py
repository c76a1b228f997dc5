"""Eigenpairs of a symmetric tridiagonal matrix, many at once: each is a lane of a vector (theory 6.4)."""

import numpy as np

from .jit import compiled, inlined

# Halvings of an interval that tell eigenvalues apart; steps of inverse iteration, each of which triples the digits.
HALVINGS, STEPS = 30, 3


@compiled
def count_below(diagonal, squares, bounds):
    """How many eigenvalues are below each bound: negative pivots of T less the bound.

    squares : those of the entries beside the diagonal.
    """
    tiny = np.finfo(np.float64).tiny
    pivots = diagonal[0] - bounds
    counts = 1.0 * (pivots < 0.0)
    for i in range(1, diagonal.shape[0]):
        for j in range(bounds.shape[0]):
            pivot = pivots[j] if abs(pivots[j]) > tiny else -tiny
            pivots[j] = diagonal[i] - bounds[j] - squares[i - 1] / pivot
            counts[j] += 1.0 if pivots[j] < 0.0 else 0.0
    return counts


@compiled
def lowest_pairs(diagonal, beside, places, values, vectors):
    """Eigenvalues of these places in ascending order, vectors (n, places) of length 1; returns the largest residual.

    values : bounds from above at first. Vectors of eigenvalues that are very near may be the same.
    """
    squares, size = beside * beside, np.abs(diagonal).max() + 2.0 * np.abs(beside).max()
    low, high = np.full(places.shape[0], -size), values.copy()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        counts = count_below(diagonal, squares, middle)
        for j in range(places.shape[0]):
            below = counts[j] > places[j]
            high[j] = middle[j] if below else high[j]
            low[j] = low[j] if below else middle[j]
    values[:] = (low + high) / 2
    down, up, left = np.empty(vectors.shape), np.empty(vectors.shape), np.empty(places.shape[0])
    for _ in range(STEPS):
        _pivots(diagonal, squares, values, down, up)
        _twisted(diagonal, beside, values, down, up, vectors, left)
    return left.max() / size


@inlined
def _pivots(diagonal, squares, values, down, up):
    """Pivots of T less each value, from the first row down and from the last one up."""
    n, k = down.shape
    down[0], up[n - 1] = diagonal[0] - values, diagonal[n - 1] - values
    for i in range(1, n):
        r = n - 1 - i
        for j in range(k):
            down[i, j] = diagonal[i] - values[j] - squares[i - 1] / down[i - 1, j]
            up[r, j] = diagonal[r] - values[j] - squares[r] / up[r + 1, j]


@inlined
def _twisted(diagonal, beside, values, down, up, vectors, left):
    """One step: solve for the unit vector of the row where both chains of pivots meet with the least one left over."""
    n, k = vectors.shape
    least, meet = np.full(k, np.inf), np.zeros(k)
    for i in range(n):
        for j in range(k):
            pivot = down[i, j] + up[i, j] - (diagonal[i] - values[j])
            nearer = abs(pivot) < least[j]
            least[j] = abs(pivot) if nearer else least[j]
            left[j] = pivot if nearer else left[j]
            meet[j] = 1.0 * i if nearer else meet[j]
    for i in range(n):
        for j in range(k):
            vectors[i, j] = 1.0 if meet[j] == i else 0.0
    for i in range(1, n):
        r = n - 1 - i
        for j in range(k):
            above, under = -beside[r] * vectors[r + 1, j] / down[r, j], -beside[i - 1] * vectors[i - 1, j] / up[i, j]
            vectors[r, j] = above if meet[j] > r else vectors[r, j]
            vectors[i, j] = under if meet[j] < i else vectors[i, j]
    norms = np.zeros(k)
    for i in range(n):
        for j in range(k):
            norms[j] += vectors[i, j] * vectors[i, j]
    values += left / norms
    norms = np.sqrt(norms)
    left[:] = np.abs(left) / norms
    for i in range(n):
        for j in range(k):
            vectors[i, j] /= norms[j]
