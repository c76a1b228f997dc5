"""The sweep of `paloma._kernels.sweep` for any class kernel T, as a matrix over the pairs of a block (spec.md 0)."""

import numpy as np

from .jit import kernel
from .steps import step_size


@kernel
def soft_sweep(
    left, right, T, triplets, norms, values, sign, margins, C, code, constants, tau, weight, gaps, scale=None
):
    """As `sweep`, with T[r, s] for each two pairs: N = T_kb n_d + (T_kk - T_kb) n_+ + (T_bb - T_kb) n_-."""
    loss, updates = 0.0, 0
    for t in range(triplets.shape[0]):
        k, b = triplets[t, 0], triplets[t, 1]
        weighs = 1.0 if scale is None else scale[t]
        gap = margins[t] + weighs * sign * (values[k] - values[b])
        gaps[t] = gap
        loss += max(gap, 0.0)
        norm = T[k, b] * norms[t, 0] + (T[k, k] - T[k, b]) * norms[t, 1] + (T[b, b] - T[k, b]) * norms[t, 2]
        step = step_size(code, gap, norm, C[t], constants[0], constants[1])
        tau[t] = step
        if step == 0.0:
            continue
        updates += 1
        step /= weighs
        weight[k] += step
        weight[b] -= step
        for r in range(values.shape[0]):
            values[r] -= (
                sign
                * step
                * (
                    T[k, r] * np.float64(left[k, r]) * np.float64(right[k, r])
                    - T[b, r] * np.float64(left[b, r]) * np.float64(right[b, r])
                )
            )
    return loss, updates
