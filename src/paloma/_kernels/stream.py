"""Fused per-triplet loops for small dimensions, where the overhead of blocks would dominate.

The same iterates as the blocked path: loss, squared norm, step size, rank-one updates, one triplet after the other
(spec.md 6.1 for distances, 7 for similarities).
"""

import numpy as np

from .jit import kernel
from .steps import squared_norm, step_size


@kernel
def stream_distance(X, factor, triplets, classes, C, lam, mu, U, L, margin, code, constants, tau):
    """LODML on U and the stack L in place; `classes` are slots of L, below zero class-free or global."""
    d = X.shape[1]
    a, b = np.empty(d, X.dtype), np.empty(d, X.dtype)
    loss, updates = 0.0, 0
    for t in range(triplets.shape[0]):
        p, q, n = triplets[t, 0], triplets[t, 1], triplets[t, 2]
        i, j = classes[t, 0], classes[t, 1]
        aa, bb, minus, plus = 0.0, 0.0, 0.0, 0.0
        for s in range(d):
            a[s] = (X[p, s] - X[q, s]) * factor
            b[s] = (X[p, s] - X[n, s]) * factor
            c = np.float64((X[n, s] - X[q, s]) * factor)
            e, f = np.float64(a[s]), np.float64(b[s])
            aa += e * e
            bb += f * f
            minus += c * c
            plus += (e + f) * (e + f)
        shared, local = 0.0, 0.0
        for r in range(d):
            ua, ub = 0.0, 0.0
            for s in range(d):
                ua += U[r, s] * a[s]
                ub += U[r, s] * b[s]
            shared += a[r] * ua - b[r] * ub
        if i >= 0:
            for r in range(d):
                la = 0.0
                for s in range(d):
                    la += L[i, r, s] * a[s]
                local += a[r] * la
        if j >= 0:
            for r in range(d):
                lb = 0.0
                for s in range(d):
                    lb += L[j, r, s] * b[s]
                local -= b[r] * lb
        gap = margin + lam * shared + mu * local
        loss += max(gap, 0.0)
        both = 0.5 * (minus * plus + (aa - bb) * (aa - bb))
        norm = squared_norm(lam * lam, mu * mu, i, j, both, aa * aa, bb * bb)
        step = step_size(code, gap, norm, C[t], constants[0], constants[1])
        tau[t] = step
        if step == 0.0:
            continue
        updates += 1
        for r in range(d):
            ar, br = step * lam * a[r], step * lam * b[r]
            for s in range(d):
                U[r, s] -= ar * a[s] - br * b[s]
        if i >= 0:
            for r in range(d):
                ar = step * mu * a[r]
                for s in range(d):
                    L[i, r, s] -= ar * a[s]
        if j >= 0:
            for r in range(d):
                br = step * mu * b[r]
                for s in range(d):
                    L[j, r, s] += br * b[s]
    return loss, updates


@kernel
def stream_similarity(X, factor, triplets, classes, C, lam, mu, U, L, margin, code, constants, tau):
    """LOSL on U and the stack L in place; `classes` are slots of L, below zero class-free or global."""
    d = X.shape[1]
    p, q, n = np.empty(d, X.dtype), np.empty(d, X.dtype), np.empty(d, X.dtype)
    loss, updates = 0.0, 0
    for t in range(triplets.shape[0]):
        i, j = classes[t, 0], classes[t, 1]
        pp, qq, nn, dd = 0.0, 0.0, 0.0, 0.0
        for s in range(d):
            p[s] = X[triplets[t, 0], s] * factor
            q[s] = X[triplets[t, 1], s] * factor
            n[s] = X[triplets[t, 2], s] * factor
            e, f = np.float64(q[s]), np.float64(n[s])
            pp += np.float64(p[s]) * np.float64(p[s])
            qq += e * e
            nn += f * f
            dd += (e - f) * (e - f)
        shared, local = 0.0, 0.0
        for r in range(d):
            u = 0.0
            for s in range(d):
                u += U[r, s] * (q[s] - n[s])
            shared += p[r] * u
        if i >= 0:
            for r in range(d):
                u = 0.0
                for s in range(d):
                    u += L[i, r, s] * q[s]
                local += p[r] * u
        if j >= 0:
            for r in range(d):
                u = 0.0
                for s in range(d):
                    u += L[j, r, s] * n[s]
                local -= p[r] * u
        gap = margin - lam * shared - mu * local
        loss += max(gap, 0.0)
        norm = squared_norm(lam * lam, mu * mu, i, j, pp * dd, pp * qq, pp * nn)
        step = step_size(code, gap, norm, C[t], constants[0], constants[1])
        tau[t] = step
        if step == 0.0:
            continue
        updates += 1
        for r in range(d):
            pr = step * lam * p[r]
            for s in range(d):
                U[r, s] += pr * (q[s] - n[s])
        if i >= 0:
            for r in range(d):
                pr = step * mu * p[r]
                for s in range(d):
                    L[i, r, s] += pr * q[s]
        if j >= 0:
            for r in range(d):
                pr = step * mu * p[r]
                for s in range(d):
                    L[j, r, s] -= pr * n[s]
    return loss, updates
