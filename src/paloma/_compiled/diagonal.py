"""The fused per-triplet loop on diagonal metrics: one weight per feature, O(d) per triplet (theory 20).

Psi has one part for each vector of weights it touches: lam (a^2 - b^2) for U, mu a^2 for L_i and -mu b^2 for L_j, or
mu (a^2 - b^2) for L_i if i = j; squares are elementwise. Working vectors stand apart in memory for the reason given in
`stream`.
"""

import math

import numpy as np

from .jit import compiled
from .steps import PA, squared_norm, step_size

RAW, CLIPPED, EXACT = range(3)


@compiled
def diagonal_stream(triplets, rows, theta, kernel, rule, out, scale, policy):
    """Learn triplets one by one on U and the stack L, in place; returns (sum of hinge losses, updates).

    scale : None; or g^t of each triplet, if U and L hold deviations from the start, 1, in these units.
    policy : RAW steps; CLIPPED, back into the cone after each step; or EXACT steps inside the cone.
    """
    members, d = triplets.members, theta.shared.shape[0]
    work = np.empty((7, max(d, 1024)), theta.shared.dtype)
    squares = (work[1, :d], work[3, :d], work[5, :d])
    loss, updates = 0.0, 0
    for t in range(members.shape[0]):
        i, j = theta.slots[t, 0], theta.slots[t, 1]
        norm = squared_norm(kernel, i, j, *_squares(rows, members[t], *squares))
        start, unit = 0.0, 1.0
        if scale is not None:
            start, unit = 1.0, scale[t]
        gap = triplets.margins[t]
        for k in range(3):
            weights, factor, square = _part(k, i, j, theta, kernel, squares)
            if factor != 0.0:
                gap += factor * _value(weights, square, start, unit)
        if policy == EXACT and norm > 0.0:
            step = _exact_step(t, i, j, triplets, theta, kernel, rule, squares)
        else:
            step = step_size(rule.code, rule.first, rule.second, gap, norm, triplets.C[t])
        out.gaps[t], out.tau[t] = gap, step
        loss += max(gap, 0.0)
        if step == 0.0:
            continue
        updates += 1
        for k in range(3):
            weights, factor, square = _part(k, i, j, theta, kernel, squares)
            if factor != 0.0:
                _move(weights, factor * step / unit, square, policy != RAW)
    return loss, updates


@compiled
def _squares(rows, triplet, plus, minus, apart):
    """Fill a^2, b^2 and a^2 - b^2; returns the squared norms of the last and of the first two, in float64.

    a^2 - b^2 = (p- - p+) (a + b), feature by feature, without cancellation: exactly 0 if that is what it is.
    """
    X, factor = rows.X, rows.factor
    p, q, n = triplet[0], triplet[1], triplet[2]
    both, positive, negative = 0.0, 0.0, 0.0
    for s in range(X.shape[1]):
        a, b = np.float64((X[p, s] - X[q, s]) * factor), np.float64((X[p, s] - X[n, s]) * factor)
        x, y, z = a * a, b * b, np.float64((X[n, s] - X[q, s]) * factor) * (a + b)
        plus[s], minus[s], apart[s] = x, y, z
        both += z * z
        positive += x * x
        negative += y * y
    return both, positive, negative


@compiled
def _part(k, i, j, theta, kernel, squares):
    """Part k of Psi: the weights it touches, its factor (0: there is no such part), its vector."""
    plus, minus, apart = squares
    if k == 0:
        return theta.shared, kernel.lam, apart
    if k == 1 and i >= 0:
        return theta.stack[i], kernel.mu, apart if i == j else plus
    if k == 2 and j >= 0 and i != j:
        return theta.stack[j], -kernel.mu, minus
    return theta.shared, 0.0, apart


@compiled
def _value(weights, square, start, unit):
    """<start + unit weights, square>."""
    total = 0.0
    for s in range(weights.shape[0]):
        total += (start + unit * np.float64(weights[s])) * np.float64(square[s])
    return total


@compiled
def _move(weights, step, square, clip):
    size = weights.dtype.type(step)
    if clip:
        for s in range(weights.shape[0]):
            weights[s] = max(weights[s] - size * square[s], weights.dtype.type(0.0))
    else:
        for s in range(weights.shape[0]):
            weights[s] -= size * square[s]


@compiled
def _exact_step(t, i, j, triplets, theta, kernel, rule, squares):
    """tau* of theory 6.2: root of g(tau) = m + <P_+(Theta - tau Psi), Psi>, capped at C.

    On the diagonal g is convex, piecewise linear and never increases, so Newton's method from 0 stays left of the root
    and ends on the piece that holds it. If no weight is left to move, a larger tau would change nothing.
    """
    limit = math.inf if rule.code == PA and triplets.C[t] > 0.0 else triplets.C[t]
    tau = 0.0
    while tau < limit:
        gap, slope = triplets.margins[t], 0.0
        for k in range(3):
            weights, factor, square = _part(k, i, j, theta, kernel, squares)
            if factor != 0.0:
                value, fall = _clipped_value(weights, factor, square, tau)
                gap += value
                slope += fall
        if gap <= 0.0 or slope == 0.0:
            break
        move = min(gap / slope, limit - tau)
        tau += move
        if move <= 1e-15 * tau:
            break
    return tau


@compiled
def _clipped_value(weights, factor, square, tau):
    """<P_+(w - tau psi), psi> for the part psi = factor square, and how fast it falls as tau grows."""
    value, fall = 0.0, 0.0
    for s in range(weights.shape[0]):
        psi = factor * np.float64(square[s])
        left = np.float64(weights[s]) - tau * psi
        if left > 0.0 or (left == 0.0 and psi < 0.0):
            value += left * psi
            fall += psi * psi
    return value, fall
