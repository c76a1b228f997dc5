"""Elementwise passes over dense matrices that NumPy would need several for."""

import numpy as np

from .jit import compiled, in_place


@compiled
def quadratic_rows(half, rows, diagonals, ends):
    """v^T M v of each row v from half = V triu(M)^T: 2 <half, v> less the diagonal counted twice.

    Rows up to ends[0] are those of the first diagonal, up to ends[1] those of the second, and so on.
    """
    out, k = np.empty(rows.shape[0]), 0
    for r in range(rows.shape[0]):
        while r == ends[k]:
            k += 1
        diagonal = diagonals[k]
        total = (half[r, 0] + half[r, 0] - diagonal[0] * rows[r, 0]) * rows[r, 0]
        for s in range(1, rows.shape[1]):
            v = rows[r, s]
            total += (half[r, s] + half[r, s] - diagonal[s] * v) * v
        out[r] = total
    return out


@compiled
def quadratic_forms(rows, places, matrices):
    """v^T M v of each row v, M the matrix at its place; those from the end count below zero."""
    n, d = rows.shape
    out, image = np.empty(n), np.empty(d, rows.dtype)
    for r in range(n):
        row, matrix = rows[r], matrices[places[r]]
        image[:] = 0
        for i in range(0, d - 3, 4):  # four at a time, so that the image is loaded and stored a fourth as often
            a, b, c, e = row[i], row[i + 1], row[i + 2], row[i + 3]
            for j in range(d):
                image[j] += a * matrix[i, j] + b * matrix[i + 1, j] + c * matrix[i + 2, j] + e * matrix[i + 3, j]
        for i in range(d - d % 4, d):
            for j in range(d):
                image[j] += row[i] * matrix[i, j]
        total = image[0] * row[0]
        for j in range(1, d):
            total += image[j] * row[j]
        out[r] = total
    return out


@in_place
def pair_forms(Y, ends, weights, edges, out):
    """Add to out[c], for each column of Y, the weighted squares of the differences of two rows over the pairs of c.

    Pairs of the first class end at edges[0], those of the second at edges[1], and so on.
    """
    c = 0
    for r in range(ends.shape[1]):
        while r == edges[c]:
            c += 1
        i, j, w = ends[0, r], ends[1, r], weights[r]
        for s in range(Y.shape[1]):
            v = np.float64(Y[i, s] - Y[j, s])
            out[c, s] += w * v * v


@in_place
def mirror_upper(matrix):
    """Copy the upper triangle of a square matrix onto the lower one, by tiles that few lines of memory hold."""
    d, tile = matrix.shape[0], 8
    for i in range(0, d, tile):
        for j in range(i, d, tile):
            for s in range(j, min(j + tile, d)):
                for r in range(i, min(i + tile, s)):
                    matrix[s, r] = matrix[r, s]


@in_place
def move_toward(mean, current, rate):
    """mean += rate (current - mean), flat arrays, in place."""
    for k in range(mean.shape[0]):
        mean[k] += rate * (current[k] - mean[k])
