"""The vote of neighbors: their weights, their number, and the tie rule (theory 23)."""

import numpy as np

from .._typing import Array

# What the winner of a tie stands out by.
EDGE = 1e-9
# The soft vote: exp(-g_r / (SOFTNESS g_k)) of the r-th of k neighbors, g d^2, or what a similarity lacks (theory 23).
SOFTNESS = 0.25
RULES = ("soft", "uniform", "distance")
# Numbers of neighbors that are compared, from LEAST_SOFT on if the vote is soft.
COUNTS = (3, 5, 7, 10, 14, 20, 28, 40, 56)
LEAST_SOFT = 10
# Pairs of neighbors that are compared at a time, so that caches hold them.
COMPARED = 1 << 16
# Standard errors by which a number must be better than the least one.
CLEARLY = 1.0


def vote_weights(rule: str, nearness: Array, is_distance: bool, own: Array | None = None) -> Array:
    """Weights of neighbors, nearest first, from the values of a search: squared distances, or minus similarities.

    own : of similarities, the value of each query with itself; None: not known, as if it were that of the nearest.
    """
    if rule == "uniform":
        return np.ones(nearness.shape)
    if not is_distance and rule == "distance":
        raise ValueError("weights='distance' requires a distance learner; a similarity votes 'soft' or 'uniform'.")
    squares = np.maximum(nearness, 0.0) if is_distance else _lacking(nearness, own)
    if rule == "soft":
        shares = squares / -np.maximum(SOFTNESS * squares[:, -1:], np.finfo(np.float64).tiny)
        return np.exp(shares, out=shares)
    same = squares == 0.0
    with np.errstate(divide="ignore"):
        return np.where(same.any(axis=1, keepdims=True), same, 1.0 / np.sqrt(squares))


def _lacking(nearness: Array, own: Array | None) -> Array:
    """What similarities lack to that of the query with itself, or of the nearest if that is larger."""
    first = nearness[:, :1]
    return nearness - (first if own is None else np.minimum(first, own[:, None]))


def counts_of(rule: str, codes: Array) -> list[int]:
    """Numbers of neighbors that are worth a comparison, ascending; codes : classes of the rows that vote.

    No more than classes have rows in the mean, since more could not be of one class; the least of them in any case.
    """
    least = LEAST_SOFT if rule == "soft" else COUNTS[0]
    most = (len(codes) - 1) // max(len(np.unique(codes)), 1)
    return [k for k in COUNTS if least <= k <= max(most, least)]


def best_count(
    rule: str, counts: list[int], nearness: Array, codes: Array, truth: Array, is_distance: bool,
    own: Array | None = None, factors: Array | None = None,
) -> int:  # fmt: skip
    """The number of neighbors by which the true classes do best against their strongest rivals (theory 23).

    By the mean square of the rival's share in the votes of the two; the least one, unless another is clearly better.

    nearness, codes : values and class codes of the neighbors of each row, nearest first, as many as the largest count.
    truth : class codes of the rows. own : as in `vote_weights`. factors : of the neighbors' votes.
    """
    losses = []
    for k in counts:
        weights = vote_weights(rule, nearness[:, :k], is_distance, own) * (1.0 if factors is None else factors[:, :k])
        true, rival = _of_two(codes[:, :k], weights, truth)
        losses.append((rival / (true + rival)) ** 2)
    best = int(np.argmin([loss.mean() for loss in losses]))
    gain = losses[0] - losses[best]
    return counts[best] if gain.mean() > CLEARLY * gain.std() / np.sqrt(len(truth)) else counts[0]


def _of_two(codes: Array, weights: Array, truth: Array) -> tuple[Array, Array]:
    """The votes for the true class of each row, and for its strongest rival."""
    order = np.argsort(codes, axis=1)
    codes, total = np.take_along_axis(codes, order, 1), np.take_along_axis(weights, order, 1).cumsum(axis=1)
    ends = np.diff(codes, axis=1, append=-1) != 0
    before = np.maximum.accumulate(np.where(ends, total, 0.0), axis=1)
    votes = np.where(ends, total - np.pad(before, ((0, 0), (1, 0)))[:, :-1], 0.0)
    right = codes == truth[:, None]
    return (votes * right).sum(axis=1), np.where(right, 0.0, votes).max(axis=1)


def majority(codes: Array, weights: Array | None = None) -> Array:
    """The code with the most votes in each row of neighbors, nearest first; a tie goes to the nearest of the tied."""
    (n, k), winners = codes.shape, np.empty(len(codes), np.intp)
    size = max(1, COMPARED // k**2)
    for a in range(0, n, size):
        part = codes[a : a + size]
        alike = part[:, :, None] == part[:, None, :]
        votes = alike.sum(axis=2) if weights is None else (alike * weights[a : a + size, None, :]).sum(axis=2)
        winners[a : a + size] = votes.argmax(axis=1)
    return codes[np.arange(n), winners]


def vote_shares(codes: Array, classes: Array, weights: Array | None = None) -> Array:
    """(n_rows, n_classes) share of each class code in the votes of a row; the winner of a tie stands out by 1e-9."""
    n, width = len(codes), int(max(codes.max(initial=0), classes.max(initial=0))) + 1
    places = (np.arange(n)[:, None] * width + codes).ravel()
    votes = np.bincount(places, None if weights is None else weights.ravel(), n * width).reshape(n, width)
    total = codes.shape[1] if weights is None else weights.sum(axis=1, keepdims=True)
    shares = votes[:, classes] / total
    return (1.0 - EDGE) * shares + EDGE * (majority(codes, weights)[:, None] == classes)
