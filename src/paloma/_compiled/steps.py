"""Step sizes of theory 1, chosen by an integer code (see `paloma._step` for the words)."""

import math

from .jit import compiled, inlined

PA, PA1, PA2, SMOOTH, LOGISTIC, RAMP, RESCALED, PLAIN = range(8)
# Rules that are fractions of the gap and the norm, or C itself: they have no constants.
SIMPLE = (PA, PA1, PA2, PLAIN)


@inlined
def take(rule, margin, C, norm, value, weighs):
    """The gap margin + weighs value, the step tau it asks for, and tau in units of what was learned, which `weighs`.

    Takes numbers alone: arrays that pass through a function, even an inlined one, are counted at each triplet.
    """
    gap = margin + weighs * value
    tau = step_size(rule.code, rule.first, rule.second, gap, norm, C)
    return gap, tau, tau / weighs


@compiled
def step_size(code, first, second, gap, norm, C):
    """tau of theory 1 for gap = margin - z, squared norm N and aggressiveness C; PLAIN is a gradient step of size C.

    first, second : the constants of a rule; None for those without, so that the others are not compiled.
    """
    if not norm > 0.0 or C == 0.0:
        return 0.0
    if first is None:
        if not gap > 0.0:
            return 0.0
        if code == PA1:
            return gap / norm if gap / norm < C else C
        if code == PA:
            return gap / norm
        return gap / (norm + 0.5 / C) if code == PA2 else C
    if code == LOGISTIC:
        return _logistic(1.0 - gap, norm, C)
    if not gap > 0.0:
        return 0.0
    if code == SMOOTH:
        return min(C, gap / (norm + first / C))
    if code == RAMP:
        return min(C, gap / norm) if gap < first else 0.0
    return min(C * second * first * math.exp(-first * gap), gap / norm)


@compiled
def _logistic(z, norm, C):
    """Root of tau = C / (1 + exp(z + tau N)) in (0, C): Newton kept inside a shrinking bracket.

    If the sigmoid is steep, Newton may jump between the ends for a long time: then every second step halves the
    bracket.
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


@compiled
def squared_norm(kernel, i, j, both, positive, negative):
    """N = T_ij n_d + (T_ii - T_ij) n_+ + (T_jj - T_ij) n_-, free of cancellation (theory 6.1, 7).

    A class code below zero is class-free: T = lam^2 against everything, itself included (theory 15 II.1).
    """
    norm = kernel.lam2 * both
    if i == j:
        return norm + kernel.mu2 * both if i >= 0 else norm
    if i >= 0:
        norm += kernel.mu2 * positive
    if j >= 0:
        norm += kernel.mu2 * negative
    return norm
