"""The fused loop for similarities on CSR rows: losses and updates touch only the non-zeros (OASIS's own setting)."""

import numpy as np

from .jit import kernel
from .steps import squared_norm, step_size


@kernel
def sparse_stream(
    data, indices, indptr, factor, triplets, classes, C, lam, mu, U, L, margins, code, constants, tau,
    gaps=None, scale=None,
):  # fmt: skip
    """LOSL (spec.md 7) on U and the stack L in place, for rows with sorted indices; arguments as in `stream`."""
    loss, updates = 0.0, 0
    f2 = np.float64(factor) * np.float64(factor)
    for t in range(triplets.shape[0]):
        p, q, n = triplets[t, 0], triplets[t, 1], triplets[t, 2]
        i, j = classes[t, 0], classes[t, 1]
        pp, qq, nn = (
            f2 * _square(data, indptr[p], indptr[p + 1]),
            f2 * _square(data, indptr[q], indptr[q + 1]),
            f2 * _square(data, indptr[n], indptr[n + 1]),
        )
        apart = f2 * _apart(data, indices, indptr[q], indptr[q + 1], indptr[n], indptr[n + 1])
        value = lam * _difference(U, data, indices, indptr, p, q, n)
        if i >= 0:
            value += mu * _form(L[i], data, indices, indptr, p, q)
        if j >= 0:
            value -= mu * _form(L[j], data, indices, indptr, p, n)
        gap = margins[t] - f2 * value
        if scale is not None:
            gap = margins[t] - scale[t] * f2 * value
        if gaps is not None:
            gaps[t] = gap
        loss += max(gap, 0.0)
        norm = squared_norm(lam * lam, mu * mu, i, j, pp * apart, pp * qq, pp * nn)
        step = step_size(code, gap, norm, C[t], constants[0], constants[1])
        tau[t] = step
        if step == 0.0:
            continue
        updates += 1
        if scale is not None:
            step /= scale[t]
        _add_difference(U, lam * step * f2, data, indices, indptr, p, q, n)
        if i >= 0:
            _add(L[i], mu * step * f2, data, indices, indptr, p, q)
        if j >= 0:
            _add(L[j], -mu * step * f2, data, indices, indptr, p, n)
    return loss, updates


@kernel
def _square(data, start, stop):
    total = 0.0
    for k in range(start, stop):
        total += np.float64(data[k]) * np.float64(data[k])
    return total


@kernel
def _apart(data, indices, a, a_stop, b, b_stop):
    """|x - y|^2 of two rows by merging their indices: exactly 0 for equal rows."""
    total = 0.0
    while a < a_stop or b < b_stop:
        if b == b_stop or (a < a_stop and indices[a] < indices[b]):
            difference = np.float64(data[a])
            a += 1
        elif a == a_stop or indices[b] < indices[a]:
            difference = np.float64(data[b])
            b += 1
        else:
            difference = np.float64(data[a]) - np.float64(data[b])
            a += 1
            b += 1
        total += difference * difference
    return total


@kernel
def _form(M, data, indices, indptr, row, column):
    """x_row^T M x_column over the non-zeros."""
    total = 0.0
    for a in range(indptr[row], indptr[row + 1]):
        r = indices[a]
        part = 0.0
        for b in range(indptr[column], indptr[column + 1]):
            part += np.float64(M[r, indices[b]]) * np.float64(data[b])
        total += np.float64(data[a]) * part
    return total


@kernel
def _difference(M, data, indices, indptr, row, plus, minus):
    """x_row^T M (x_plus - x_minus): each row of M is visited once."""
    total = 0.0
    for a in range(indptr[row], indptr[row + 1]):
        r = indices[a]
        part = 0.0
        for b in range(indptr[plus], indptr[plus + 1]):
            part += np.float64(M[r, indices[b]]) * np.float64(data[b])
        for b in range(indptr[minus], indptr[minus + 1]):
            part -= np.float64(M[r, indices[b]]) * np.float64(data[b])
        total += np.float64(data[a]) * part
    return total


@kernel
def _add_difference(M, weight, data, indices, indptr, row, plus, minus):
    """M += weight x_row (x_plus - x_minus)^T."""
    for a in range(indptr[row], indptr[row + 1]):
        r = indices[a]
        x = weight * np.float64(data[a])
        for b in range(indptr[plus], indptr[plus + 1]):
            M[r, indices[b]] += x * data[b]
        for b in range(indptr[minus], indptr[minus + 1]):
            M[r, indices[b]] -= x * data[b]


@kernel
def _add(M, weight, data, indices, indptr, row, column):
    """M += weight x_row x_column^T over the non-zeros."""
    for a in range(indptr[row], indptr[row + 1]):
        r = indices[a]
        x = weight * np.float64(data[a])
        for b in range(indptr[column], indptr[column + 1]):
            M[r, indices[b]] += x * data[b]
