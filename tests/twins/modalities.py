"""OMDML and its low-rank variant: one triplet after the other (theory 5)."""

from typing import NamedTuple

import numpy as np

from .stacked import exact_step_size, gradient, read_out
from .steps import step_caps, step_size

TIE = np.finfo(float).eps ** (2 / 3)


class Run(NamedTuple):
    shared: list  # U of each modality, or W
    local: list  # [modality][class]
    weights: np.ndarray  # (n_triplets + 1, m): theta before each round, and after the last
    steps: np.ndarray  # (n_triplets, m)


def discounts(beta, t, m):
    return np.sqrt(t) / (np.sqrt(t) + np.sqrt(np.log(m))) if beta == "auto" else beta


def weights_after(sums, beta, t):
    """theta of round t = 1, 2, ...: products of beta, one per mistake, normalized."""
    logs = np.log(discounts(beta, t, len(sums))) * sums
    theta = np.exp(logs - logs.max())
    return theta / theta.sum()


def play(modalities, n, caps, gate, beta, margin):
    """The rounds; a modality has value(t) = <Theta, Psi> and step(t, value, cap) -> tau."""
    sums, weights, steps = np.zeros(len(modalities)), [], np.zeros((n, len(modalities)))
    for t in range(n):
        theta = weights_after(sums, beta, t + 1)
        weights.append(theta)
        f = np.array([modality.value(t) for modality in modalities])
        if theta @ f + gate > TIE * margin:
            sums += (f >= -TIE * margin) & (caps[t] > 0)
            steps[t] = [modality.step(t, value, caps[t]) for modality, value in zip(modalities, f, strict=True)]
        for modality in modalities:
            modality.end(t)
    weights.append(weights_after(sums, beta, n + 1))
    return np.array(weights), steps


class Full:
    """ODML, or LODML, on some columns (theory 3, 6)."""

    def __init__(self, X, triplets, classes, lam, n_classes, step="pa1", step_params=None, margin=1.0, psd="never",
                 U0=None):  # fmt: skip
        self.X, self.triplets, self.classes, self.lam, self.margin = X, triplets, classes, lam, margin
        self.rule, self.psd = (step, step_params), psd
        self.U = np.eye(X.shape[1]) if U0 is None else U0
        self.L = np.repeat(self.U[None], n_classes, axis=0)

    def psi(self, t):
        return gradient("distance", *self.X[self.triplets[t]], *self.classes[t], self.lam, 1 - self.lam)

    def value(self, t):
        shared, local = self.psi(t)
        return np.sum(self.U * shared) + sum(np.sum(self.L[c] * part) for c, part in local.items())

    def step(self, t, value, cap):
        shared, local = self.psi(t)
        N = np.sum(shared**2) + sum(np.sum(part**2) for part in local.values())
        if self.psd == "exact":
            tau = exact_step_size(self.U, self.L, shared, local, cap, self.margin) if N and cap else 0.0
        else:
            tau = step_size(self.rule[0], self.margin + value, N, cap, self.rule[1])
        self.U = self.U - tau * shared
        for c, part in local.items():
            self.L[c] = self.L[c] - tau * part
        if self.psd in ("step", "exact") and tau:
            self.U, self.L = read_out(self.U, self.L)
        return tau

    def end(self, t):
        if isinstance(self.psd, int) and (t + 1) % self.psd == 0:
            self.U, self.L = read_out(self.U, self.L)


class Factor:
    """M = W'W by online gradient (theory 5); for classes M_c = lam W'W + mu W_c'W_c, both factors moving."""

    def __init__(self, X, triplets, classes, lam, n_classes, W0, step="pa1", step_params=None, margin=1.0,
                 eta=False):  # fmt: skip
        self.X, self.triplets, self.classes, self.lam, self.margin = X, triplets, classes, lam, margin
        self.rule, self.plain, self.U = (step, step_params), eta, W0.copy()
        self.L = np.repeat(W0[None], n_classes, axis=0)

    def at(self, t, U, L):
        """lam (|Ua|^2 - |Ub|^2) + mu |L_i a|^2 - mu |L_j b|^2."""
        p, pos, neg = self.X[self.triplets[t]]
        (i, j), mu = self.classes[t], 1 - self.lam
        value = self.lam * (np.sum((U @ (p - pos)) ** 2) - np.sum((U @ (p - neg)) ** 2))
        value += mu * np.sum((L[i] @ (p - pos)) ** 2) if i >= 0 else 0.0
        return value - (mu * np.sum((L[j] @ (p - neg)) ** 2) if j >= 0 else 0.0)

    def value(self, t):
        return self.at(t, self.U, self.L)

    def gradient(self, t):
        """2 W (aa' - bb') as the theory writes it, through the images of the three points."""
        p, pos, neg = self.X[self.triplets[t]]
        (i, j), mu = self.classes[t], 1 - self.lam
        q, q_pos, q_neg = self.U @ p, self.U @ pos, self.U @ neg
        shared = 2 * self.lam * (np.outer(q_neg - q_pos, p) + np.outer(q_pos - q, pos) + np.outer(q - q_neg, neg))
        local = np.zeros_like(self.L)
        if i >= 0:
            local[i] += 2 * mu * np.outer(self.L[i] @ (p - pos), p - pos)
        if j >= 0:
            local[j] -= 2 * mu * np.outer(self.L[j] @ (p - neg), p - neg)
        return shared, local

    def step(self, t, value, cap):
        shared, local = self.gradient(t)
        N = np.sum(shared**2) + np.sum(local**2)
        if N < 1e-20:  # rounding of the theory's form, where the gradient is 0
            return 0.0
        gap = self.margin + value
        eta = cap * (gap > 0) if self.plain else step_size(self.rule[0], gap, N, cap, self.rule[1])
        self.U, self.L = self.U - eta * shared, self.L - eta * local
        return eta

    def end(self, t):
        pass


def run(kind, columns, X, triplets, classes, lam, C, *, n_classes, gate=np.inf, beta="auto", margin=1.0, weights=None,
        psd="never", starts=None, **options):  # fmt: skip
    """The iterates of all modalities after `triplets`. An int psd projects all after every so many triplets."""
    starts = [{}] * len(columns) if starts is None else [{"W0": start} for start in starts]
    if kind is Full:
        options["psd"] = psd
    modalities = [
        kind(X[:, c], triplets, classes, lam, n_classes, margin=margin, **options, **start)
        for c, start in zip(columns, starts, strict=True)
    ]
    theta, steps = play(modalities, len(triplets), step_caps(C, weights, len(triplets)), gate, beta, margin)
    return Run([m.U for m in modalities], [m.L for m in modalities], theta, steps)
