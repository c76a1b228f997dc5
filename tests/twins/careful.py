"""`stacked.run` written as fast as one-triplet-at-a-time NumPy goes: what the benchmarks compare with."""

import numpy as np

from .stacked import Run, start
from .steps import step_caps, step_size


def careful_run(measure, X, triplets, classes, lam, mu, C, step="pa1", step_params=None, margin=1.0,
                weights=None, U0=None, *, n_classes=None):  # fmt: skip
    """`run` without p.s.d. policy, one triplet after the other as fast as NumPy honestly goes; keeps the dtype of X.

    O(d) norms without cancellation, quadratic forms, and rank-one updates in place into a kept buffer.
    """
    X, classes = np.asarray(X), np.asarray(classes)
    n_classes = int(classes.max(initial=-1)) + 1 if n_classes is None else n_classes
    U, L = start(X.shape[1], n_classes, U0, X.dtype)
    taus, es, buffer = [], [], np.empty_like(U)
    parts = _careful_distance if measure == "distance" else _careful_similarity
    caps = step_caps(C, weights, len(triplets))
    for (p, q, r), (i, j), Ct in zip(np.asarray(triplets).tolist(), classes.tolist(), caps, strict=True):
        left, plus, minus, e, N = parts(U, L, X[p], X[q], X[r], i, j, lam, mu, margin)
        tau = step_size(step, e, N, Ct, step_params)
        taus.append(tau)
        es.append(e)
        if not tau:
            continue
        for matrix, (x, y), weight in _moves(U, L, left, plus, minus, i, j, lam, mu):
            np.multiply(x[:, None] * U.dtype.type(-tau * weight), y, out=buffer)
            np.add(matrix, buffer, out=matrix)
    return Run(U, L, np.array(taus), np.array(es))


def _careful_distance(U, L, p, q, r, i, j, lam, mu, margin):
    a, b, gap = p - q, p - r, r - q
    aa, bb = float(a.dot(a)), float(b.dot(b))
    both = 0.5 * (float(gap.dot(gap)) * float((a + b).dot(a + b)) + (aa - bb) ** 2)  # N_d, sec. 6.1
    e = margin + lam * (float(a.dot(U.dot(a))) - float(b.dot(U.dot(b)))) if lam else margin
    if mu and i >= 0:
        e += mu * float(a.dot(L[i].dot(a)))
    if mu and j >= 0:
        e -= mu * float(b.dot(L[j].dot(b)))
    return None, (a, a), (b, b), e, _careful_norm(lam, mu, i, j, both, aa**2, bb**2)


def _careful_similarity(U, L, p, q, r, i, j, lam, mu, margin):
    gap = q - r
    pp = float(p.dot(p))
    e = margin - lam * float(p.dot(U.dot(gap))) if lam else margin
    if mu and i >= 0:
        e -= mu * float(p.dot(L[i].dot(q)))
    if mu and j >= 0:
        e += mu * float(p.dot(L[j].dot(r)))
    sizes = (pp * float(x.dot(x)) for x in (gap, q, r))  # sec. 7
    return gap, (p, -q), (p, -r), e, _careful_norm(lam, mu, i, j, *sizes)


def _careful_norm(lam, mu, i, j, both, plus, minus):
    if i == j and i >= 0:
        return (lam**2 + mu**2) * both
    return lam**2 * both + mu**2 * ((plus if i >= 0 else 0.0) + (minus if j >= 0 else 0.0))


def _moves(U, L, gap, plus, minus, i, j, lam, mu):
    """(matrix, factors, weight) of every rank-one part of Psi."""
    if lam and gap is not None:
        yield U, (plus[0], -gap), lam
    elif lam:
        yield U, plus, lam
        yield U, minus, -lam
    if mu and i >= 0:
        yield L[i], plus, mu
    if mu and j >= 0:
        yield L[j], minus, -mu
