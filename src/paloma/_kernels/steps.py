"""Step sizes of spec.md section 1, chosen by an integer code (see `paloma._step` for the words)."""

import math

from .jit import kernel

PA, PA1, PA2, SMOOTH, LOGISTIC, RAMP, RESCALED = range(7)


@kernel
def step_size(code, gap, norm, C, first, second):
    """tau of spec 1 for gap = margin - z, squared norm N, aggressiveness C and the rule's two constants."""
    if not norm > 0.0 or C == 0.0:
        return 0.0
    if code == LOGISTIC:
        return _logistic(1.0 - gap, norm, C)
    if not gap > 0.0:
        return 0.0
    if code == PA1:
        return min(C, gap / norm)
    if code == PA:
        return gap / norm
    if code == PA2:
        return gap / (norm + 0.5 / C)
    if code == SMOOTH:
        return min(C, gap / (norm + first / C))
    if code == RAMP:
        return min(C, gap / norm) if gap < first else 0.0
    return min(C * second * first * math.exp(-first * gap), gap / norm)


@kernel
def _logistic(z, norm, C):
    """Root of tau = C / (1 + exp(z + tau N)) in (0, C): Newton kept inside a shrinking bracket.

    Where the sigmoid is steep Newton may jump from one end to the other for long: then every second step halves.
    """
    low, high = 0.0, C
    tau = min(C, 1.0 / norm)
    for attempt in range(160):
        u = z + tau * norm
        if u > 0.0:
            small = math.exp(-u)
            sigma = small / (1.0 + small)
        else:
            sigma = 1.0 / (1.0 + math.exp(u))
        excess = tau - C * sigma
        if excess > 0.0:
            high = tau
        else:
            low = tau
        new = tau - excess / (1.0 + C * norm * sigma * (1.0 - sigma))
        if not (low < new < high) or (attempt >= 16 and attempt % 2 == 0):
            new = 0.5 * (low + high)
        if abs(new - tau) <= 1e-15 * new:
            return new
        tau = new
    return tau


@kernel
def squared_norm(lam2, mu2, i, j, both, positive, negative):
    """N = T_ij n_d + (T_ii - T_ij) n_+ + (T_jj - T_ij) n_-, free of cancellation (spec 6.1, 7).

    A class code below zero is class-free: T = lam^2 against everything, itself included (spec 15 II.1).
    """
    norm = lam2 * both
    if i == j:
        return norm + mu2 * both if i >= 0 else norm
    if i >= 0:
        norm += mu2 * positive
    if j >= 0:
        norm += mu2 * negative
    return norm
