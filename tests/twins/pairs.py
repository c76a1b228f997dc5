"""Learning from pairs with a threshold, one pair after the other."""

import numpy as np

from .stacked import start
from .steps import step_size


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
