"""Which question teaches most: one whose answer is likely to name relevant and irrelevant items alike (theory 25)."""

from collections.abc import Iterable
from itertools import islice

import numpy as np

from .._typing import Array
from ._rows import Rows
from ._statement import Statement

# Of the results of suggested queries each, or every third or tenth one is shown, whichever are likely to be mixed most,
# from one in so many items at the most: farther ones are less likely to be relevant than their distances tell.
STRIDES, ONE_IN = (1, 3, 10), 20
# Statements, the last ones, that relevance is estimated from, and whose queries others should be far from; and those
# whose queries are not asked again.
MARKED, ASKED = 200, 10_000


class Relevance:
    """How likely an item is relevant, by its squared distance: two normal distributions of log d^2, of one variance.

    Without items of both kinds nothing is known, and all are as likely as not. What is far is never more likely: the
    first few marks may look so by chance, and questions that believe it find out late.
    """

    def __init__(self, values: Array, relevant: Array) -> None:
        self._slope, self._offset = 0.0, 0.0
        logs = _log(values)
        yes, no = logs[relevant], logs[~relevant]
        if not len(yes) or not len(no):
            return
        variance = (((yes - yes.mean()) ** 2).sum() + ((no - no.mean()) ** 2).sum() + 1.0) / (len(logs) + 1)
        self._slope = min((yes.mean() - no.mean()) / variance, 0.0)
        self._offset = np.log(len(yes) / len(no)) - self._slope * (yes.mean() + no.mean()) / 2

    def __call__(self, values: Array) -> Array:
        return 1.0 / (1.0 + np.exp(-np.clip(self._slope * _log(values) + self._offset, -500.0, 500.0)))


def marked(log: Iterable[Statement], rows: Rows) -> tuple[Array, Array]:
    """Pairs of a query and an item marked for it, of the last statements, and which of the items are relevant."""
    pairs, relevant = [], []
    for said in islice((said for said in log if said.query is not None), MARKED):
        query = rows.number(said.query)
        for items, yes in ((said.relevant, True), (said.irrelevant, False)):
            pairs += [(query, rows.places[item]) for item in items]
            relevant += [yes] * len(items)
    return np.array(pairs, np.intp).reshape(-1, 2), np.array(relevant, bool)


def spread_choice(worth: Array, X: Array, metric: Array, n: int, past: Array) -> list[int]:
    """Numbers of n rows that are worth much and far from each other and from `past` rows, one after the other."""
    images, apart = X @ metric, np.full(len(X), np.inf if len(past) else 1.0)
    for row in past:
        apart = np.minimum(apart, _gaps(images, X, row @ metric, row))
    chosen: list[int] = []
    while len(chosen) < min(n, len(X)):
        score = apart * worth
        score[chosen] = -1.0
        chosen.append(int(score.argmax()))
        apart = np.minimum(apart, _gaps(images, X, images[chosen[-1]], X[chosen[-1]]))
    return chosen


def _gaps(images: Array, X: Array, image: Array, row: Array) -> Array:
    """Squared distances of rows from one."""
    return np.maximum(((images - image) * (X - row)).sum(axis=1), 0.0)


def _log(values: Array) -> Array:
    return np.log(np.maximum(values, 1e-300))
