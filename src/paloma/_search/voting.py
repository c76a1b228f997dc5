"""The vote of neighbors and its tie rule."""

import numpy as np

from .._typing import Array

# What the winner of a tie stands out by.
EDGE = 1e-9


def majority(codes: Array) -> Array:
    """Most frequent code in each row of neighbors, nearest first; a tie goes to the nearest among the tied."""
    votes = (codes[:, :, None] == codes[:, None, :]).sum(axis=2)
    return np.take_along_axis(codes, votes.argmax(axis=1)[:, None], axis=1)[:, 0]


def vote_shares(codes: Array, classes: Array) -> Array:
    """(n_rows, n_classes) share of each class code in the votes of a row; the winner of a tie stands out by 1e-9."""
    shares = (codes[:, :, None] == classes).mean(axis=1)
    return (1.0 - EDGE) * shares + EDGE * (majority(codes)[:, None] == classes)
