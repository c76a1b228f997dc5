"""The fused loop for similarities on CSR rows: losses and updates touch only the non-zeros (OASIS's own setting)."""

import numpy as np

from .jit import compiled
from .steps import squared_norm, take


@compiled
def sparse_stream(triplets, rows, matrices, kernel, rule, out, scale=None):
    """LOSL (theory 7) on U and the stack L in place; arguments as in `stream`."""
    members, margins, C, tau, gaps = triplets.members, triplets.margins, triplets.C, out.tau, out.gaps
    (U, L, slots), lam, mu = matrices, kernel.lam, kernel.mu
    loss, updates = 0.0, 0
    f2 = np.float64(rows.factor) * np.float64(rows.factor)
    for t in range(members.shape[0]):
        p, q, n = members[t, 0], members[t, 1], members[t, 2]
        i, j = slots[t, 0], slots[t, 1]
        pp, qq, nn = f2 * _square(rows, p), f2 * _square(rows, q), f2 * _square(rows, n)
        apart = f2 * _apart(rows, q, n)
        value = lam * _difference(U, rows, p, q, n)
        if i >= 0:
            value += mu * _form(L[i], rows, p, q)
        if j >= 0:
            value -= mu * _form(L[j], rows, p, n)
        norm = squared_norm(kernel, i, j, pp * apart, pp * qq, pp * nn)
        weighs = 1.0 if scale is None else scale[t]
        gap, tau[t], step = take(rule, margins[t], C[t], norm, -f2 * value, weighs)
        gaps[t] = gap
        loss += max(gap, 0.0)
        if step == 0.0:
            continue
        updates += 1
        _add_difference(U, lam * step * f2, rows, p, q, n)
        if i >= 0:
            _add(L[i], mu * step * f2, rows, p, q)
        if j >= 0:
            _add(L[j], -mu * step * f2, rows, p, n)
    return loss, updates


@compiled
def _square(rows, row):
    data, indptr, total = rows.data, rows.indptr, 0.0
    for k in range(indptr[row], indptr[row + 1]):
        total += np.float64(data[k]) * np.float64(data[k])
    return total


@compiled
def _apart(rows, first, second):
    """|x - y|^2 of two rows by merging their indices: exactly 0 for equal rows."""
    data, indices, indptr, total = rows.data, rows.indices, rows.indptr, 0.0
    a, a_stop, b, b_stop = indptr[first], indptr[first + 1], indptr[second], indptr[second + 1]
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


@compiled
def _form(M, rows, row, column):
    """x_row^T M x_column over the non-zeros."""
    data, indices, indptr, total = rows.data, rows.indices, rows.indptr, 0.0
    for a in range(indptr[row], indptr[row + 1]):
        r = indices[a]
        part = 0.0
        for b in range(indptr[column], indptr[column + 1]):
            part += np.float64(M[r, indices[b]]) * np.float64(data[b])
        total += np.float64(data[a]) * part
    return total


@compiled
def _difference(M, rows, row, plus, minus):
    """x_row^T M (x_plus - x_minus): each row of M is visited once."""
    data, indices, indptr, total = rows.data, rows.indices, rows.indptr, 0.0
    for a in range(indptr[row], indptr[row + 1]):
        r = indices[a]
        part = 0.0
        for b in range(indptr[plus], indptr[plus + 1]):
            part += np.float64(M[r, indices[b]]) * np.float64(data[b])
        for b in range(indptr[minus], indptr[minus + 1]):
            part -= np.float64(M[r, indices[b]]) * np.float64(data[b])
        total += np.float64(data[a]) * part
    return total


@compiled
def _add_difference(M, weight, rows, row, plus, minus):
    """M += weight x_row (x_plus - x_minus)^T."""
    data, indices, indptr = rows.data, rows.indices, rows.indptr
    for a in range(indptr[row], indptr[row + 1]):
        r = indices[a]
        x = weight * np.float64(data[a])
        for b in range(indptr[plus], indptr[plus + 1]):
            M[r, indices[b]] += x * data[b]
        for b in range(indptr[minus], indptr[minus + 1]):
            M[r, indices[b]] -= x * data[b]


@compiled
def _add(M, weight, rows, row, column):
    """M += weight x_row x_column^T over the non-zeros."""
    data, indices, indptr = rows.data, rows.indices, rows.indptr
    for a in range(indptr[row], indptr[row + 1]):
        r = indices[a]
        x = weight * np.float64(data[a])
        for b in range(indptr[column], indptr[column + 1]):
            M[r, indices[b]] += x * data[b]
