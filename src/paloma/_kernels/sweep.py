"""The sequential part of exact blocked learning (spec.md section 10), on the pairs of one block.

Triplets of one anchor share their pairs, so the recursion runs on pair values q_r = <M_c(r), phi_r>:
a step tau on the triplet (k+, k-) changes them by -sigma tau (K[k+, r] - K[k-, r]) with
K[r, s] = T[c_r, c_s] <phi_r, phi_s>, and the gap of any later triplet is m + sigma (q[k+] - q[k-]).
"""

import numpy as np

from .jit import inlined, kernel
from .steps import squared_norm, step_size


@kernel
def sweep(left, right, lam2, mu2, classes, triplets, norms, values, sign, margins, C, code, constants, tau, weight,
          gaps=None, scale=None):  # fmt: skip
    """Fill tau (one a triplet) and weight (net step of each pair); returns (sum of hinge losses, updates).

    left, right : Gram matrices whose elementwise product is <phi_r, phi_s>; the same array for distances.
    gaps : receives margin - z of each triplet before its step.
    scale : with forgetting, the weight of what was learnt at each triplet; values and weight are in its units.
    """
    loss, updates = 0.0, 0
    first, second = constants[0], constants[1]
    for t in range(triplets.shape[0]):
        k, b = triplets[t, 0], triplets[t, 1]
        gap = margins[t] + sign * (values[k] - values[b])
        if scale is not None:
            gap = margins[t] + scale[t] * sign * (values[k] - values[b])
        if gaps is not None:
            gaps[t] = gap
        loss += max(gap, 0.0)
        i, j = classes[k], classes[b]
        norm = squared_norm(lam2, mu2, i, j, norms[t, 0], norms[t, 1], norms[t, 2])
        step = step_size(code, gap, norm, C[t], first, second)
        tau[t] = step
        if step == 0.0:
            continue
        updates += 1
        if scale is not None:
            step /= scale[t]
        weight[k] += step
        weight[b] -= step
        spread(values, left, right, k, b, i, j, classes, lam2, mu2, sign * step)
    return loss, updates


@inlined
def spread(values, left, right, k, b, i, j, classes, lam2, mu2, step):
    """What a step on the triplet (k+, b-) of classes i and j does to the values of all pairs."""
    for r in range(values.shape[0]):
        c = classes[r]
        plus = lam2 + mu2 if (c == i and c >= 0) else lam2
        minus = lam2 + mu2 if (c == j and c >= 0) else lam2
        values[r] -= step * (
            plus * np.float64(left[k, r]) * np.float64(right[k, r])
            - minus * np.float64(left[b, r]) * np.float64(right[b, r])
        )


@kernel
def correct(values, rows, left, right, same, first, last, weight, factor):
    """values[k] -= factor sum_s weight_s <phi_r, phi_s> over the pairs s of r's own class, r = rows[k].

    What steps taken since the class matrices were last brought up to date have done to other pairs of the class; the
    pairs of r's class are first[r] to last[r]. same : left and right are one array.
    """
    d = left.shape[1]
    for k in range(rows.shape[0]):
        r = rows[k]
        total = 0.0
        for s in range(first[r], last[r]):
            if weight[s] == 0.0:
                continue
            x = left[r, 0] * left[s, 0]
            for e in range(1, d):
                x += left[r, e] * left[s, e]
            y = x
            if not same:
                y = right[r, 0] * right[s, 0]
                for e in range(1, d):
                    y += right[r, e] * right[s, e]
            total += weight[s] * np.float64(x) * np.float64(y)
        values[k] -= factor * total


@kernel
def row_products(left, right):
    """<left_r, right_r> for each row r."""
    out = np.empty(left.shape[0])
    for r in range(left.shape[0]):
        total = left[r, 0] * right[r, 0]
        for s in range(1, left.shape[1]):
            total += left[r, s] * right[r, s]
        out[r] = total
    return out


@kernel
def differences(X, first, second, factor, out):
    """Rows (x[first] - x[second]) * factor, the only points of a block that are ever gathered."""
    for r in range(first.shape[0]):
        i, j = first[r], second[r]
        for s in range(X.shape[1]):
            out[r, s] = (X[i, s] - X[j, s]) * factor


@kernel
def scaled_rows(X, rows, factor, out):
    """Rows x[rows] * factor; an array of factors has one value a row."""
    for r in range(rows.shape[0]):
        i = rows[r]
        for s in range(X.shape[1]):
            out[r, s] = X[i, s] * factor[r]


@kernel
def distance_norms(X, triplets, factor):
    """(N_d, |a|^4, |b|^4) of each triplet in float64; N_d = (|a-b|^2 |a+b|^2 + (|a|^2-|b|^2)^2) / 2 (spec 6.1)."""
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


@kernel
def similarity_norms(X, triplets, factor):
    """|p|^2 times (|p+ - p-|^2, |p+|^2, |p-|^2) of each triplet in float64 (spec 7)."""
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


@kernel
def mean_squares(X, triplets, distances):
    """Mean over triplets of (|a|^2 + |b|^2) / 2 for distances, of the points' mean |x|^2 for similarities."""
    total = 0.0
    for t in range(triplets.shape[0]):
        p, q, n = triplets[t, 0], triplets[t, 1], triplets[t, 2]
        aa, bb, cc = 0.0, 0.0, 0.0
        for s in range(X.shape[1]):
            x, y, z = np.float64(X[p, s]), np.float64(X[q, s]), np.float64(X[n, s])
            if distances:
                aa += (x - y) * (x - y)
                bb += (x - z) * (x - z)
            else:
                aa += y * y
                bb += z * z
                cc += x * x
        total += (aa + bb) / 2.0 if distances else (aa + bb + cc) / 3.0
    return total / triplets.shape[0]
