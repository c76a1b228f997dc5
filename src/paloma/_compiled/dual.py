"""Exact blocks whose pairs know each other by their points (theory 10): for many triplets of few points.

With G the Gram matrix of the points, <phi_r, phi_s> takes four numbers of G for a distance and two for a similarity,
whatever d is. So blocks may be long: what steps have done to a pair since U was last brought up to date, and steps on
its own class since the class matrices were, are sums over the pairs that moved. Triplets of one anchor follow each
other, and share what is known of their pairs.
"""

from typing import Any, NamedTuple

import numpy as np

from .jit import compiled
from .steps import squared_norm, take

# At most so many triplets of one anchor share what is known of their pairs.
TOGETHER = 64


class Known(NamedTuple):
    """Pairs of a block by their points: the points' Gram matrix, both points of each pair, class codes, and values.

    `begin` is the number of the first pair of its class, -1 for none; pairs are sorted by class.
    """

    gram: Any
    anchors: Any
    candidates: Any
    classes: Any
    begin: Any
    values: Any


class Moved(NamedTuple):
    """Pairs that moved, class by class: the place of each pair (-1: it did not move), their points and weights.

    Those of the class that begins at pair k are at the places from k on, counts[k] of them.
    """

    places: Any
    ends: Any
    weights: Any
    counts: Any


@compiled
def dual_sweep(triplets, known, moved, kernel, sign, rule, out, scale=None):
    """Fill tau and gaps; returns (sum of hinge losses, updates).

    moved : the pairs moved since the class matrices were brought up to date, class by class.  scale : see `sweep`.
    """
    members, margins, C, norms = triplets
    gram, anchors, candidates, classes, begin, values = known
    tau, gaps = out.tau, out.gaps
    n, n_pairs = members.shape[0], anchors.shape[0]
    here = np.full(n_pairs, -1, np.int32), np.empty((2, 2 * n), np.int32), np.empty(2 * n, gram.dtype)
    place, live, now = np.full(n_pairs, -1, np.int32), np.empty(2 * TOGETHER, np.int64), np.empty(2 * TOGETHER)
    apart = np.empty(gram.shape[0], gram.dtype)
    n_here, n_live, end, loss, updates = 0, 0, 0, 0.0, 0
    for t in range(n):
        if t == end:  # another anchor: what its pairs are worth now
            place[live[:n_live]] = -1
            p, n_live = anchors[members[t, 0]], 0
            while end < n and end < t + TOGETHER and anchors[members[end, 0]] == p:
                for side in range(2):
                    k = members[end, side]
                    if place[k] < 0:
                        place[k], live[n_live] = n_live, k
                        q, own = candidates[k], begin[k]
                        if sign > 0.0:
                            for s in range(apart.shape[0]):
                                apart[s] = gram[p, s] - gram[q, s]
                        change = kernel.lam2 * change_by(gram, p, q, apart, here, 0, n_here, sign)
                        if own >= 0:
                            change += kernel.mu2 * change_by(
                                gram, p, q, apart, moved[:3], own, own + moved.counts[own], sign
                            )
                        now[n_live] = values[k] - sign * change
                        n_live += 1
                end += 1
        k, b = members[t, 0], members[t, 1]
        norm = squared_norm(kernel, classes[k], classes[b], norms[t, 0], norms[t, 1], norms[t, 2])
        weighs = 1.0 if scale is None else scale[t]
        gap, tau[t], step = take(rule, margins[t], C[t], norm, sign * (now[place[k]] - now[place[b]]), weighs)
        gaps[t] = gap
        loss += max(gap, 0.0)
        if step == 0.0:
            continue
        updates += 1
        for side in range(2):
            k, step = (k, step) if side == 0 else (b, -step)
            p, q, own = anchors[k], candidates[k], begin[k]
            n_here += enter(here, k, n_here, p, q, step)
            if own >= 0:
                moved.counts[own] += enter(moved[:3], k, own + moved.counts[own], p, q, step)
            for r in range(n_live if t + 1 < end else 0):
                x = candidates[live[r]]
                if sign > 0.0:
                    inner = np.float64((gram[p, p] - gram[p, q]) - (gram[x, p] - gram[x, q]))
                    inner *= inner
                else:
                    inner = np.float64(gram[p, p]) * np.float64(gram[x, q])
                same = own >= 0 and begin[live[r]] == own
                now[r] -= sign * step * (kernel.lam2 + kernel.mu2 if same else kernel.lam2) * inner
    return loss, updates


@compiled
def change_by(gram, p, q, apart, moved, first, last, sign):
    """sum_s weight_s <phi, phi_s> of the pair (p, q) and pairs that moved; for a distance `apart` is G[p] - G[q]."""
    _, ends, weights = moved
    total = gram.dtype.type(0)
    if sign > 0.0:
        for s in range(first, last):
            inner = apart[ends[0, s]] - apart[ends[1, s]]
            total += weights[s] * inner * inner
    else:
        for s in range(first, last):
            total += weights[s] * gram[p, ends[0, s]] * gram[q, ends[1, s]]
    return np.float64(total)


@compiled
def enter(moved, k, at, p, q, step):
    """Add a step to what the pair k, (p, q), moved by; 1 if it is the first one, which is written at this place."""
    places, ends, weights = moved
    if places[k] >= 0:
        weights[places[k]] += step
        return 0
    places[k], ends[0, at], ends[1, at], weights[at] = at, p, q, step
    return 1


@compiled
def distinct_points(anchors, candidates, n):
    """The points of pairs, of n in all, by first use, and both points of each pair by their places among them."""
    place, points = np.full(n, -1, np.int32), np.empty(min(n, 2 * anchors.shape[0]), np.int64)
    ends, known = np.empty((2, anchors.shape[0]), np.int32), 0
    for k in range(anchors.shape[0]):
        for side in range(2):
            x = anchors[k] if side == 0 else candidates[k]
            if place[x] < 0:
                place[x], points[known] = known, x
                known += 1
            ends[side, k] = place[x]
    return points[:known], ends


@compiled
def point_forms(half, rows, ends, diagonal):
    """v^T M v of each pair, v the difference of its two rows, from half = rows triu(M)^T: see `quadratic_rows`."""
    out = np.empty(ends.shape[1])
    for k in range(ends.shape[1]):
        i, j, total = ends[0, k], ends[1, k], rows.dtype.type(0)
        for s in range(rows.shape[1]):
            v, h = rows[i, s] - rows[j, s], half[i, s] - half[j, s]
            total += (h + h - diagonal[s] * v) * v
        out[k] = total
    return out


@compiled
def spread_differences(rows, ends, weight, out):
    """Fill the y_i with sum_k weight_k v_k v_k^T = sum_i rows_i y_i^T, v_k the difference of the two rows of a pair."""
    out[:] = 0
    for k in range(ends.shape[1]):
        i, j, w = ends[0, k], ends[1, k], rows.dtype.type(weight[k])
        for s in range(rows.shape[1]):
            v = w * (rows[i, s] - rows[j, s])
            out[i, s] += v
            out[j, s] -= v


@compiled
def spread_rows(X, into, rows, weight, out):
    """out[i] = sum_k weight_k X[rows_k] over the k with into_k = i."""
    out[:] = 0
    for k in range(rows.shape[0]):
        i, j, w = into[k], rows[k], X.dtype.type(weight[k])
        for s in range(X.shape[1]):
            out[i, s] += w * X[j, s]
