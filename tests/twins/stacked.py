"""The literal sequential learner (theory 0, 6.1, 7): every matrix it talks about is built.

A class code of -1 means "class-free": that candidate has no local part, only the shared matrix U sees it.
"""

from typing import NamedTuple

import numpy as np

from .steps import step_caps, step_size


class Run(NamedTuple):
    U: np.ndarray  # (d, d), the shared matrix
    L: np.ndarray  # (n_classes, d, d), one matrix a class
    tau: np.ndarray  # (n_triplets,), the step sizes
    e: np.ndarray  # (n_triplets,), margin - z before each step; the hinge loss is max(0, e)


def gradient(measure, p, pos, neg, i, j, lam, mu):
    """Psi of sec. 0: its matrix at U, and {c: its matrix at L_c}; the local entries add when i = j."""
    if measure == "distance":
        sign, plus, minus = +1.0, np.outer(p - pos, p - pos), np.outer(p - neg, p - neg)  # aa', bb'
    else:
        sign, plus, minus = -1.0, np.outer(p, pos), np.outer(p, neg)  # p p+', p p-'
    local = {}
    for c, part in ((i, plus), (j, -minus)):
        if c >= 0:
            local[c] = local.get(c, 0.0) + sign * mu * part
    return sign * lam * (plus - minus), local


def project(M):
    """P_+: the nearest positive semi-definite matrix, by a full eigendecomposition."""
    values, vectors = np.linalg.eigh(0.5 * (M + M.T))
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def read_out(U, L):
    """psd='end': the projected copies of U and of each L_c (Algorithm 1); the state itself stays as it is."""
    return project(U), np.array([project(M) for M in L]).reshape(L.shape)


def exact_step_size(U, L, shared, local, C, margin):
    """sec. 6.2: the root in [0, C] of g(tau) = margin + <P_+(Theta - tau Psi), Psi>, never increasing."""

    def g(tau):
        value = margin + np.sum(project(U - tau * shared) * shared)
        return value + sum(np.sum(project(L[c] - tau * part) * part) for c, part in local.items())

    if g(0.0) <= 0.0:
        return 0.0
    if g(C) >= 0.0:
        return C
    low, high = 0.0, C
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if g(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)


def start(d, n_classes, U0=None, dtype=float):
    """U = L_c = I, or the given start for all of them (so that M_c = U0 when lam + mu = 1)."""
    U = np.eye(d, dtype=dtype) if U0 is None else np.array(U0, dtype=dtype)
    return U, np.repeat(U[None], n_classes, axis=0)


def run(measure, X, triplets, classes, lam, mu, C, step="pa1", step_params=None, margin=1.0, weights=None,
        U0=None, *, n_classes=None, psd="never", forget=0.0, shift=None):  # fmt: skip
    """The iterates after `triplets`, in order. `classes`: (n, 2), of the positive and of the negative.

    forget: before each triplet Theta <- Theta0 + (1 - forget) (Theta - Theta0). shift: added to each margin.

    psd: 'never' (also what 'end' learns), an int n (project all after every n-th triplet), 'step' or 'exact'.
    """
    X, classes = np.asarray(X, dtype=float), np.asarray(classes)
    n_classes = int(classes.max(initial=-1)) + 1 if n_classes is None else n_classes
    U, L = start(X.shape[1], n_classes, U0)
    taus, es = np.zeros(len(triplets)), np.zeros(len(triplets))
    caps, first = step_caps(C, weights, len(triplets)), start(X.shape[1], n_classes, U0)
    margins = np.full(len(triplets), margin) + (0.0 if shift is None else shift)
    for t, ((row, pos, neg), (i, j), Ct) in enumerate(zip(triplets, classes, caps, strict=True)):
        if forget:
            U, L = (now0 + (1.0 - forget) * (now - now0) for now, now0 in zip((U, L), first, strict=True))
        shared, local = gradient(measure, X[row], X[pos], X[neg], i, j, lam, mu)
        e = margins[t] + np.sum(U * shared) + sum(np.sum(L[c] * part) for c, part in local.items())  # sec. 6.1, 7
        N = np.sum(shared**2) + sum(np.sum(part**2) for part in local.values())  # ||Psi||^2, literally
        if psd == "exact":
            tau = exact_step_size(U, L, shared, local, Ct, margins[t]) if N and Ct else 0.0
        else:
            tau = step_size(step, e, N, Ct, step_params)
        if tau:
            U = U - tau * shared  # Theta - tau Psi
            for c, part in local.items():
                L[c] = L[c] - tau * part
        if (psd in ("step", "exact") and tau) or (isinstance(psd, int) and (t + 1) % psd == 0):
            U, L = read_out(U, L)  # classes that were not touched are p.s.d. already
        taus[t], es[t] = tau, e
    return Run(U, L, taus, es)
