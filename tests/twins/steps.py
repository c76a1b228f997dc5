"""Step sizes, the table of theory 1: e = margin - z, so that l = max(0, e) and, for margin 1, z = 1 - e."""

import numpy as np

STEP_DEFAULTS = {"smooth": {"gamma": 0.5}, "ramp": {"level": 1.7}, "rescaled": {"eta": 0.5, "beta": None}}


def _logistic(e, N, C):
    """Root of tau = C / (1 + exp(z + tau N)) in (0, C), bisected; z = 1 - e: a margin m shifts z by m - 1."""
    low, high = 0.0, C
    for _ in range(200):
        middle = 0.5 * (low + high)
        exponent = min(1.0 - e + middle * N, 700.0)  # exp(700) is still finite
        if middle < C / (1.0 + np.exp(exponent)):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def step_size(step, e, N, C, params=None):
    """tau = rule(e, N, C), the table of sec. 1. No step when N <= 0, C = 0, or (all but logistic) l <= 0."""
    p = {**STEP_DEFAULTS.get(step, {}), **(params or {})}
    if N <= 0.0 or C == 0.0:  # below 0 for kernels that are none, such as the sigmoid
        return 0.0
    if step == "logistic":
        return _logistic(e, N, C)  # never passive
    if e <= 0.0:
        return 0.0
    if step == "pa":
        return e / N
    if step == "pa1":
        return min(C, e / N)
    if step == "pa2":
        return e / (N + 1.0 / (2.0 * C))
    if step == "smooth":
        return min(C, e / (N + p["gamma"] / C))
    if step == "ramp":
        return min(C, e / N) if e < p["level"] else 0.0
    if step == "rescaled":
        beta = 1.0 / (1.0 - np.exp(-p["eta"])) if p["beta"] is None else p["beta"]
        return min(C * beta * p["eta"] * np.exp(-p["eta"] * e), e / N)
    raise ValueError(step)


def step_caps(C, weights, n_triplets):
    """C of every triplet: w_t C (sec. 1); a weight of 0 takes no step even where C is infinite."""
    return [C] * n_triplets if weights is None else [C * float(w) if w else 0.0 for w in weights]
