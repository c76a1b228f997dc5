"""The kernel learners: dense index matrices over all rows, one triplet after the other."""

from typing import NamedTuple

import numpy as np

from .steps import step_caps, step_size


def rbf(X, gamma):
    return np.array([[np.exp(-gamma * np.sum((x - z) ** 2)) for z in X] for x in X])


def polynomial(X, gamma, degree=3):
    return np.array([[(gamma * float(x @ z) + 1.0) ** degree for z in X] for x in X])


def normalized(K):
    return K / np.sqrt(np.outer(K.diagonal(), K.diagonal()))


class Run(NamedTuple):
    A: np.ndarray  # (n_kernels, n_classes + 1, n, n) net steps by class of the candidate; the last are class-free
    tau: np.ndarray  # (n_triplets, n_kernels)
    mistakes: np.ndarray  # (n_triplets, n_kernels), before the step
    theta: np.ndarray  # (n_triplets + 1, n_kernels), before each triplet and at the end
    support: list[int]  # rows that steps touched, after forgetting
    loss: float
    e: np.ndarray  # (n_triplets, n_kernels), margin - z before the step


def class_kernel(lam, mu, c, other):
    return lam**2 + (mu**2 if c == other and c >= 0 else 0.0)  # T, Fact 1


def pair_product(measure, K, p, q, r, s):
    """<phi(p, q), phi(r, s)> (sec. 0)."""
    if measure == "similarity":
        return K[p, r] * K[q, s]
    return (K[p, r] - K[p, s] - K[q, r] + K[q, s]) ** 2


def value(measure, K, A, p, q, c, lam, mu, init=1.0):
    """<lam U + mu L_c, phi(p, q)>; lam U alone for a candidate without a class."""
    form = lam**2 * A.sum(axis=0) + (mu**2 * A[c] if c >= 0 else 0.0)  # Fact 2
    start = init * (lam + (mu if c >= 0 else 0.0))
    if measure == "similarity":
        return start * K[p, q] + K[p] @ form @ K[q]
    gap = K[p] - K[q]
    return start * (K[p, p] + K[q, q] - 2.0 * K[p, q]) + gap @ form @ gap


def all_values(measure, Ks, run, labels, lam, mu, init=1.0, every=5):
    """The values of a run between every so many rows and all rows, each candidate under its own class."""
    total = 0.0
    for weight, K, A in zip(run.theta[-1], Ks, run.A, strict=True):
        rows = range(len(K))
        pairs = [[value(measure, K, A, p, q, labels[q], lam, mu, init) for q in rows] for p in rows[::every]]
        total = total + weight * np.array(pairs)
    return total


def squared_norm(measure, K, p, q, n, i, j, lam, mu):
    """|Psi|^2 by the sum over signed pairs of Fact 1."""
    pairs = ((q, i, 1.0), (n, j, -1.0))
    return sum(
        s * t * class_kernel(lam, mu, c, e) * pair_product(measure, K, p, x, p, z)
        for x, c, s in pairs
        for z, e, t in pairs
    )


def enter(measure, A, p, x, c, w):
    if measure == "similarity":
        A[c, p, x] += w
    else:
        e = np.zeros(A.shape[-1])
        e[p] += 1.0
        e[x] -= 1.0
        A[c] -= w * np.outer(e, e)


def run(Ks, triplets, classes, lam, mu, C, measure="similarity", step="pa1", step_params=None, margin=1.0, weights=None,
        init=1.0, beta=1.0, n_classes=4, draws=None, delta=0.0, budget=None, when_full="keep"):  # fmt: skip
    """Sec. 4: every kernel steps on its own loss; theta_r <- theta_r beta^(mistake), normalized as it goes."""
    m, n, sign = len(Ks), len(Ks[0]), 1.0 if measure == "distance" else -1.0
    A, theta, loss = np.zeros((m, n_classes + 1, n, n)), [np.full(m, 1.0 / m)], 0.0
    taus, es, mistakes, last = *np.zeros((2, len(triplets), m)), np.zeros((len(triplets), m), bool), {}
    caps = step_caps(C, weights, len(triplets))
    for t, ((p, q, x), (i, j), Ct) in enumerate(zip(triplets, classes, caps, strict=True)):
        chance = (1.0 - delta) * theta[t] / theta[t].max() + delta
        part = np.full(m, Ct > 0) if draws is None else (draws[t] < chance) & (Ct > 0)
        while True:
            values = np.array([
                [value(measure, K, a, p, z, c, lam, mu, init) for z, c in ((q, i), (x, j))]
                for K, a in zip(Ks, A, strict=True)
            ])  # fmt: skip
            ranks = sign * (values[:, 0] - values[:, 1])
            norms = [squared_norm(measure, K, p, q, x, i, j, lam, mu) for K in Ks]
            tau = [
                step_size(step, margin + e, N, Ct, step_params) if on else 0.0
                for e, N, on in zip(ranks, norms, part, strict=True)
            ]
            new = {p, q, x} - set(last) if any(tau) else set()
            if budget is None or len(last) + len(new) <= budget:
                break
            if when_full == "keep":
                tau, new = [0.0] * m, None
                break
            for row in sorted(last, key=lambda r: (last[r], r))[: max(3, -(-budget // 8))]:
                del last[row]
                A[:, :, row, :] = A[:, :, :, row] = 0.0  # similarity: a pair goes with either of its rows
        loss += max(0.0, margin + float(theta[t] @ ranks))
        for r in range(m):
            if tau[r]:
                enter(measure, A[r], p, q, i, tau[r])
                enter(measure, A[r], p, x, j, -tau[r])
        if any(tau):
            last.update(dict.fromkeys((p, q, x), t))
        taus[t], es[t] = tau, margin + ranks
        mistakes[t] = ranks >= -1e-13 * np.abs(values).sum(axis=1)  # ties are mistakes
        weight = theta[t] * np.where(part & mistakes[t], beta, 1.0)
        theta.append(weight / weight.sum())
    return Run(A, taus, mistakes, np.array(theta), sorted(last), loss, es)
