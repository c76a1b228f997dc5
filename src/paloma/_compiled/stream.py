"""The fused per-triplet loops for small dimensions, where the overhead of blocks would dominate.

The same iterates as the blocked path (theory 6.1 and 7). Matrices are read and moved by `vectors`; for a distance in
their upper triangles alone.

Vector loops that the compiler finds begin with a check that arrays are not near each other in memory and else run one
by one, with other rounding. So the working vectors stand kilobytes apart: the same bits wherever the allocator puts
things.

These are the first loops that most people wait for. So they are written out, because small functions and slices take
longer to compile than what they hold.
"""

import numpy as np

from .jit import in_place
from .steps import squared_norm, take
from .vectors import forms, move

# Numbers by which working vectors stand apart at least.
APART = 1024


def working(d, dtype):
    """Room for the working vectors of a loop."""
    return np.empty((8, max(d, APART)), dtype)


@in_place
def distance_stream(triplets, rows, matrices, kernel, ragged, rule, out, scale=None):
    """Learn triplets one by one on U and the stack L, in place; returns (sum of hinge losses, updates).

    Symmetric matrices are read and moved in their upper triangles.
    ragged : see `vectors`.  scale : see `sweep`; U and L are in its units.
    """
    members, margins, C = triplets.members, triplets.margins, triplets.C
    X, factor, tau, gaps = rows.X, rows.factor, out.tau, out.gaps
    U, L, slots = matrices
    d, shared, local = X.shape[1], X.dtype.type(kernel.lam), X.dtype.type(kernel.mu)
    a, b = rows.work[1], rows.work[2]
    loss, updates = 0.0, 0
    for t in range(members.shape[0]):
        p, q, n = members[t, 0], members[t, 1], members[t, 2]
        i, j = slots[t, 0], slots[t, 1]
        aa = bb = apart = along = 0.0
        for s in range(d):
            x, y, z = X[p, s], X[q, s], X[n, s]
            x, y, z = (x - y) * factor, (x - z) * factor, (z - y) * factor
            a[s], b[s] = x, y
            x64, y64, z64 = np.float64(x), np.float64(y), np.float64(z)
            aa += x64 * x64
            bb += y64 * y64
            apart += z64 * z64
            along += (x64 + y64) * (x64 + y64)
        both = 0.5 * (apart * along + (aa - bb) * (aa - bb))
        of_a, of_b = forms(ragged, U, 0, a, U, 0, b)
        value = shared * (of_a - of_b)
        if i >= 0 or j >= 0:
            of_a, of_b = forms(ragged, L, max(i, 0), a, L, max(j, 0), b)
            value += local * ((of_a if i >= 0 else 0) - (of_b if j >= 0 else 0))
        norm = squared_norm(kernel, i, j, both, aa * aa, bb * bb)
        weighs = 1.0 if scale is None else scale[t]
        gap, tau[t], step = take(rule, margins[t], C[t], norm, np.float64(value), weighs)
        gaps[t] = gap
        loss += 0.0 if gap < 0.0 else gap
        if step == 0.0:
            continue
        updates += 1
        x, y = shared * X.dtype.type(step), local * X.dtype.type(step)
        move(ragged, U, 0, -x, a, b)
        if i >= 0:
            move(ragged, L, i, -y, a)
        if j >= 0:
            move(ragged, L, j, y, b)
    return loss, updates


@in_place
def similarity_stream(triplets, rows, matrices, kernel, free, rule, out, scale=None):
    """The same for similarities: a step moves U along p (p+ - p-)^T, which are a and e."""
    members, margins, C = triplets.members, triplets.margins, triplets.C
    X, factor, tau, gaps = rows.X, rows.factor, out.tau, out.gaps
    U, L, slots = matrices
    d, shared, local = X.shape[1], X.dtype.type(kernel.lam), X.dtype.type(kernel.mu)
    work, four = rows.work, d - d % 4
    a, b, c = work[1], work[2], work[3]
    e, w, v = work[4], work[5], work[6]
    loss, updates = 0.0, 0
    for t in range(members.shape[0]):
        p, q, n = members[t, 0], members[t, 1], members[t, 2]
        i, j = slots[t, 0], slots[t, 1]
        pp = qq = nn = apart = 0.0
        for s in range(d):
            x, y, z = X[p, s] * factor, X[q, s] * factor, X[n, s] * factor
            a[s], b[s], c[s] = x, y, z
            e[s] = y - z
            w[s] = v[s] = 0
            x64, y64, z64 = np.float64(x), np.float64(y), np.float64(z)
            pp += x64 * x64
            qq += y64 * y64
            nn += z64 * z64
            apart += (y64 - z64) * (y64 - z64)
        if free is None or (i >= 0 and j >= 0):  # w = p^T (lam U + mu L_i), v = p^T (lam U + mu L_j), in one pass
            for r in range(0, four, 4):
                x, x1, x2, x3 = a[r], a[r + 1], a[r + 2], a[r + 3]
                for s in range(d):
                    u, u1, u2, u3 = shared * U[r, s], shared * U[r + 1, s], shared * U[r + 2, s], shared * U[r + 3, s]
                    w[s] += (
                        x * (u + local * L[i, r, s]) + x1 * (u1 + local * L[i, r + 1, s])
                        + x2 * (u2 + local * L[i, r + 2, s]) + x3 * (u3 + local * L[i, r + 3, s])
                    )  # fmt: skip
                    v[s] += (
                        x * (u + local * L[j, r, s]) + x1 * (u1 + local * L[j, r + 1, s])
                        + x2 * (u2 + local * L[j, r + 2, s]) + x3 * (u3 + local * L[j, r + 3, s])
                    )  # fmt: skip
            for r in range(four, d):
                x = a[r]
                for s in range(d):
                    u = shared * U[r, s]
                    w[s] += x * (u + local * L[i, r, s])
                    v[s] += x * (u + local * L[j, r, s])
        else:
            for r in range(d):
                x = shared * a[r]
                for s in range(d):
                    w[s] += x * U[r, s]
            for s in range(d):
                v[s] = w[s]
            if i >= 0:
                for r in range(d):
                    x = local * a[r]
                    for s in range(d):
                        w[s] += x * L[i, r, s]
            if j >= 0:
                for r in range(d):
                    x = local * a[r]
                    for s in range(d):
                        v[s] += x * L[j, r, s]
        value = 0.0
        for s in range(d):
            value += np.float64(w[s] * b[s] - v[s] * c[s])
        norm = squared_norm(kernel, i, j, pp * apart, pp * qq, pp * nn)
        weighs = 1.0 if scale is None else scale[t]
        gap, tau[t], step = take(rule, margins[t], C[t], norm, -value, weighs)
        gaps[t] = gap
        loss += 0.0 if gap < 0.0 else gap
        if step == 0.0:
            continue
        updates += 1
        for s in range(d):
            w[s] = step * a[s]
        for r in range(d):
            x = shared * w[r]
            for s in range(d):
                U[r, s] += x * e[s]
        if i == j:
            if free is None or i >= 0:
                for r in range(d):
                    x = local * w[r]
                    for s in range(d):
                        L[i, r, s] += x * e[s]
            continue
        if free is None or i >= 0:
            for r in range(d):
                x = local * w[r]
                for s in range(d):
                    L[i, r, s] += x * b[s]
        if free is None or j >= 0:
            for r in range(d):
                x = local * w[r]
                for s in range(d):
                    L[j, r, s] -= x * c[s]
    return loss, updates
