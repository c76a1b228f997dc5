"""Squared norms of the constraints of triplets, from their points: never the diagonal of a product, so that degenerate
triplets have exactly 0."""

import numpy as np

from .jit import compiled


@compiled
def distance_norms(X, triplets, factor):
    """(N_d, |a|^4, |b|^4) of each triplet in float64; N_d = (|a-b|^2 |a+b|^2 + (|a|^2-|b|^2)^2) / 2 (theory 6.1)."""
    out = np.empty((triplets.shape[0], 3))
    f4 = np.float64(factor) ** 4
    for t in range(triplets.shape[0]):
        p, q, n = triplets[t, 0], triplets[t, 1], triplets[t, 2]
        aa, bb, minus, plus = 0.0, 0.0, 0.0, 0.0
        for s in range(X.shape[1]):
            x, y, z = np.float64(X[p, s]), np.float64(X[q, s]), np.float64(X[n, s])
            a, b, c = x - y, x - z, z - y
            aa += a * a
            bb += b * b
            minus += c * c
            plus += (a + b) * (a + b)
        out[t, 0] = 0.5 * f4 * (minus * plus + (aa - bb) * (aa - bb))
        out[t, 1] = f4 * aa * aa
        out[t, 2] = f4 * bb * bb
    return out


@compiled
def side_norms(rows, sides):
    """The same of triplets whose two differences, a and b, are rows; |a+b|^2 = 2 |a|^2 + 2 |b|^2 - |a-b|^2."""
    out, squares = np.empty((sides.shape[0], 3)), np.zeros(rows.shape[0])
    for r in range(rows.shape[0]):
        total = 0.0
        for s in range(rows.shape[1]):
            x = np.float64(rows[r, s])
            total += x * x
        squares[r] = total
    for t in range(sides.shape[0]):
        p, n, minus = sides[t, 0], sides[t, 1], 0.0
        for s in range(rows.shape[1]):
            c = np.float64(rows[n, s]) - np.float64(rows[p, s])
            minus += c * c
        aa, bb = squares[p], squares[n]
        out[t, 0] = 0.5 * (minus * (2.0 * (aa + bb) - minus) + (aa - bb) * (aa - bb))
        out[t, 1] = aa * aa
        out[t, 2] = bb * bb
    return out


@compiled
def similarity_norms(X, triplets, factor):
    """|p|^2 times (|p+ - p-|^2, |p+|^2, |p-|^2) of each triplet in float64 (theory 7)."""
    out = np.empty((triplets.shape[0], 3))
    f4 = np.float64(factor) ** 4
    for t in range(triplets.shape[0]):
        p, q, n = triplets[t, 0], triplets[t, 1], triplets[t, 2]
        pp, qq, nn, dd = 0.0, 0.0, 0.0, 0.0
        for s in range(X.shape[1]):
            x, y, z = np.float64(X[p, s]), np.float64(X[q, s]), np.float64(X[n, s])
            pp += x * x
            qq += y * y
            nn += z * z
            dd += (y - z) * (y - z)
        out[t, 0] = f4 * pp * dd
        out[t, 1] = f4 * pp * qq
        out[t, 2] = f4 * pp * nn
    return out
