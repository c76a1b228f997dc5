"""The sweep of `paloma._compiled.sweep` for any class kernel T, as a matrix over the pairs of a block (theory 0)."""

import numpy as np

from .jit import compiled
from .steps import take


@compiled
def soft_sweep(triplets, pairs, T, sign, rule, out, scale=None):
    """As `sweep`, with T[r, s] for each two pairs: N = T_kb n_d + (T_kk - T_kb) n_+ + (T_bb - T_kb) n_-."""
    left, right, values = pairs.left, pairs.right, pairs.values
    members, margins, C, norms = triplets
    tau, gaps, weight = out
    loss, updates = 0.0, 0
    for t in range(members.shape[0]):
        k, b = members[t, 0], members[t, 1]
        norm = T[k, b] * norms[t, 0] + (T[k, k] - T[k, b]) * norms[t, 1] + (T[b, b] - T[k, b]) * norms[t, 2]
        weighs = 1.0 if scale is None else scale[t]
        gap, tau[t], step = take(rule, margins[t], C[t], norm, sign * (values[k] - values[b]), weighs)
        gaps[t] = gap
        loss += max(gap, 0.0)
        if step == 0.0:
            continue
        updates += 1
        weight[k] += step
        weight[b] -= step
        move = sign * step
        for r in range(values.shape[0]):
            values[r] -= move * (
                T[k, r] * np.float64(left[k, r]) * np.float64(right[k, r])
                - T[b, r] * np.float64(left[b, r]) * np.float64(right[b, r])
            )
    return loss, updates
