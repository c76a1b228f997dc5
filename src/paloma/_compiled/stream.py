"""The fused per-triplet loop for small dimensions, where the overhead of blocks would dominate.

The same iterates as the blocked path, for both measures: phi+ = l_1 r_1^T and phi- = l_2 r_2^T, with l = r = p - x for
a distance and l = p, r = x for a similarity (theory 6.1 and 7). Inner loops run along rows, without horizontal sums.

Vector loops begin with a check that arrays are not near each other in memory and else run one by one, with other
rounding. So the working vectors stand kilobytes apart, and no loop writes to two matrices: the same bits wherever the
allocator puts things.
"""

import numpy as np

from .jit import compiled, inlined
from .steps import squared_norm, take


@compiled
def stream(triplets, rows, matrices, kernel, sign, rule, out, scale=None):
    """Learn triplets one by one on U and the stack L, in place; returns (sum of hinge losses, updates).

    sign : +1 distances, -1 similarities.  scale : see `sweep`; U and L are in its units.
    """
    members, margins, C, tau, gaps = triplets.members, triplets.margins, triplets.C, out.tau, out.gaps
    (X, factor), (U, L, slots), lam, mu = rows, matrices, kernel.lam, kernel.mu
    d = X.shape[1]
    work = np.empty((8, max(d, 1024)), X.dtype)
    l1, r1, l2, r2, w, v = work[1, :d], work[2, :d], work[3, :d], work[4, :d], work[5, :d], work[6, :d]
    norms = np.empty(3)
    loss, updates = 0.0, 0
    for t in range(members.shape[0]):
        if sign > 0:
            _differences(X, members[t], factor, l1, r1, l2, r2, norms)
        else:
            _points(X, members[t], factor, l1, r1, l2, r2, norms)
        i, j = slots[t, 0], slots[t, 1]
        if i >= 0 and j >= 0:
            _local_images(U, L[i], L[j], kernel, l1, l2, w, v)
            value = _difference(w, r1, v, r2)
        else:
            value = lam * (_form(U, l1, r1, w) - _form(U, l2, r2, w))
            if i >= 0:
                value += mu * _form(L[i], l1, r1, w)
            if j >= 0:
                value -= mu * _form(L[j], l2, r2, w)
        norm = squared_norm(kernel, i, j, norms[0], norms[1], norms[2])
        weighs = 1.0 if scale is None else scale[t]
        gap, tau[t], step = take(rule, margins[t], C[t], norm, sign * value, weighs)
        gaps[t] = gap
        loss += max(gap, 0.0)
        if step == 0.0:
            continue
        updates += 1
        for s in range(d):
            w[s] = sign * step * l1[s]
            v[s] = sign * step * l2[s]
        _move_both(U, lam, w, r1, v, r2)
        if i == j and i >= 0:
            _move_both(L[i], mu, w, r1, v, r2)
            continue
        if i >= 0:
            _move(L[i], mu, w, r1)
        if j >= 0:
            _move(L[j], -mu, v, r2)
    return loss, updates


@inlined
def _differences(X, triplet, factor, l1, r1, l2, r2, norms):
    """Factors a, a, b, b of a distance and (N_d, |a|^4, |b|^4) from the points (theory 6.1)."""
    p, q, n = triplet[0], triplet[1], triplet[2]
    aa, bb, apart, along = 0.0, 0.0, 0.0, 0.0
    for s in range(X.shape[1]):
        a, b, c = (X[p, s] - X[q, s]) * factor, (X[p, s] - X[n, s]) * factor, (X[n, s] - X[q, s]) * factor
        l1[s], r1[s], l2[s], r2[s] = a, a, b, b
        x, y, z = np.float64(a), np.float64(b), np.float64(c)
        aa += x * x
        bb += y * y
        apart += z * z
        along += (x + y) * (x + y)
    norms[0] = 0.5 * (apart * along + (aa - bb) * (aa - bb))
    norms[1], norms[2] = aa * aa, bb * bb


@inlined
def _points(X, triplet, factor, l1, r1, l2, r2, norms):
    """Factors p, p+, p, p- of a similarity and |p|^2 (|p+ - p-|^2, |p+|^2, |p-|^2) (theory 7)."""
    p, q, n = triplet[0], triplet[1], triplet[2]
    pp, qq, nn, apart = 0.0, 0.0, 0.0, 0.0
    for s in range(X.shape[1]):
        a, b, c = X[p, s] * factor, X[q, s] * factor, X[n, s] * factor
        l1[s], r1[s], l2[s], r2[s] = a, b, a, c
        x, y, z = np.float64(a), np.float64(b), np.float64(c)
        pp += x * x
        qq += y * y
        nn += z * z
        apart += (y - z) * (y - z)
    norms[0], norms[1], norms[2] = pp * apart, pp * qq, pp * nn


@inlined
def _local_images(U, Li, Lj, kernel, l1, l2, w, v):
    """w = l_1^T (lam U + mu L_i), v = l_2^T (lam U + mu L_j), in one pass over U."""
    d = w.shape[0]
    shared, local = U.dtype.type(kernel.lam), U.dtype.type(kernel.mu)
    w[:] = 0
    v[:] = 0
    for r in range(d):
        x, y = l1[r], l2[r]
        for s in range(d):
            u = shared * U[r, s]
            w[s] += x * (u + local * Li[r, s])
            v[s] += y * (u + local * Lj[r, s])


@inlined
def _difference(w, r1, v, r2):
    """<w, r_1> - <v, r_2>."""
    total = 0.0
    for s in range(w.shape[0]):
        total += np.float64(w[s] * r1[s] - v[s] * r2[s])
    return total


@inlined
def _form(M, left, right, w):
    """left^T M right."""
    w[:] = 0
    for r in range(w.shape[0]):
        x = left[r]
        for s in range(w.shape[0]):
            w[s] += x * M[r, s]
    total = 0.0
    for s in range(w.shape[0]):
        total += np.float64(w[s] * right[s])
    return total


@inlined
def _move_both(M, weight, w, r1, v, r2):
    factor = M.dtype.type(weight)
    for r in range(w.shape[0]):
        x, y = factor * w[r], factor * v[r]
        for s in range(w.shape[0]):
            M[r, s] -= x * r1[s] - y * r2[s]


@inlined
def _move(M, weight, left, right):
    factor = M.dtype.type(weight)
    for r in range(left.shape[0]):
        x = factor * left[r]
        for s in range(left.shape[0]):
            M[r, s] -= x * right[s]
