"""Votes over the rows that a learner remembers of its stream."""

from typing import Any

import numpy as np

from .._search.voting import vote_shares
from .._typing import Array
from ..estimators import reader_of, reading
from ..estimators.base import Learner


def shares(learner: Learner, Q: Any, n_neighbors: int) -> tuple[Array, Array]:
    """Labels known so far, and (n_queries, n_labels) shares of the vote of each query's nearest remembered rows.

    The winner of a tie, the class of the nearest among the tied, stands out by 1e-9. Without any remembered row all
    shares are 0.
    """
    with reading(learner):
        reader = reader_of(learner)
        queries, labels = reader.rows(Q), reader.labels
        rows, codes = reader.remembered()
        if not len(codes):
            return labels.sorted, np.zeros((queries.shape[0], len(labels)))
        _, ids = reader.nearest(queries, rows, reader.places(rows, codes), min(n_neighbors, len(codes)))
    return labels.sorted, vote_shares(codes[ids], labels.order)
