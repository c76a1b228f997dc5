"""Loops for similarities on CSR rows: losses and updates touch only the non-zeros (OASIS's own setting).

A triplet reads and writes nnz x 2 nnz scattered numbers of U. If U is larger than the caches, that waits for memory; so
the global learner takes exact blocks (theory 10) in which each row of U is visited once, for all triplets whose anchors
have that feature, and what steps do to later triplets of the block comes from lists of the steps by feature.
"""

from typing import Any, NamedTuple

import numpy as np

from .jit import compiled, inlined
from .prefetch import LINE, prefetch
from .steps import squared_norm, take


class Csr(NamedTuple):
    """Points: the rows of a CSR matrix with sorted indices, times a factor."""

    data: Any
    indices: Any
    indptr: Any
    factor: float


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


@compiled
def sparse_norms(rows, members):
    """|p|^2 |p+ - p-|^2 of each triplet in float64 (theory 7)."""
    out = np.empty(members.shape[0])
    f4 = np.float64(rows.factor) ** 4
    for t in range(members.shape[0]):
        out[t] = f4 * _square(rows, members[t, 0]) * _apart(rows, members[t, 1], members[t, 2])
    return out


# A row of U that so many triplets need is asked for as a whole, while those that need the row before pick from that.
WHOLE = 4


@compiled
def sparse_values(M, anchors, differences):
    """p_t^T M v_t of each triplet; `anchors` lists the p by feature (CSC), `differences` has the rows v = p+ - p-.

    Here and below indices are unsigned: they cannot count from the end, and checking that costs as much as the sums.
    """
    data, triplets, begin = anchors.data, anchors.indices, anchors.indptr
    v_data, v_indices, v_begin = differences.data, differences.indices, differences.indptr
    out = np.zeros(v_begin.shape[0] - 1)
    for r in range(M.shape[0]):
        row, share = M[r], _share(M, begin, r)
        for a in range(begin[r], begin[r + 1]):
            t = triplets[a]
            _ask(M, r + 1, a - begin[r], share)
            part = 0.0
            for b in range(np.uint64(v_begin[t]), np.uint64(v_begin[t + 1])):
                part += np.float64(row[np.uint32(v_indices[b])]) * np.float64(v_data[b])
            out[t] += np.float64(data[a]) * part
    return out


@compiled
def sparse_move(M, anchors, differences, weight):
    """M += sum_t weight_t p_t v_t^T; arguments as in `sparse_values`."""
    data, triplets, begin = anchors.data, anchors.indices, anchors.indptr
    v_data, v_indices, v_begin = differences.data, differences.indices, differences.indptr
    for r in range(M.shape[0]):
        row, share = M[r], _share(M, begin, r)
        for a in range(begin[r], begin[r + 1]):
            t = triplets[a]
            _ask(M, r + 1, a - begin[r], share)
            if weight[t] == 0.0:
                continue
            x = weight[t] * np.float64(data[a])
            for b in range(np.uint64(v_begin[t]), np.uint64(v_begin[t + 1])):
                row[np.uint32(v_indices[b])] += x * v_data[b]


@inlined
def _share(M, begin, r):
    """How many numbers of the next row each triplet that needs row r asks for; 0 if few need the next one."""
    if r + 1 == M.shape[0] or begin[r + 2] - begin[r + 1] < WHOLE:
        return 0
    return M.shape[1] // max(begin[r + 1] - begin[r], 1) + 1


@inlined
def _ask(M, r, k, share):
    """Ask for the k-th share of row r."""
    for c in range(k * share, min((k + 1) * share, M.shape[1]), LINE // M.itemsize):
        prefetch(M, r, c)


@compiled
def sparse_sweep(triplets, values, points, begins, kernel, rule, out, scale=None):
    """Steps of a block without classes: fills tau, gaps and weight; returns (sum of hinge losses, updates).

    values : p^T U v at the start of the block.  points : CSR rows p and v of the triplets.  begins : for each feature,
    where the list of the p, and of the v, that have it begins; the lists grow by the triplets that take a step.
    """
    (p, v), (p_begin, v_begin), (tau, gaps, weight) = points, begins, out
    n, f2, loss, updates = values.shape[0], np.float64(p.factor) * np.float64(p.factor), 0.0, 0
    p_end, v_end = p_begin.copy(), v_begin.copy()
    p_steps, v_steps = np.empty(p.data.shape[0], np.int32), np.empty(v.data.shape[0], np.int32)
    p_data, v_data = np.empty(p.data.shape[0], p.data.dtype), np.empty(v.data.shape[0], v.data.dtype)
    steps, p_inner, v_inner = np.empty(n), np.zeros(n), np.zeros(n)
    for t in range(n):
        _inner_products(p, t, p_begin, p_end, p_steps, p_data, p_inner)
        _inner_products(v, t, v_begin, v_end, v_steps, v_data, v_inner)
        value = values[t]
        for s in range(updates):
            value += steps[s] * p_inner[s] * v_inner[s]
            p_inner[s] = 0.0
            v_inner[s] = 0.0
        norm = squared_norm(kernel, -1, -1, triplets.norms[t], 0.0, 0.0)
        weighs = 1.0 if scale is None else scale[t]
        gaps[t], tau[t], step = take(rule, triplets.margins[t], triplets.C[t], norm, -f2 * kernel.lam * value, weighs)
        loss += max(gaps[t], 0.0)
        weight[t] = kernel.lam * step * f2
        if step == 0.0:
            continue
        steps[updates] = weight[t]
        _enter(p, t, updates, p_end, p_steps, p_data)
        _enter(v, t, updates, v_end, v_steps, v_data)
        updates += 1
    return loss, updates


@compiled
def _inner_products(rows, t, begin, end, steps, data, out):
    """out_s += <x_t, x_s> of row t and those that lists by feature hold."""
    for a in range(rows.indptr[t], rows.indptr[t + 1]):
        c, x = rows.indices[a], np.float64(rows.data[a])
        for e in range(np.uint64(begin[c]), np.uint64(end[c])):
            out[np.uint32(steps[e])] += x * np.float64(data[e])


@compiled
def _enter(rows, t, number, end, steps, data):
    """Put row t into the lists of its features, as this number."""
    for a in range(rows.indptr[t], rows.indptr[t + 1]):
        c = rows.indices[a]
        steps[end[c]] = number
        data[end[c]] = rows.data[a]
        end[c] += 1
