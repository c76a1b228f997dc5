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


@compiled
def differences(X, first, second, factor, out):
    """Rows (x[first] - x[second]) * factor, the only points of a block that are ever gathered."""
    for r in range(first.shape[0]):
        i, j = first[r], second[r]
        for s in range(X.shape[1]):
            out[r, s] = (X[i, s] - X[j, s]) * factor


@compiled
def scaled_rows(X, rows, factor, out):
    """Rows x[rows] * factor; an array of factors has one value per row."""
    for r in range(rows.shape[0]):
        i = rows[r]
        for s in range(X.shape[1]):
            out[r, s] = X[i, s] * factor[r]


@compiled
def distance_norms(X, triplets, factor):
    """(N_d, |a|^4, |b|^4) of each triplet in float64; N_d = (|a-b|^2 |a+b|^2 + (|a|^2-|b|^2)^2) / 2 (theory 6.1)."""
    out = np.empty((triplets.shape[0], 3))
    f4 = np.float64(factor) ** 4
    for t in range(triplets.shape[0]):
        p, q, n = triplets[t, 0], triplets[t, 1], triplets[t, 2]
        aa, bb, minus, plus = 0.0, 0.0, 0.0, 0.0
        for s in range(X.shape[1]):
            x, y, z = np.float64(X[p, s]), np.float64(X[q, s]), np.float64(X[n, s])
            a, b, c = x - y, x - z, z - y
            aa += a * a
            bb += b * b
            minus += c * c
            plus += (a + b) * (a + b)
        out[t, 0] = 0.5 * f4 * (minus * plus + (aa - bb) * (aa - bb))
        out[t, 1] = f4 * aa * aa
        out[t, 2] = f4 * bb * bb
    return out


@compiled
def side_norms(rows, sides):
    """The same of triplets whose two differences, a and b, are rows; |a+b|^2 = 2 |a|^2 + 2 |b|^2 - |a-b|^2."""
    out, squares = np.empty((sides.shape[0], 3)), np.zeros(rows.shape[0])
    for r in range(rows.shape[0]):
        total = 0.0
        for s in range(rows.shape[1]):
            x = np.float64(rows[r, s])
            total += x * x
        squares[r] = total
    for t in range(sides.shape[0]):
        p, n, minus = sides[t, 0], sides[t, 1], 0.0
        for s in range(rows.shape[1]):
            c = np.float64(rows[n, s]) - np.float64(rows[p, s])
            minus += c * c
        aa, bb = squares[p], squares[n]
        out[t, 0] = 0.5 * (minus * (2.0 * (aa + bb) - minus) + (aa - bb) * (aa - bb))
        out[t, 1] = aa * aa
        out[t, 2] = bb * bb
    return out


@compiled
def similarity_norms(X, triplets, factor):
    """|p|^2 times (|p+ - p-|^2, |p+|^2, |p-|^2) of each triplet in float64 (theory 7)."""
    out = np.empty((triplets.shape[0], 3))
    f4 = np.float64(factor) ** 4
    for t in range(triplets.shape[0]):
        p, q, n = triplets[t, 0], triplets[t, 1], triplets[t, 2]
        pp, qq, nn, dd = 0.0, 0.0, 0.0, 0.0
        for s in range(X.shape[1]):
            x, y, z = np.float64(X[p, s]), np.float64(X[q, s]), np.float64(X[n, s])
            pp += x * x
            qq += y * y
            nn += z * z
            dd += (y - z) * (y - z)
        out[t, 0] = f4 * pp * dd
        out[t, 1] = f4 * pp * qq
        out[t, 2] = f4 * pp * nn
    return out
