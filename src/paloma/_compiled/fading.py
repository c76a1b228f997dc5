"""LogDet steps while what was learned fades: the loop of `paloma._compiled.logdet` on inverses.

Before each triplet every inverse decays toward that of the start, P <- P0 + g (P - P0): P = M^-1 is where LogDet steps
add up (theory 8), so a step taken k triplets ago weighs g^k, and g P + (1 - g) P0 stays positive definite. Decay has
full rank, so each form a^T M a takes a new Cholesky factor of P: O(d^3) per triplet.
"""

import numpy as np

from .jit import compiled, inlined
from .logdet import Rates, logdet_step, rates_of
from .steps import squared_norm


@compiled
def fading_sweep(triplets, rows, matrices, origin, forget, kernel, squared, out):
    """Learn triplets one by one on the inverses U and stack, in place; returns (sum of hinge losses, updates).

    origin : the inverse of the start.  Others: see `logdet_sweep`.  A class decays when it is next met, or at the end.
    """
    members, margins, C, norms = triplets
    tau, gaps, weight = out
    (U, stack, slots), lam, mu = matrices, kernel.lam, kernel.mu
    n, g = members.shape[0], 1.0 - forget
    decayed = np.zeros(stack.shape[0], np.int64)
    form, work = np.zeros(3), np.empty((2, rows.shape[1]))
    loss, updates = 0.0, 0
    for t in range(n):
        k, b = members[t, 0], members[t, 1]
        i, j = slots[k], slots[b]
        gap, p, q, r, s = margins[t], 0.0, 0.0, 0.0, 0.0
        _decay(U, origin, g)
        if lam > 0.0:
            _inverse_forms(U, rows[k], rows[b], work, form)
            gap += lam * (form[0] - form[1])
            p, q = rates_of(form, lam)
        for slot in (i, j):
            if slot >= 0 and decayed[slot] <= t:
                _decay(stack[slot], origin, g ** (t + 1 - decayed[slot]))
                decayed[slot] = t + 1
        if i == j and i >= 0:
            _inverse_forms(stack[i], rows[k], rows[b], work, form)
            gap += mu * (form[0] - form[1])
            r, s = rates_of(form, mu)
        else:
            if i >= 0:
                _inverse_forms(stack[i], rows[k], rows[k], work, form)
                r = mu * form[0]
            if j >= 0:
                _inverse_forms(stack[j], rows[b], rows[b], work, form)
                s = mu * form[0]
            gap += r - s
        loss += max(gap, 0.0)
        norm = squared_norm(kernel, i, j, norms[t, 0], norms[t, 1], norms[t, 2])
        step = logdet_step(squared, gap, norm, margins[t], Rates(p, q, r, s), C[t])
        gaps[t], tau[t] = gap, step
        if step > 0.0:
            updates += 1
            for pair, slot, move in ((k, i, step), (b, j, -step)):
                weight[pair] += move
                _add(U, rows[pair], lam * move)
                if slot >= 0:
                    _add(stack[slot], rows[pair], mu * move)
    for slot in range(stack.shape[0]):
        _decay(stack[slot], origin, g ** (n - decayed[slot]))
    return loss, updates


@inlined
def _decay(P, origin, g):
    for r in range(P.shape[0]):
        for s in range(P.shape[0]):
            P[r, s] = origin[r, s] + g * (P[r, s] - origin[r, s])


@inlined
def _inverse_forms(P, a, b, work, out):
    """(a^T M a, b^T M b, a^T M b) of M = P^-1, by u = L^-1 a and v = L^-1 b, P = L L^T."""
    lower = np.linalg.cholesky(P)
    u, v = work[0], work[1]
    alpha, beta, gamma = 0.0, 0.0, 0.0
    for r in range(P.shape[0]):
        x, y = a[r], b[r]
        for s in range(r):
            x -= lower[r, s] * u[s]
            y -= lower[r, s] * v[s]
        u[r], v[r] = x / lower[r, r], y / lower[r, r]
        alpha += u[r] * u[r]
        beta += v[r] * v[r]
        gamma += u[r] * v[r]
    out[0], out[1], out[2] = alpha, beta, gamma


@inlined
def _add(P, a, weight):
    """P += weight a a^T."""
    for r in range(P.shape[0]):
        x = weight * a[r]
        for s in range(P.shape[0]):
            P[r, s] += x * a[s]
