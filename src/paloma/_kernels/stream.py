"""The fused per-triplet loop for small dimensions, where the overhead of blocks would dominate.

The same iterates as the blocked path, for both measures: phi+ = l_1 r_1^T and phi- = l_2 r_2^T, with l = r = p - x for
a distance and l = p, r = x for a similarity (spec.md 6.1 and 7). Inner loops run along rows, without horizontal sums.

Vector loops begin with a check that arrays are not near each other in memory and else run one by one, with other
rounding. So the working vectors stand kilobytes apart, and no loop writes to two matrices: the same bits wherever the
allocator puts things.
"""

import numpy as np

from .jit import inlined, kernel
from .steps import squared_norm, step_size


@kernel
def stream(X, factor, triplets, classes, C, lam, mu, U, L, sign, margins, code, constants, tau, gaps=None, scale=None):
    """Learn triplets one by one on U and the stack L, in place; returns (sum of hinge losses, updates).

    classes : slots of L of the positive and the negative, below zero class-free or global.
    sign : +1 distances, -1 similarities.
    gaps, scale : see `paloma._kernels.sweep.sweep`; with `scale`, U and L hold what was learnt in its units.
    """
    d = X.shape[1]
    work = np.empty((8, max(d, 1024)), X.dtype)
    l1, r1, l2, r2, w, v = work[1, :d], work[2, :d], work[3, :d], work[4, :d], work[5, :d], work[6, :d]
    norms = np.empty(3)
    loss, updates = 0.0, 0
    for t in range(triplets.shape[0]):
        if sign > 0:
            _differences(X, triplets[t], factor, l1, r1, l2, r2, norms)
        else:
            _points(X, triplets[t], factor, l1, r1, l2, r2, norms)
        i, j = classes[t, 0], classes[t, 1]
        if i >= 0 and j >= 0:
            value = _local_value(U, L[i], L[j], lam, mu, l1, r1, l2, r2, w, v)
        else:
            value = lam * (_form(U, l1, r1, w) - _form(U, l2, r2, w))
            if i >= 0:
                value += mu * _form(L[i], l1, r1, w)
            if j >= 0:
                value -= mu * _form(L[j], l2, r2, w)
        gap = margins[t] + sign * value
        if scale is not None:
            gap = margins[t] + scale[t] * sign * value
        if gaps is not None:
            gaps[t] = gap
        loss += max(gap, 0.0)
        norm = squared_norm(lam * lam, mu * mu, i, j, norms[0], norms[1], norms[2])
        step = step_size(code, gap, norm, C[t], constants[0], constants[1])
        tau[t] = step
        if step == 0.0:
            continue
        updates += 1
        if scale is not None:
            step /= scale[t]
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
    """Factors a, a, b, b of a distance and (N_d, |a|^4, |b|^4) from the points (spec 6.1)."""
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
    """Factors p, p+, p, p- of a similarity and |p|^2 (|p+ - p-|^2, |p+|^2, |p-|^2) (spec 7)."""
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
def _local_value(U, Li, Lj, lam, mu, l1, r1, l2, r2, w, v):
    """l_1^T (lam U + mu L_i) r_1 - l_2^T (lam U + mu L_j) r_2."""
    d = w.shape[0]
    shared, local = U.dtype.type(lam), U.dtype.type(mu)
    w[:] = 0
    v[:] = 0
    for r in range(d):
        x, y = l1[r], l2[r]
        for s in range(d):
            u = shared * U[r, s]
            w[s] += x * (u + local * Li[r, s])
            v[s] += y * (u + local * Lj[r, s])
    total = 0.0
    for s in range(d):
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
