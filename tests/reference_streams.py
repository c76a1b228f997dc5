"""Slow, obvious twins of what streams add: pairs with a threshold, soft regions."""

import numpy as np

from reference import start, step_size


def pair_value_and_feature(measure, p, q):
    """(sigma, phi): d = <M, aa'> for a distance, s = <M, pq'> for a similarity."""
    if measure == "distance":
        return +1.0, np.outer(p - q, p - q)
    return -1.0, np.outer(p, q)


def run_pairs(measure, X, pairs, targets, classes, lam, mu, C, threshold, step="pa1", step_params=None, margin=1.0,
              *, n_classes, forget=0.0):  # fmt: skip
    """Pairs in order: e = m + s sigma (value - b), Theta -= tau s sigma (lam phi at U, mu phi at L_c)."""
    U, L = start(X.shape[1], n_classes)
    U0, L0 = start(X.shape[1], n_classes)
    for (i, j), s, c in zip(pairs, targets, classes, strict=True):
        U, L = U0 + (1.0 - forget) * (U - U0), L0 + (1.0 - forget) * (L - L0)
        sigma, phi = pair_value_and_feature(measure, X[i], X[j])
        value = lam * np.sum(U * phi) + (mu * np.sum(L[c] * phi) if c >= 0 else 0.0)
        e = margin + s * sigma * (value - threshold)
        N = (lam**2 + (mu**2 if c >= 0 else 0.0)) * np.sum(phi * phi)
        tau = step_size(step, e, N, C, step_params)
        U = U - tau * s * sigma * lam * phi
        if c >= 0:
            L[c] = L[c] - tau * s * sigma * mu * phi
    return U, L


def run_soft(measure, X, triplets, shares, lam, mu, C, step="pa1", step_params=None, margin=1.0, *, forget=0.0):
    """Triplets in order; a candidate x takes part in L_r by its share: M(x) = lam U + mu sum_r pi_r(x) L_r."""
    n_regions = shares.shape[1]
    U, L = start(X.shape[1], n_regions)
    U0, L0 = start(X.shape[1], n_regions)
    for p, q, n in triplets:
        U, L = U0 + (1.0 - forget) * (U - U0), L0 + (1.0 - forget) * (L - L0)
        sigma, plus = pair_value_and_feature(measure, X[p], X[q])
        _, minus = pair_value_and_feature(measure, X[p], X[n])
        shared = sigma * lam * (plus - minus)
        local = sigma * mu * (shares[q][:, None, None] * plus - shares[n][:, None, None] * minus)
        e = margin + np.sum(U * shared) + np.sum(L * local)
        tau = step_size(step, e, np.sum(shared**2) + np.sum(local**2), C, step_params)
        U, L = U - tau * shared, L - tau * local
    return U, L
