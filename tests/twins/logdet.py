"""LogDet learning by inverting every matrix (theory 8). A class code of -1 is class-free, as in `stacked`."""

import numpy as np

from .stacked import Run, start
from .steps import step_caps


def psi(X, triplet, i, j, lam, mu):
    """{place: A}, place None for U and c for L_c: the step is M^-1 += tau A at each place."""
    a, b = X[triplet[0]] - X[triplet[1]], X[triplet[0]] - X[triplet[2]]
    plus, minus = np.outer(a, a), np.outer(b, b)
    blocks = {None: lam * (plus - minus)}
    for c, part in ((i, mu * plus), (j, -mu * minus)):
        if c >= 0:
            blocks[c] = blocks.get(c, 0.0) + part
    return {place: A for place, A in blocks.items() if np.any(A)}


def slope(matrices, blocks, margin, tau):
    """g(tau) = m + sum <M(tau), A>, M(tau)^-1 = M^-1 + tau A; None outside the cone."""
    value = margin
    for place, A in blocks.items():
        change = np.eye(len(A)) + tau * matrices[place] @ A
        values = np.linalg.eigvals(change).real  # of a matrix similar to a symmetric one
        if values.min() <= 0:
            return None
        value += np.trace(np.linalg.solve(change, matrices[place]) @ A)
    return value


def dual_step(matrices, blocks, margin, C, step):
    """The maximizer of m tau + sum log det(I + tau M A) [- tau^2 / 4C], by bisection of its decreasing derivative."""
    if not blocks or C == 0.0 or slope(matrices, blocks, margin, 0.0) <= 0.0:
        return 0.0

    def positive(tau):
        value = slope(matrices, blocks, margin, tau)
        return value is not None and value - (tau / (2 * C) if step == "pa2" else 0.0) > 0

    low, high = 0.0, C
    if step == "pa2":
        high = 2 * C * slope(matrices, blocks, margin, 0.0)
    elif positive(C):
        return C
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if positive(middle) else (low, middle)
    return 0.5 * (low + high)


def run(X, triplets, classes, lam, mu, C, step="pa1", margin=1.0, weights=None, U0=None, *, n_classes=None, forget=0.0):
    """The iterates after `triplets`, in order, each matrix by inverting M^-1 + tau A literally.

    forget: before each triplet every M^-1 <- M0^-1 + (1 - forget) (M^-1 - M0^-1).
    """
    X, classes = np.asarray(X, dtype=float), np.asarray(classes)
    n_classes = int(classes.max(initial=-1)) + 1 if n_classes is None else n_classes
    U, L = start(X.shape[1], n_classes, U0)
    matrices, inverse = {None: U, **dict(enumerate(L))}, np.linalg.inv(U)
    taus, es = np.zeros(len(triplets)), np.zeros(len(triplets))
    caps = step_caps(C, weights, len(triplets))
    for t, (triplet, (i, j), Ct) in enumerate(zip(triplets, classes, caps, strict=True)):
        if forget:
            matrices = {
                c: np.linalg.inv(inverse + (1 - forget) * (np.linalg.inv(M) - inverse)) for c, M in matrices.items()
            }
        blocks = psi(X, triplet, i, j, lam, mu)
        es[t] = slope(matrices, blocks, margin, 0.0)
        taus[t] = dual_step(matrices, blocks, margin, Ct, step)
        for place, A in blocks.items() if taus[t] else ():
            M = np.linalg.inv(np.linalg.inv(matrices[place]) + taus[t] * A)
            matrices[place] = 0.5 * (M + M.T)
    U = matrices.pop(None)
    return Run(U, np.array(list(matrices.values())).reshape(L.shape), taus, es)


def closed_step(s, delta, margin, C):
    """The boxed tau of theory 8 with a margin m: the root of m delta tau^2 + (2 delta - m s) tau - (m + s).

    Its denominator 2 delta - m s + root, root^2 = m^2 (s^2 + 4 delta) + 4 delta^2, cancels for s > 0 unless rewritten.
    """
    if margin + s <= 0:
        return 0.0
    root = np.sqrt(margin**2 * (s**2 + 4 * delta) + 4 * delta**2)
    below = 2 * delta + (4 * delta * (margin**2 + delta) / (root + margin * s) if s > 0 else root - margin * s)
    return min(C, 2 * (margin + s) / below) if below > 0 else C


def careful_run(X, triplets, C, margin=1.0, *, by_products=False):
    """The global PA-I learner, one triplet after the other as fast as NumPy honestly goes; keeps the dtype of X.

    The boxed update with its square completed: M - t / (1 + t alpha) uu' + t (1 + t alpha) / Delta ww', where
    w = v - t gamma / (1 + t alpha) u; the brackets of the box cancel where triplets contradict each other.
    Rank-one updates in place into a kept buffer, as in `careful`; or, `by_products`, both by one matrix product.
    """
    M = np.eye(X.shape[1], dtype=X.dtype)
    buffer, taus, es = np.empty_like(M), [], []
    for p, q, n in np.asarray(triplets).tolist():
        a, b = X[p] - X[q], X[p] - X[n]
        u, v = np.stack([a, b]).dot(M) if by_products else (M.dot(a), M.dot(b))
        alpha, beta, gamma = float(a.dot(u)), float(b.dot(v)), float(a.dot(v))
        s, delta = alpha - beta, max(alpha * beta - gamma * gamma, 0.0)
        t = closed_step(s, delta, margin, C)
        taus.append(t)
        es.append(margin + s)
        if not t:
            continue
        w = v - X.dtype.type(t * gamma / (1 + t * alpha)) * u
        weights = np.array([-t / (1 + t * alpha), t * (1 + t * alpha) / (1 + t * s - t * t * delta)], X.dtype)
        if by_products:
            rows = np.stack([u, w])
            np.add(M, np.dot(rows.T * weights, rows, out=buffer), out=M)
            continue
        for x, weight in ((u, weights[0]), (w, weights[1])):
            np.multiply((weight * x)[:, None], x, out=buffer)
            np.add(M, buffer, out=M)
    return Run(M, np.empty((0, *M.shape)), np.array(taus), np.array(es))
