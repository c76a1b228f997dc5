"""One weight per feature: the learner of `stacked` on vectors, one triplet after the other (theory 20)."""

from typing import NamedTuple

import numpy as np

from .stacked import exact_step_size
from .steps import step_caps, step_size


class Run(NamedTuple):
    shared: np.ndarray  # (d,), the weights of U
    local: np.ndarray  # (n_classes, d), those of each L
    tau: np.ndarray
    e: np.ndarray


def psi(p, pos, neg, i, j, lam, mu):
    """Psi at u, and {c: Psi at l_c}."""
    plus, minus, local = (p - pos) ** 2, (p - neg) ** 2, {}
    for c, part in ((i, plus), (j, -minus)):
        if c >= 0:
            local[c] = local.get(c, 0.0) + mu * part
    return lam * (plus - minus), local


def run(X, triplets, classes, lam, mu, C, step="pa1", step_params=None, margin=1.0, weights=None, *, n_classes,
        psd="never", forget=0.0):  # fmt: skip
    """The iterates after `triplets`, in order; C is per feature. `psd` and `forget` as in `stacked.run`."""
    d = X.shape[1]
    u, ls, taus, es = np.ones(d), np.ones((n_classes, d)), np.zeros(len(triplets)), np.zeros(len(triplets))
    caps = step_caps(C * d, weights, len(triplets))
    for t, ((row, pos, neg), (i, j), Ct) in enumerate(zip(triplets, classes, caps, strict=True)):
        u, ls = 1.0 + (1.0 - forget) * (u - 1.0), 1.0 + (1.0 - forget) * (ls - 1.0)
        shared, local = psi(X[row], X[pos], X[neg], i, j, lam, mu)
        e = margin + u @ shared + sum(ls[c] @ part for c, part in local.items())
        N = shared @ shared + sum(part @ part for part in local.values())
        if psd == "exact":  # as diagonal matrices
            parts = {c: np.diag(part) for c, part in local.items()}
            L = {c: np.diag(ls[c]) for c in local}
            tau = exact_step_size(np.diag(u), L, np.diag(shared), parts, Ct, margin) if N and Ct else 0.0
        else:
            tau = step_size(step, e, N, Ct, step_params)
        u = u - tau * shared
        for c, part in local.items():
            ls[c] = ls[c] - tau * part
        if (psd in ("step", "exact") and tau) or (isinstance(psd, int) and (t + 1) % psd == 0):
            u, ls = np.maximum(u, 0.0), np.maximum(ls, 0.0)
        taus[t], es[t] = tau, e
    return Run(u, ls, taus, es)


def matrices(run):
    """U, and one L per class, as matrices."""
    return np.diag(run.shared), np.array([np.diag(row) for row in run.local])
