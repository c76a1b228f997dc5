"""Kernel similarity learning on index space (spec.md 4 and 10): products with the sparse S, and the sweep of a block.

Several kernels may learn the same triplets side by side, each on its own values; the first axis numbers them.
"""

import math

import numpy as np

from .jit import kernel
from .steps import squared_norm, step_size


@kernel
def spread(columns, anchors, candidates, weights, place, distances, out):
    """out += S columns, S the sum over pairs of w e_c e_a^T, or for distances of -w (e_a - e_c)(e_a - e_c)^T.

    columns, out : (n_rows, width), a column for each vector that S is applied to; place : row of each numbered point.
    """
    width = columns.shape[1]
    for r in range(anchors.shape[0]):
        w = columns.dtype.type(weights[r])
        if w == 0.0:
            continue
        a, c = place[anchors[r]], place[candidates[r]]
        if distances:
            for e in range(width):
                moved = w * (columns[a, e] - columns[c, e])
                out[a, e] -= moved
                out[c, e] += moved
        else:
            for e in range(width):
                out[c, e] += w * columns[a, e]


@kernel
def paired(left, right, i, j):
    """<left[i_r], right[j_r]> for each r."""
    out = np.empty(i.shape[0])
    for r in range(i.shape[0]):
        a, b = i[r], j[r]
        total = left[a, 0] * right[b, 0]
        for s in range(1, left.shape[1]):
            total += left[a, s] * right[b, s]
        out[r] = total
    return out


@kernel
def gather(matrix, rows, columns, out):
    """out[i, j] = matrix[rows_i, columns_j]."""
    for i in range(rows.shape[0]):
        row = matrix[rows[i]]
        for j in range(columns.shape[0]):
            out[i, j] = row[columns[j]]


@kernel
def index_sweep(
    left, right, lam2, mu2, classes, triplets, norms, values, sign, margins, C, code, constants,
    losses, log_betas, judging, delta, draws, rows, held, room, forgetting, tie,
    tau, weight, ranks, mistakes, taking_part,
):  # fmt: skip
    """Steps of a block for each kernel; one that needs more than `room` new rows is not taken, or `forgetting` ends it.

    left, right, values, norms, weight : as for `sweep`, one a kernel. rows, held : the rows of each triplet, and which
    rows are in the support. losses, log_betas : Hedge's sums and log(beta) of each triplet, from which a kernel's
    chance to take part is (1 - delta) theta / max theta + delta, against `draws`; without draws all take part. The sums
    go on only while `judging`.
    Fills tau, ranks (sigma (q+ - q-) before the step) and ranking mistakes, a column a kernel; values that differ by no
    more than `tie` of their size are tied, which is a mistake. Returns (triplets done, steps taken).
    """
    m, steps = values.shape[0], 0
    first, second = constants[0], constants[1]
    for t in range(triplets.shape[0]):
        k, b = triplets[t, 0], triplets[t, 1]
        i, j = classes[k], classes[b]
        active, least = False, losses.min()
        for r in range(m):
            ranks[t, r] = sign * (values[r, k] - values[r, b])
            mistakes[t, r] = ranks[t, r] >= -tie * (abs(values[r, k]) + abs(values[r, b]))
            taking_part[t, r] = C[t] > 0.0
            if draws.shape[0]:
                chance = (1.0 - delta) * math.exp(log_betas[t] * (losses[r] - least)) + delta
                taking_part[t, r] = taking_part[t, r] and draws[t, r] < chance
            step = 0.0
            if taking_part[t, r]:
                norm = squared_norm(lam2, mu2, i, j, norms[r, t, 0], norms[r, t, 1], norms[r, t, 2])
                step = step_size(code, margins[t] + ranks[t, r], norm, C[t], first, second)
            tau[t, r] = step
            active = active or step != 0.0
        if active:
            p, q, n = rows[t, 0], rows[t, 1], rows[t, 2]
            new = 0 if held[p] else 1
            new += 0 if held[q] or q == p else 1
            new += 0 if held[n] or n in (p, q) else 1
            if new > room and forgetting:
                return t, steps
            if new > room:
                tau[t] = 0.0
            else:
                room -= new
                held[p] = held[q] = held[n] = True
                steps += 1
        for r in range(m):
            if judging and taking_part[t, r] and mistakes[t, r]:
                losses[r] += 1.0
            if tau[t, r] != 0.0:
                weight[r, k] += tau[t, r]
                weight[r, b] -= tau[t, r]
                _move(left[r], right[r], lam2, mu2, classes, k, b, sign * tau[t, r], values[r])
    return triplets.shape[0], steps


@kernel
def _move(left, right, lam2, mu2, classes, k, b, step, values):
    """What a step on the pairs k and b does to the values of all pairs, as in `sweep`."""
    i, j = classes[k], classes[b]
    for r in range(values.shape[0]):
        c = classes[r]
        plus = lam2 + mu2 if (c == i and c >= 0) else lam2
        minus = lam2 + mu2 if (c == j and c >= 0) else lam2
        values[r] -= step * (
            plus * np.float64(left[k, r]) * np.float64(right[k, r])
            - minus * np.float64(left[b, r]) * np.float64(right[b, r])
        )
