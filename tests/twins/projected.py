"""Dual random projection, one triplet after the other: steps are found on projected rows and taken on the rows."""

import numpy as np

from .pairs import pair_value_and_feature
from .stacked import Run, gradient, run, start


def run_projected(measure, X, R, triplets, classes, lam, mu, C, step="pa1", step_params=None, margin=1.0, *, n_classes):
    """The iterates on X of the step sizes on Z = X R.

    At the start every metric is the identity, whose values are known on the rows: each margin is shifted by what the
    projection does to them.
    """
    Z = X @ R
    shift = [_start_value(measure, X, t, c, lam, mu) - _start_value(measure, Z, t, c, lam, mu)
             for t, c in zip(triplets, classes, strict=True)]  # fmt: skip
    options = {"step": step, "step_params": step_params, "margin": margin, "n_classes": n_classes}
    small = run(measure, Z, triplets, classes, lam, mu, C, shift=np.array(shift), **options)
    U, L = start(X.shape[1], n_classes)
    for (p, q, n), (i, j), tau in zip(triplets, classes, small.tau, strict=True):
        shared, local = gradient(measure, X[p], X[q], X[n], i, j, lam, mu)
        U = U - tau * shared
        for c, part in local.items():
            L[c] = L[c] - tau * part
    return Run(U, L, small.tau, small.e)


def _start_value(measure, X, triplet, classes, lam, mu):
    """<Theta_0, Psi> by the values of both pairs."""
    total = 0.0
    for x, c, side in zip(triplet[1:], classes, (1.0, -1.0), strict=True):
        sigma, phi = pair_value_and_feature(measure, X[triplet[0]], X[x])
        total += side * sigma * (lam + (mu if c >= 0 else 0.0)) * np.trace(phi)
    return total
