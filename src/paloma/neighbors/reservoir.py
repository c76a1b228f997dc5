"""Votes over the rows that a learner remembers of its stream."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._search import items_of, majority
from ..estimators.base import Learner

Array = NDArray[Any]


def shares(learner: Learner, Q: Any, n_neighbors: int) -> tuple[Array, Array]:
    """Labels known so far, and (n_queries, n_labels) shares of the vote of each query's nearest remembered rows.

    The winner of a tie, the class of the nearest among the tied, stands out by 1e-9. Without any remembered row all
    shares are 0.
    """
    model = learner._model
    rows, codes = model.reservoir.sample(learner._rows(Q))
    labels, order = model.labels.sorted, model.labels.order
    if not len(codes):
        return labels, np.zeros((len(Q), len(labels)))
    items = items_of(learner._metric(), rows, learner._places(rows, codes))
    _, ids = items.search(learner._rows(Q), min(n_neighbors, len(codes)))
    votes = codes[ids]
    won = (votes[:, :, None] == order).mean(axis=1)
    return labels, (1.0 - 1e-9) * won + 1e-9 * (majority(votes)[:, None] == order)
