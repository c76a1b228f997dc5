"""Kernel similarity learning on index space (theory 4 and 10): products with the sparse S, and the sweep of a block.

Several kernels may learn the same triplets side by side, each on its own values; the first axis numbers them.
"""

import math
from typing import Any, NamedTuple

from .jit import compiled
from .steps import squared_norm, step_size
from .sweep import spread


class Hedging(NamedTuple):
    """Hedge over kernels: sums of losses, log(beta) of each triplet, and what decides and records who takes part."""

    losses: Any
    log_betas: Any
    judging: bool
    delta: float
    draws: Any
    tie: float
    mistakes: Any
    taking_part: Any


class Budget(NamedTuple):
    """The rows of each triplet, which rows the support holds, its room for new ones, and whether a full one forgets."""

    rows: Any
    held: Any
    room: int
    forgetting: bool


@compiled
def add_product(columns, anchors, candidates, weights, place, distances, out):
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


@compiled
def gather(matrix, rows, columns, out):
    """out[i, j] = matrix[rows_i, columns_j]."""
    for i in range(rows.shape[0]):
        row = matrix[rows[i]]
        for j in range(columns.shape[0]):
            out[i, j] = row[columns[j]]


@compiled
def index_sweep(triplets, pairs, kernel, sign, rule, hedging, budget, out):
    """Steps of a block for each kernel; one that needs more room than there is is not taken, or ends it if forgetting.

    left, right, values, norms, weight : as for `sweep`, one per kernel. A kernel's chance to take part is
    (1 - delta) theta / max theta + delta, against `draws`; without draws all take part. Hedge's sums go on only while
    `judging`. Fills tau, ranks (sigma (q+ - q-) before the step) and ranking mistakes, one column per kernel; values
    that differ by no more than `tie` of their size are tied, which is a mistake. Returns (triplets done, steps taken).
    """
    left, right, classes, values = pairs
    members, margins, C, norms = triplets
    losses, log_betas, judging, delta, draws, tie, mistakes, taking_part = hedging
    rows, held, room, forgetting = budget
    tau, ranks, weight = out
    m, steps = values.shape[0], 0
    for t in range(members.shape[0]):
        k, b = members[t, 0], members[t, 1]
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
                norm = squared_norm(kernel, i, j, norms[r, t, 0], norms[r, t, 1], norms[r, t, 2])
                step = step_size(rule.code, rule.first, rule.second, margins[t] + ranks[t, r], norm, C[t])
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
                spread(values[r], left[r], right[r], classes, k, b, kernel, sign * tau[t, r])
    return members.shape[0], steps
