"""The exact LogDet step and the loop over triplets that takes it (theory 8).

The step is M^-1 += t (aa^T - bb^T), t = lam tau at U and mu tau at a class's L: a shrinking along a and then a growing
along b, each of rank one. With alpha = a^T M a, beta = b^T M b, gamma = a^T M b its determinant factors,

    Delta(t) = 1 + t (alpha - beta) - t^2 (alpha beta - gamma^2) = (1 + t p)(1 - t q),    p, q >= 0,

so every matrix that a triplet touches enters the one-dimensional dual through at most one rate p at which it shrinks
and one rate q at which it grows: g(tau) = m + sum p / (1 + tau p) - sum q / (1 - tau q), where q tau < 1 keeps the
matrix positive definite. The squared hinge subtracts tau / 2C. Forms are never below 0, whatever rounding says.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from .jit import compiled, inlined
from .steps import squared_norm


class Spans(NamedTuple):
    """U and class matrices of different sizes: that of a slot is flat[begin : begin + size^2]; slots of each pair."""

    shared: Any
    flat: Any
    begin: Any
    size: Any
    slots: Any


class Rates(NamedTuple):
    """Rates at which a LogDet step shrinks and grows: p, q the shared matrix, r, s the class matrices (0: none)."""

    p: float
    q: float
    r: float
    s: float


@compiled
def logdet_sweep(triplets, rows, local_rows, spans, kernel, squared, out):
    """Learn triplets one by one on U and the class matrices, in place; returns (sum of hinge losses, updates).

    rows, local_rows : each pair p - q in the coordinates of U, and (the first size[slot] numbers) of its class matrix.
    """
    members, margins, C, norms = triplets
    tau, gaps, weight = out
    (U, flat, begin, size, slots), lam, mu = spans, kernel.lam, kernel.mu
    work = np.empty((5, max(rows.shape[1], local_rows.shape[1], 1024)))
    shared, local = np.zeros(3), np.zeros(3)
    loss, updates = 0.0, 0
    for t in range(members.shape[0]):
        k, b = members[t, 0], members[t, 1]
        i, j = slots[k], slots[b]
        gap, p, q, r, s = margins[t], 0.0, 0.0, 0.0, 0.0
        if lam > 0.0:
            _forms(U, rows[k], rows[b], work[0], work[1], shared)
            gap += lam * (shared[0] - shared[1])
            p, q = rates_of(shared, lam)
        if i == j and i >= 0:
            _forms(_matrix(flat, begin, size, i), local_rows[k], local_rows[b], work[2], work[3], local)
            gap += mu * (local[0] - local[1])
            r, s = rates_of(local, mu)
        else:
            if i >= 0:
                r = mu * _form(_matrix(flat, begin, size, i), local_rows[k], work[2])
            if j >= 0:
                s = mu * _form(_matrix(flat, begin, size, j), local_rows[b], work[3])
            gap += r - s
        loss += max(gap, 0.0)
        norm = squared_norm(kernel, i, j, norms[t, 0], norms[t, 1], norms[t, 2])
        step = logdet_step(squared, gap, norm, margins[t], Rates(p, q, r, s), C[t])
        gaps[t], tau[t] = gap, step
        if step == 0.0:
            continue
        updates += 1
        weight[k] += step
        weight[b] -= step
        if lam > 0.0:
            _move(U, work[0], work[1], lam * step, (1.0 + step * p) * (1.0 - step * q), shared)
        if i == j and i >= 0:
            determinant = (1.0 + step * r) * (1.0 - step * s)
            _move(_matrix(flat, begin, size, i), work[2], work[3], mu * step, determinant, local)
            continue
        if i >= 0:
            _add(_matrix(flat, begin, size, i), work[2], -mu * step / (1.0 + step * r), work[4])
        if j >= 0:
            _add(_matrix(flat, begin, size, j), work[3], mu * step / (1.0 - step * s), work[4])
    return loss, updates


@compiled
def logdet_step(squared, gap, norm, margin, rates, C):
    """The dual variable tau: 0 if gap = g(0) <= 0 or Psi = 0, else the root of g, at most C; closed for one matrix."""
    p, q, r, s = rates
    if not gap > 0.0 or not norm > 0.0 or C == 0.0:
        return 0.0
    if squared or r > 0.0 or s > 0.0:
        return _dual_root(squared, gap, margin, rates, C)
    excess, product = margin * (p - q), p * q
    root = math.hypot(margin * (p + q), 2.0 * product)
    if excess > 0.0:
        rest = 4.0 * product * (margin * margin + product) / (root + excess)
    else:
        rest = root - excess
    denominator = 2.0 * product + rest
    return C if denominator * C <= 2.0 * gap else 2.0 * gap / denominator


@compiled
def _dual_root(squared, gap, margin, rates, C):
    """Root of g, decreasing from g(0) = gap to minus infinity at the pole: Newton inside a shrinking bracket."""
    p, q, r, s = rates
    curve = 0.5 / C if squared else 0.0
    low, high = 0.0, gap / curve if squared else C
    fastest = max(q, s)
    if fastest * high >= 1.0:
        high = 1.0 / fastest
    elif not squared and margin + p / (1.0 + C * p) + r / (1.0 + C * r) >= q / (1.0 - C * q) + s / (1.0 - C * s):
        return C
    tau = min(0.5 * high, gap / (p * p + q * q + r * r + s * s + curve))
    for _ in range(200):
        x, y, z, w = p / (1.0 + tau * p), q / (1.0 - tau * q), r / (1.0 + tau * r), s / (1.0 - tau * s)
        value = gap - tau * (p * x + q * y + r * z + s * w + curve)  # g(tau), without margin - q that cancel
        if value > 0.0:
            low = tau
        else:
            high = tau
        new = tau + value / (x * x + y * y + z * z + w * w + curve)
        if not (low < new < high):
            new = 0.5 * (low + high)
        if abs(new - tau) <= 1e-15 * new:
            return new
        tau = new
    return tau


@inlined
def _matrix(flat, begin, size, slot):
    n = size[slot]
    return flat[begin[slot] : begin[slot] + n * n].reshape((n, n))


@inlined
def rates_of(form, weight):
    """(p, q) times the weight, with p - q = alpha - beta and p q = alpha beta - gamma^2; the smaller by division."""
    s, product = form[0] - form[1], max(form[0] * form[1] - form[2] * form[2], 0.0)
    large = 0.5 * (abs(s) + math.sqrt(s * s + 4.0 * product))
    small = product / large if large > 0.0 else 0.0
    if s >= 0.0:
        return weight * large, weight * small
    return weight * small, weight * large


@inlined
def _forms(M, a, b, u, v, out):
    """u = M a, v = M b and (alpha, beta, gamma), in one pass over the symmetric M, four rows at a time."""
    n = M.shape[0]
    for s in range(n):
        u[s] = 0
        v[s] = 0
    whole = n - n % 4
    for r in range(0, whole, 4):
        a0, a1, a2, a3 = a[r], a[r + 1], a[r + 2], a[r + 3]
        b0, b1, b2, b3 = b[r], b[r + 1], b[r + 2], b[r + 3]
        for s in range(n):
            m0, m1, m2, m3 = M[r, s], M[r + 1, s], M[r + 2, s], M[r + 3, s]
            u[s] += a0 * m0 + a1 * m1 + a2 * m2 + a3 * m3
            v[s] += b0 * m0 + b1 * m1 + b2 * m2 + b3 * m3
    for r in range(whole, n):
        x, y = a[r], b[r]
        for s in range(n):
            u[s] += x * M[r, s]
            v[s] += y * M[r, s]
    alpha, beta, gamma = 0.0, 0.0, 0.0
    for s in range(n):
        alpha += a[s] * u[s]
        beta += b[s] * v[s]
        gamma += a[s] * v[s]
    out[0], out[1], out[2] = max(alpha, 0.0), max(beta, 0.0), gamma


@inlined
def _form(M, a, u):
    """u = M a and a^T M a, likewise."""
    n = M.shape[0]
    for s in range(n):
        u[s] = 0
    whole = n - n % 4
    for r in range(0, whole, 4):
        a0, a1, a2, a3 = a[r], a[r + 1], a[r + 2], a[r + 3]
        for s in range(n):
            u[s] += a0 * M[r, s] + a1 * M[r + 1, s] + a2 * M[r + 2, s] + a3 * M[r + 3, s]
    for r in range(whole, n):
        x = a[r]
        for s in range(n):
            u[s] += x * M[r, s]
    total = 0.0
    for s in range(n):
        total += a[s] * u[s]
    return max(total, 0.0)


@inlined
def _move(M, u, v, t, determinant, form):
    """M^-1 += t (aa^T - bb^T): shrink along u = M a, then grow along v = M b as the shrinking left it.

    The boxed update of theory 8 with its square completed. Products of a vector with itself: symmetric to the last bit.
    """
    shrink = 1.0 + t * form[0]
    down, up, turn = math.sqrt(t / shrink), math.sqrt(t * shrink / determinant), t * form[2] / shrink
    for s in range(M.shape[0]):
        v[s] = up * (v[s] - turn * u[s])
        u[s] = down * u[s]
    for r in range(M.shape[0]):
        x, y = u[r], v[r]
        for s in range(M.shape[0]):
            M[r, s] += y * v[s] - x * u[s]


@inlined
def _add(M, u, weight, w):
    """M += weight u u^T."""
    root, sign = math.sqrt(abs(weight)), math.copysign(1.0, weight)
    for s in range(M.shape[0]):
        w[s] = root * u[s]
    for r in range(M.shape[0]):
        x = sign * w[r]
        for s in range(M.shape[0]):
            M[r, s] += x * w[s]
