"""Soft regions: a candidate takes part in every region by its share."""

import numpy as np

from .pairs import pair_value_and_feature
from .stacked import read_out, start
from .steps import step_size


def soft_shares(X, centers):
    """(n_rows, n_regions) shares exp(-|x - c|^2 / spread), those below 5% left out.

    spread is the mean squared distance of a row to its nearest center.
    """
    squares = np.array([[np.sum((x - c) ** 2) for c in centers] for x in X])
    shares = np.exp(-squares / squares.min(axis=1).mean())
    shares /= shares.sum(axis=1, keepdims=True)
    shares[shares < np.minimum(0.05, shares.max(axis=1, keepdims=True))] = 0
    return shares / shares.sum(axis=1, keepdims=True)


def run_soft(measure, X, triplets, shares, lam, mu, C, step="pa1", step_params=None, margin=1.0, *, forget=0.0,
             psd="never"):  # fmt: skip
    """Triplets in order; a candidate x takes part in L_r by its share: M(x) = lam U + mu sum_r pi_r(x) L_r.

    psd: 'never', or an int n (project all after every n-th triplet).
    """
    n_regions = shares.shape[1]
    U, L = start(X.shape[1], n_regions)
    U0, L0 = start(X.shape[1], n_regions)
    for t, (p, q, n) in enumerate(triplets):
        U, L = U0 + (1.0 - forget) * (U - U0), L0 + (1.0 - forget) * (L - L0)
        sigma, plus = pair_value_and_feature(measure, X[p], X[q])
        _, minus = pair_value_and_feature(measure, X[p], X[n])
        shared = sigma * lam * (plus - minus)
        local = sigma * mu * (shares[q][:, None, None] * plus - shares[n][:, None, None] * minus)
        e = margin + np.sum(U * shared) + np.sum(L * local)
        tau = step_size(step, e, np.sum(shared**2) + np.sum(local**2), C, step_params)
        U, L = U - tau * shared, L - tau * local
        if psd != "never" and (t + 1) % psd == 0:
            U, L = read_out(U, L)
    return U, L


def run_soft_pairs(measure, X, pairs, targets, shares, lam, mu, C, threshold, margin=1.0):
    """Pairs in order: e = m + s sigma (value - b), with M(x) of the second row."""
    U, L = start(X.shape[1], shares.shape[1])
    for (i, j), s in zip(pairs, targets, strict=True):
        sigma, phi = pair_value_and_feature(measure, X[i], X[j])
        shared, local = lam * phi, mu * shares[j][:, None, None] * phi
        e = margin + s * sigma * (np.sum(U * shared) + np.sum(L * local) - threshold)
        tau = step_size("pa1", e, np.sum(shared**2) + np.sum(local**2), C)
        U, L = U - tau * s * sigma * shared, L - tau * s * sigma * local
    return U, L
