"""The rows that statements speak of: items by their ids, and queries that are no items."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._compiled.pairs import differences
from .._rows import evenly_spaced
from .._typing import Array
from .._validation import read_only
from ._start import scatter_of
from ._statement import Item, Statement

# Rows that are held in float64 at a time.
CHUNK = 512
# The largest difference, in units of the spread: products of four of them must be numbers of float32. Those of queries
# that are no items end there.
FAR = 1e6
# How far a query moves away from examples of what it is not for, as a share of its distance from their mean.
AWAY = 0.5
# Items that the nearest ones are sought among, evenly spaced.
MAX_SOUGHT = 8192


class Rows:
    """Items numbered 0, 1, 2, ...; rows of queries -1, -2, ..., in the order in which they were said.

    whole : scatter of the items, of mean eigenvalue 1. spread : the mean variance of a feature.
    """

    def __init__(self, X: Array, ids: list[Any]) -> None:
        self.X, self.ids = X, ids
        self.whole, spread = scatter_of(X)
        self.spread = max(spread, (reach_of(X) / FAR) ** 2)
        self.center = X.mean(axis=0, dtype=np.float64)
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
        if isinstance(statement.query, tuple) and max(map(abs, statement.query)) > np.finfo(self.X.dtype).max:
            raise ValueError(
                f"FeedbackSearch: the query has numbers that are too large for {self.X.dtype}, as items are."
            )

    def among(self, items: Iterable[Item]) -> Array:
        """Numbers of these items, ascending."""
        named = list(items)
        unknown = [item for item in named if item not in self.places]
        if unknown:
            raise ValueError(f"FeedbackSearch: no items {unknown[:5]} to rank, or to move the query by.")
        return np.unique(np.array([self.places[item] for item in named], np.intp))

    def moved(self, row: Array, like: Array, unlike: Array) -> Array:
        """A query at the mean of its row and of what is like it, and farther from what is not (theory 25)."""
        point: Array = np.concatenate([row[None], self.take(like)]).mean(axis=0)
        return point + AWAY * (point - self.take(unlike).mean(axis=0)) if len(unlike) else point

    def take(self, numbers: Array) -> Array:
        """Rows of these numbers, in float64."""
        return self._taken(numbers).astype(np.float64, copy=False)

    def _taken(self, numbers: Array) -> Array:
        """The same in the precision of the items."""
        if not len(self._said):
            return self.X[numbers]
        out, said = self.X[np.maximum(numbers, 0)], numbers < 0
        out[said] = self._extra[-1 - numbers[said]]
        return out

    def unit_differences(self, pairs: Array) -> Array:
        """First minus second of each pair in float32, in units in which the mean variance of a feature is 1."""
        unit = 1.0 / np.sqrt(self.spread)
        if pairs.min(initial=0) >= 0:
            return row_differences(self.X, pairs, unit).astype(np.float32, copy=False)
        out = self._taken(pairs[:, 0])
        with np.errstate(over="ignore"):
            out -= self._taken(pairs[:, 1])
            out *= out.dtype.type(unit)
        return out.clip(-FAR, FAR, out=out).astype(np.float32, copy=False)

    def remoteness(self, numbers: Array) -> Array:
        """Root of the mean squared distance of these rows to all items, in the same units."""
        gaps = self._centered(numbers)
        return np.sqrt(self.X.shape[1] + (gaps * gaps).sum(axis=1))

    def unit_rows(self, numbers: Array) -> Array:
        """Rows of these numbers less the mean of all items in float32, in the same units."""
        return self._centered(numbers).astype(np.float32)

    def _centered(self, numbers: Array) -> Array:
        return ((self.take(numbers) - self.center) / np.sqrt(self.spread)).clip(-FAR, FAR)

    def nearest(self, numbers: Array, k: int) -> Array:
        """Numbers of the k items nearest to each of these rows, in no order; an item is near itself."""
        items = evenly_spaced(np.arange(len(self.X)), MAX_SOUGHT)
        points = self.unit_rows(items)
        norms, k = (points * points).sum(axis=1), min(k, len(items))
        found = np.empty((len(numbers), k), np.intp)
        for start in range(0, len(numbers), CHUNK):
            part = slice(start, start + CHUNK)
            values = norms - 2.0 * (self.unit_rows(numbers[part]) @ points.T)
            found[part] = items[np.argpartition(values, k - 1, axis=1)[:, :k]]
        return found

    def scatter(self, pairs: Array, weight: Array) -> Array:
        """Sum of the outer products of such differences in float64, each times its weight; a few at a time."""
        out, root = np.zeros(self.whole.shape), np.sqrt(weight)[:, None]
        for start in range(0, len(pairs), CHUNK):
            part = slice(start, start + CHUNK)
            scaled = root[part] * self.unit_differences(pairs[part])
            out += scaled.T @ scaled
        return out

    def units(self) -> Array:
        """All items less their mean in float32, in the same units."""
        out = self.X - self.center.astype(self.X.dtype)
        out *= out.dtype.type(1.0 / np.sqrt(self.spread))
        return out.astype(np.float32, copy=False)


def reach_of(X: Array) -> float:
    """The largest difference of two numbers of one feature."""
    return float((X.max(axis=0).astype(np.float64) - X.min(axis=0)).max())


def row_differences(X: Array, pairs: Array, unit: float = 1.0) -> Array:
    """First minus second row of each pair of numbers, times a unit."""
    out = np.empty((len(pairs), X.shape[1]), X.dtype)
    differences(read_only(X), *np.ascontiguousarray(pairs.T), X.dtype.type(unit), out)
    return out


def checked_ids(ids: Any, n: int) -> list[Item]:
    """Names of n items."""
    names = [name.item() if isinstance(name, np.generic) else name for name in ids]
    if not all(isinstance(name, str) for name in names) and not all(type(name) is int for name in names):
        raise TypeError("FeedbackSearch: ids must all be whole numbers or all be strings.")
    if len(names) != n or len(set(names)) < n:
        raise ValueError(f"FeedbackSearch: ids must be {n} different ones, one for each row of X.")
    return names
