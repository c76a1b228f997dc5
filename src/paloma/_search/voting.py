"""The vote of neighbors: their weights, their number, and the tie rule (theory 23)."""

import numpy as np

from .._typing import Array

# What the winner of a tie stands out by.
EDGE = 1e-9
# The soft vote: exp(-d_r^2 / (SOFTNESS d_k^2)) of the r-th of k neighbors; of similarities 1 / (r - 1 + k / N_RANKS).
SOFTNESS = 0.25
N_RANKS = 7
RULES = ("soft", "uniform", "distance")
# Numbers of neighbors that are compared, from LEAST_SOFT on if the vote is soft: (of similarities, of distances). Rows
# that the metric learned from have their own class too near, and would judge fewer neighbors too well.
COUNTS = (3, 5, 7, 10, 14, 20, 28, 40, 56)
LEAST_SOFT = (7, 10)
# A true class without a vote counts as if it had this share.
LEAST_SHARE = 0.02


def vote_weights(rule: str, nearness: Array, is_distance: bool) -> Array:
    """Weights of neighbors, nearest first, from the values of a search: squared distances, or minus similarities."""
    if rule == "uniform":
        return np.ones(nearness.shape)
    if not is_distance:
        if rule == "distance":
            raise ValueError("weights='distance' requires a distance learner; a similarity votes 'soft' or 'uniform'.")
        k = nearness.shape[1]
        return np.broadcast_to(1.0 / (np.arange(k) + max(k / N_RANKS, 1.0)), nearness.shape)
    squares = np.maximum(nearness, 0.0)
    if rule == "soft":
        return np.exp(-squares / np.maximum(SOFTNESS * squares[:, -1:], np.finfo(np.float64).tiny))
    same = squares == 0.0
    with np.errstate(divide="ignore"):
        return np.where(same.any(axis=1, keepdims=True), same, 1.0 / np.sqrt(squares))


def counts_of(rule: str, is_distance: bool, n: int) -> list[int]:
    """Numbers of neighbors that are worth a comparison if there are n, ascending; the least of them in any case."""
    least = LEAST_SOFT[is_distance] if rule == "soft" else COUNTS[0]
    return [k for k in COUNTS if least <= k <= max(n, least)]


def best_count(
    rule: str, counts: list[int], nearness: Array, codes: Array, truth: Array, is_distance: bool,
    factors: Array | None = None,
) -> int:  # fmt: skip
    """The number of neighbors by which the true classes get the largest shares of the votes, by the mean of their logs.

    The least one, unless another is better by more than a standard error of the rows' differences.

    nearness, codes : values and class codes of the neighbors of each row, nearest first, as many as the largest count.
    truth : class codes of the rows. factors : of the neighbors' votes.
    """
    scores = []
    for k in counts:
        weights = vote_weights(rule, nearness[:, :k], is_distance) * (1.0 if factors is None else factors[:, :k])
        share = (weights * (codes[:, :k] == truth[:, None])).sum(axis=1) / weights.sum(axis=1)
        scores.append(np.log(share + LEAST_SHARE))
    best = int(np.argmax([score.mean() for score in scores]))
    gain = scores[best] - scores[0]
    return counts[best] if gain.mean() > gain.std() / np.sqrt(len(truth)) else counts[0]


def majority(codes: Array, weights: Array | None = None) -> Array:
    """The code with the most votes in each row of neighbors, nearest first; a tie goes to the nearest of the tied."""
    alike = codes[:, :, None] == codes[:, None, :]
    votes = alike.sum(axis=2) if weights is None else (alike * weights[:, None, :]).sum(axis=2)
    return codes[np.arange(len(codes)), votes.argmax(axis=1)]


def vote_shares(codes: Array, classes: Array, weights: Array | None = None) -> Array:
    """(n_rows, n_classes) share of each class code in the votes of a row; the winner of a tie stands out by 1e-9."""
    n, width = len(codes), int(max(codes.max(initial=0), classes.max(initial=0))) + 1
    places = (np.arange(n)[:, None] * width + codes).ravel()
    votes = np.bincount(places, None if weights is None else weights.ravel(), n * width).reshape(n, width)
    total = codes.shape[1] if weights is None else weights.sum(axis=1, keepdims=True)
    shares = votes[:, classes] / total
    return (1.0 - EDGE) * shares + EDGE * (majority(codes, weights)[:, None] == classes)
