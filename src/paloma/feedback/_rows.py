"""The rows that statements speak of: items by their ids, and queries that are no items."""

from typing import Any

import numpy as np

from .._typing import Array
from ._statement import Statement


class Rows:
    """Items numbered 0, 1, 2, ...; rows of queries -1, -2, ..., in the order in which they were said."""

    def __init__(self, X: Array, ids: list[Any]) -> None:
        self.X, self.ids = X, ids
        self.places = {item: place for place, item in enumerate(ids)}
        self._said: dict[tuple[float, ...], int] = {}
        self._extra = np.empty((0, X.shape[1]))

    def number(self, query: Any) -> int:
        """Number of an item, or of the row of a query."""
        if not isinstance(query, tuple):
            return self.places[query]
        if query not in self._said:
            number = len(self._said)
            if number == len(self._extra):
                self._extra = np.concatenate([self._extra, np.empty((max(16, number), self.X.shape[1]))])
            self._extra[number] = query
            self._said[query] = -1 - number
        return self._said[query]

    def check(self, statement: Statement) -> None:
        """Refuse items that are not there, and rows of another width."""
        unknown = [item for item in statement.items if item not in self.places]
        if unknown:
            raise ValueError(f"FeedbackSearch: no items {unknown[:5]} to speak of.")
        if isinstance(statement.query, tuple) and len(statement.query) != self.X.shape[1]:
            raise ValueError(
                f"FeedbackSearch: the query has {len(statement.query)} numbers, but items have {self.X.shape[1]}."
            )

    def take(self, numbers: Array) -> Array:
        """Rows of these numbers, in float64."""
        out = self.X[np.maximum(numbers, 0)].astype(np.float64)
        said = numbers < 0
        out[said] = self._extra[-1 - numbers[said]]
        return out

    def differences(self, pairs: Array) -> Array:
        """First minus second of each pair."""
        return self.take(pairs[:, 0]) - self.take(pairs[:, 1])
