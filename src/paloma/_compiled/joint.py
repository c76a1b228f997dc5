"""Several modalities learned together: a round is open or not for all of them (theory 5).

Theta of the modalities is weighted by Hedge inside the loop, from the sums of their mistakes: see `paloma._core.hedge`.
A gate of infinity is always open, which makes the modalities independent of each other.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from .jit import compiled, inlined
from .steps import squared_norm, step_size
from .sweep import spread


class Columns(NamedTuple):
    """Points of modalities side by side: r has `numbers` of X from bounds[r] to bounds[r + 1], each times a factor."""

    X: Any
    numbers: Any
    bounds: Any
    factors: Any


class Gate(NamedTuple):
    """Hedge over modalities: a round is `opened` if sum_r theta_r f_r + width > tie; sums are mistakes so far."""

    width: float
    tie: float
    log_betas: Any
    sums: Any
    opened: Any


@inlined
def _weighted(gaps, log_beta, sums):
    """sum_r theta_r gaps[r]."""
    top = -math.inf
    for r in range(sums.shape[0]):
        top = max(top, log_beta * sums[r])
    total, combined = 0.0, 0.0
    for r in range(sums.shape[0]):
        theta = math.exp(log_beta * sums[r] - top)
        total += theta
        combined += theta * gaps[r]
    return combined / total


@compiled
def weighted(gaps, log_beta, sums):
    """`_weighted`, for a loop that is not compiled."""
    return _weighted(gaps, log_beta, sums)


@compiled
def joint_sweep(triplets, pairs, kernel, rule, gate, out):
    """`sweep` of m modalities over one list of pairs, for distances.

    Gram matrices (m, P, P), norms (m, T, 3), values and weight (m, P), tau and gaps (T, m). Returns the sum of the
    hinge losses of the weighted distance, and the number of rounds with a step.
    """
    grams, _, classes, values = pairs
    members, margins, C, norms = triplets
    tau, gaps, weight = out
    sums = gate.sums
    loss, updates = 0.0, 0
    for t in range(members.shape[0]):
        k, b = members[t, 0], members[t, 1]
        for r in range(sums.shape[0]):
            gaps[t, r] = margins[t] + (values[r, k] - values[r, b])
            tau[t, r] = 0.0
        combined = _weighted(gaps[t], gate.log_betas[t], sums)
        loss += max(combined, 0.0)
        gate.opened[t] = combined - margins[t] + gate.width > gate.tie
        if not gate.opened[t]:
            continue
        stepped = False
        i, j = classes[k], classes[b]
        for r in range(sums.shape[0]):
            if C[t] > 0.0 and gaps[t, r] >= margins[t] - gate.tie:
                sums[r] += 1.0
            norm = squared_norm(kernel, i, j, norms[r, t, 0], norms[r, t, 1], norms[r, t, 2])
            step = step_size(rule.code, rule.first, rule.second, gaps[t, r], norm, C[t])
            tau[t, r] = step
            if step == 0.0:
                continue
            stepped = True
            weight[r, k] += step
            weight[r, b] -= step
            spread(values[r], grams[r], grams[r], classes, k, b, kernel, step)
        updates += stepped
    return loss, updates


@compiled
def joint_stream(triplets, points, matrices, kernel, rule, gate, full, out):
    """All modalities one triplet after the other, in place, on matrices that stand side by side.

    W (k, D) : that of modality r in the columns of r; L is a stack of such for classes. full : M itself, in the first
    rows, where the value of a pair v is v^T M v (ODML); else a factor W with |W v|^2, moved along its gradient
    (theory 5, LOMDML).
    """
    X, columns, bounds, factors = points
    W, L, slots = matrices
    members, margins, C, lam, mu = triplets.members, triplets.margins, triplets.C, kernel.lam, kernel.mu
    tau, gaps, sums = out.tau, out.gaps, gate.sums
    loss, updates = 0.0, 0
    m, k = sums.shape[0], W.shape[0]
    work, images, parts = np.empty((4, W.shape[1]), X.dtype), np.empty((4, m, k), X.dtype), np.empty((m, 5))
    for t in range(members.shape[0]):
        i, j = slots[t, 0], slots[t, 1]
        _differences(X, members[t], columns, factors, work)
        for r in range(m):
            first, last = bounds[r], bounds[r + 1]
            rows = last - first if full else k
            _products(work, first, last, parts[r])
            _image(W, work[0], first, last, rows, images[0, r])
            _image(W, work[1], first, last, rows, images[1, r])
            if i >= 0:
                _image(L[i], work[0], first, last, rows, images[2, r])
            if j >= 0:
                _image(L[j], work[1], first, last, rows, images[3, r])
            if full:
                value = lam * (_form(images[0, r], work[0], first, last) - _form(images[1, r], work[1], first, last))
                if i >= 0:
                    value += mu * _form(images[2, r], work[0], first, last)
                if j >= 0:
                    value -= mu * _form(images[3, r], work[1], first, last)
                both, aa, bb = parts[r, 0] * parts[r, 1] + parts[r, 2] * parts[r, 2], parts[r, 3], parts[r, 4]
                norm = squared_norm(kernel, i, j, 0.5 * both, aa * aa, bb * bb)
            else:
                value, norm = _value_and_norm(images[0, r], images[1, r], lam, parts[r], True, True, True)
                if i >= 0 or j >= 0:
                    one, two = _value_and_norm(images[2, r], images[3, r], mu, parts[r], i >= 0, j >= 0, i == j)
                    value, norm = value + one, norm + two
            gaps[t, r] = margins[t] + value
            parts[r, 0] = norm
            tau[t, r] = 0.0
        combined = _weighted(gaps[t], gate.log_betas[t], sums)
        loss += max(combined, 0.0)
        gate.opened[t] = combined - margins[t] + gate.width > gate.tie
        if not gate.opened[t]:
            continue
        stepped = False
        for r in range(m):
            if C[t] > 0.0 and gaps[t, r] >= margins[t] - gate.tie:
                sums[r] += 1.0
            step = step_size(rule.code, rule.first, rule.second, gaps[t, r], parts[r, 0], C[t])
            tau[t, r] = step
            if step == 0.0:
                continue
            stepped = True
            first, last = bounds[r], bounds[r + 1]
            if full:
                a, b = work[0, first:last], work[1, first:last]
                _move(W, -lam * step, a, work[0], first, last)
                _move(W, lam * step, b, work[1], first, last)
                if i >= 0:
                    _move(L[i], -mu * step, a, work[0], first, last)
                if j >= 0:
                    _move(L[j], mu * step, b, work[1], first, last)
            else:
                _move(W, -2.0 * lam * step, images[0, r], work[0], first, last)
                _move(W, 2.0 * lam * step, images[1, r], work[1], first, last)
                if i >= 0:
                    _move(L[i], -2.0 * mu * step, images[2, r], work[0], first, last)
                if j >= 0:
                    _move(L[j], 2.0 * mu * step, images[3, r], work[1], first, last)
        updates += stepped
    return loss, updates


@inlined
def _differences(X, triplet, columns, factors, work):
    """a = p - p+, b = p - p-, a - b formed from the points, and a + b."""
    p, q, n = triplet[0], triplet[1], triplet[2]
    for s in range(columns.shape[0]):
        c, f = columns[s], factors[s]
        work[0, s], work[1, s] = (X[p, c] - X[q, c]) * f, (X[p, c] - X[n, c]) * f
        work[2, s] = (X[n, c] - X[q, c]) * f
        work[3, s] = work[0, s] + work[1, s]


@inlined
def _products(work, first, last, out):
    """|a - b|^2, |a + b|^2, (a + b)(a - b), |a|^2, |b|^2 over the columns of one modality."""
    out[:] = 0.0
    for s in range(first, last):
        a, b, minus, plus = work[0, s], work[1, s], work[2, s], work[3, s]
        out[0] += np.float64(minus) * np.float64(minus)
        out[1] += np.float64(plus) * np.float64(plus)
        out[2] += np.float64(plus) * np.float64(minus)
        out[3] += np.float64(a) * np.float64(a)
        out[4] += np.float64(b) * np.float64(b)


@inlined
def _image(W, v, first, last, rows, out):
    """W v."""
    for row in range(rows):
        total = W[row, first] * v[first]
        for s in range(first + 1, last):
            total += W[row, s] * v[s]
        out[row] = total


@inlined
def _form(image, v, first, last):
    """v^T M v from M v."""
    total = 0.0
    for s in range(first, last):
        total += np.float64(image[s - first]) * np.float64(v[s])
    return total


@inlined
def _value_and_norm(za, zb, weight, parts, has_a, has_b, together):
    """weight (|W a|^2 - |W b|^2) and |gradient|^2, for the images of a and b under one factor, or under two.

    The gradient 2 weight (W a a^T - W b b^T) is weight ((W a - W b)(a + b)^T + (W a + W b)(a - b)^T), whose norm is
    exactly 0 for a = b and a = -b.
    """
    aa, bb, minus, plus, mixed = 0.0, 0.0, 0.0, 0.0, 0.0
    for row in range(za.shape[0]):
        x, y = np.float64(za[row]), np.float64(zb[row])
        aa += x * x
        bb += y * y
        minus += (x - y) * (x - y)
        plus += (x + y) * (x + y)
        mixed += (x - y) * (x + y)
    if together:
        return weight * (aa - bb), weight * weight * (minus * parts[1] + plus * parts[0] + 2.0 * mixed * parts[2])
    value, norm = 0.0, 0.0
    if has_a:
        value, norm = aa, aa * parts[3]
    if has_b:
        value, norm = value - bb, norm + bb * parts[4]
    return weight * value, 4.0 * weight * weight * norm


@inlined
def _move(W, weight, z, v, first, last):
    """W += weight z v^T on the columns of one modality."""
    for row in range(z.shape[0]):
        x = W.dtype.type(weight * z[row])
        for s in range(first, last):
            W[row, s] += x * v[s]
