"""The vote of neighbors: their weights, and its tie rule (theory 23)."""

import numpy as np

from .._typing import Array

# What the winner of a tie stands out by.
EDGE = 1e-9
# The soft vote: exp(-d_r^2 / (SOFTNESS d_k^2)) of the r-th of k neighbors; of similarities 1 / r over N_RANKS.
SOFTNESS = 0.25
N_RANKS = 7
RULES = ("soft", "uniform", "distance")


def vote_weights(rule: str, nearness: Array, is_distance: bool) -> Array:
    """Weights of neighbors, nearest first, from the values of a search: squared distances, or minus similarities."""
    if rule == "uniform":
        return np.ones(nearness.shape)
    if not is_distance:
        if rule == "distance":
            raise ValueError("weights='distance' requires a distance learner; a similarity votes 'soft' or 'uniform'.")
        ranks = np.arange(1.0, nearness.shape[1] + 1.0)
        return np.broadcast_to(np.where(ranks <= N_RANKS, 1.0 / ranks, 0.0), nearness.shape)
    squares = np.maximum(nearness, 0.0)
    if rule == "soft":
        return np.exp(-squares / np.maximum(SOFTNESS * squares[:, -1:], np.finfo(np.float64).tiny))
    same = squares == 0.0
    with np.errstate(divide="ignore"):
        return np.where(same.any(axis=1, keepdims=True), same, 1.0 / np.sqrt(squares))


def majority(codes: Array, weights: Array | None = None) -> Array:
    """The code with the most votes in each row of neighbors, nearest first; a tie goes to the nearest of the tied."""
    alike = codes[:, :, None] == codes[:, None, :]
    votes = alike.sum(axis=2) if weights is None else (alike * weights[:, None, :]).sum(axis=2)
    return np.take_along_axis(codes, votes.argmax(axis=1)[:, None], axis=1)[:, 0]


def vote_shares(codes: Array, classes: Array, weights: Array | None = None) -> Array:
    """(n_rows, n_classes) share of each class code in the votes of a row; the winner of a tie stands out by 1e-9."""
    n, width = len(codes), int(max(codes.max(initial=0), classes.max(initial=0))) + 1
    places = (np.arange(n)[:, None] * width + codes).ravel()
    votes = np.bincount(places, None if weights is None else weights.ravel(), n * width).reshape(n, width)
    total = codes.shape[1] if weights is None else weights.sum(axis=1, keepdims=True)
    shares = votes[:, classes] / total
    return (1.0 - EDGE) * shares + EDGE * (majority(codes, weights)[:, None] == classes)
