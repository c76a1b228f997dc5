"""Euclidean nearest neighbors: the baseline that a learned metric has to beat."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.neighbors import NearestNeighbors

from .. import _validation as check
from .._search.voting import RULES, majority, vote_weights


def euclidean_accuracy(
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_neighbors: int = 3,
    weights: str = "uniform",
    items: ArrayLike | None = None,
    item_labels: ArrayLike | None = None,
) -> float:
    """Accuracy of the vote of Euclidean nearest neighbors.

    Parameters
    ----------
    X, y : rows and their labels.
    n_neighbors : number of neighbors that vote; a tie goes to the class of the nearest of the tied neighbors.
    weights : {"uniform", "soft", "distance"}, what a neighbor's vote counts; see MetricKNeighborsClassifier.
    items, item_labels : the rows that vote; None: all of X but the row itself.

    Examples
    --------
    >>> from paloma.neighbors import euclidean_accuracy
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> print(f"{euclidean_accuracy(X, y):.2f}")
    0.96
    """
    check.check_word("weights", weights, RULES)
    given = items is not None
    classes, numbers = np.unique(np.asarray(item_labels if given else y), return_inverse=True)
    search = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(items if given else X)
    distances, ids = search.kneighbors(X if given else None)
    voted = majority(numbers[ids], vote_weights(weights, distances**2, is_distance=True))
    return float((classes[voted] == np.asarray(y)).mean())
