"""The sequential part of exact blocked learning (theory 10), on the pairs of one block.

Triplets of one anchor share their pairs, so the recursion runs on pair values q_r = <M_c(r), phi_r>:
a step tau on the triplet (k+, k-) changes them by -sigma tau (K[k+, r] - K[k-, r]) with
K[r, s] = T[c_r, c_s] <phi_r, phi_s>, and the gap of any later triplet is m + sigma (q[k+] - q[k-]).
"""

import numpy as np

from .jit import compiled, inlined
from .steps import squared_norm, take


@compiled
def sweep(triplets, pairs, kernel, sign, rule, out, scale=None):
    """Fill tau, gaps and weight; returns (sum of hinge losses, updates).

    scale : with forgetting, what was learned weighs g^t at each triplet; values and weight are in its units.
    """
    left, right, classes, values = pairs
    members, margins, C, norms = triplets
    tau, gaps, weight = out
    loss, updates = 0.0, 0
    for t in range(members.shape[0]):
        k, b = members[t, 0], members[t, 1]
        norm = squared_norm(kernel, classes[k], classes[b], norms[t, 0], norms[t, 1], norms[t, 2])
        weighs = 1.0 if scale is None else scale[t]
        gap, tau[t], step = take(rule, margins[t], C[t], norm, sign * (values[k] - values[b]), weighs)
        gaps[t] = gap
        loss += max(gap, 0.0)
        if step == 0.0:
            continue
        updates += 1
        weight[k] += step
        weight[b] -= step
        spread(values, left, right, classes, k, b, kernel, sign * step)
    return loss, updates


@inlined
def spread(values, left, right, classes, k, b, kernel, step):
    """What a step on the triplet (k+, b-) does to the values of all pairs."""
    i, j, lam2, mu2 = classes[k], classes[b], kernel.lam2, kernel.mu2
    for r in range(values.shape[0]):
        c = classes[r]
        plus = lam2 + mu2 if (c == i and c >= 0) else lam2
        minus = lam2 + mu2 if (c == j and c >= 0) else lam2
        values[r] -= step * (
            plus * np.float64(left[k, r]) * np.float64(right[k, r])
            - minus * np.float64(left[b, r]) * np.float64(right[b, r])
        )


@compiled
def correct(values, rows, grams, bounds, weight, factor):
    """values[k] -= factor sum_s weight_s <phi_r, phi_s> over the pairs s of r's own class, r = rows[k].

    What steps taken since the class matrices were last brought up to date have done to other pairs of the class, which
    are those from bounds[0][r] to bounds[1][r]; their Gram matrix begins at bounds[2][r] of the flat arrays in `grams`.
    """
    (left, right), (first, last, begin) = grams, bounds
    for k in range(rows.shape[0]):
        r = rows[k]
        a, n = first[r], last[r] - first[r]
        row = begin[r] + (r - a) * n
        total = 0.0
        for s in range(n):
            total += weight[a + s] * np.float64(left[row + s]) * np.float64(right[row + s])
        values[k] -= factor * total
