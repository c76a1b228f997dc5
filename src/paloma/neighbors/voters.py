"""Rows that vote: those of `fit`, and a bounded sample of those that came later; and how many of them should.

Rows that vote classify each other under the start and tell how many neighbors should vote (theory 23).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import _validation as check
from .._core.locality import SHARED
from .._rows import evenly_spaced, stacked
from .._search.voting import COUNTS, best_count, counts_of
from .._typing import Array

# Rows that judge, evenly spaced among those that vote, and rows among which they find neighbors by the start.
MAX_JUDGES, MAX_VOTERS = 1000, 20_000
# Rows of a stream judge how many neighbors vote each time there are so many times as many.
GROWTH = 1.5
_STEP, _MIX_1, _MIX_2 = (np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(frozen=True)
class Voters:
    """n rows; never changed, a new one is made.

    rows : (n, d), dense or CSR. numbers : (n,) class numbers. row_numbers : (n,) ascending numbers of the rows among
    all rows that ever came; None: 0 to n - 1. weights : (n,) factors of their votes; None: 1.
    n_fitted : rows numbered below are those of `fit`, which always stay. n_seen : how many rows ever came.
    """

    rows: Any
    numbers: Array
    row_numbers: Array | None
    weights: Array | None
    n_fitted: int
    n_seen: int

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def places(self) -> Array:
        return np.arange(len(self)) if self.row_numbers is None else self.row_numbers

    @property
    def n_streamed(self) -> int:
        """How many came after `fit`."""
        return int((self.places >= self.n_fitted).sum())

    def none(self) -> "Voters":
        """No rows, of this kind."""
        nothing = np.empty(0, np.int64)
        return Voters(self.rows[:0], nothing, nothing, None, 0, 0)

    def joined(self, later: "Voters", most: int, window: bool) -> "Voters":
        """These rows and later ones, numbered after them; of those not of `fit`, at most so many of each class.

        A uniform sample of each class (the `most` rows that come first in a fixed random order), or its last rows.
        """
        weights = None
        if self.weights is not None or later.weights is not None:
            weights = np.concatenate([np.ones(len(v)) if v.weights is None else v.weights for v in (self, later)])
        both = Voters(
            stacked([self.rows, later.rows]), np.concatenate([self.numbers, later.numbers]),
            np.concatenate([self.places, self.n_seen + later.places]), weights, self.n_fitted,
            self.n_seen + later.n_seen,
        )  # fmt: skip
        return both._taken(both._kept(most, window))

    def _kept(self, most: int, window: bool) -> Array:
        places = self.places
        came = np.flatnonzero(places >= self.n_fitted)
        turn = -places[came] if window else in_random_order(places[came])
        order = came[np.lexsort((turn, self.numbers[came]))]
        codes = self.numbers[order]
        rank = np.arange(len(order)) - np.searchsorted(codes, codes)
        return np.sort(np.concatenate([np.flatnonzero(places < self.n_fitted), order[rank < most]]))

    def _taken(self, kept: Array) -> "Voters":
        if len(kept) == len(self):
            return self
        weights = None if self.weights is None else self.weights[kept]
        return replace(self, rows=self.rows[kept], numbers=self.numbers[kept], row_numbers=self.places[kept],
                       weights=weights)  # fmt: skip


def judged_count(items: Any, voters: Voters, weights: str, is_distance: bool) -> int:
    """The number by which rows classify each other best; under the start, because what was learned knows them.

    items : the rows that vote, ready to be searched. weights : the word of the vote.
    """
    counts = counts_of(weights, voters.numbers)
    if len(counts) == 1:
        return counts[0]
    numbers, factors, start = voters.numbers, voters.weights, items.metric.at_start()
    if start is not items.metric:
        some = evenly_spaced(np.arange(len(voters)), MAX_VOTERS)
        items = start.items(items.X[some], np.full(len(some), SHARED, np.int32))
        numbers, factors = numbers[some], None if factors is None else factors[some]
    rows = evenly_spaced(np.arange(len(numbers)), MAX_JUDGES)
    values, ids = items.search(items.X[rows], counts[-1], own=rows)
    own, votes = items.own_values(items.X[rows], SHARED), None if factors is None else factors[ids]
    return best_count(weights, counts, values, numbers[ids], numbers[rows], is_distance, own, votes)


def check_judged(judged: Any, n_neighbors: Any, n_rows: int) -> None:
    """What `classifier.judged_of` may give for a classifier of so many rows."""
    if (judged is None) != (n_neighbors != "auto" or not n_rows):
        raise ValueError("judged belongs to n_neighbors='auto', and only to it")
    if judged is None:
        return
    if not isinstance(judged, list) or len(judged) != 2:
        raise ValueError("judged must be two numbers")
    check.check_between("the number of rows that judged", judged[0], 1, n_rows)
    check.check_between("the number of neighbors that they found", judged[1], 1, COUNTS[-1])
    if not n_rows / GROWTH < judged[0]:
        raise ValueError(f"{judged[0]} rows judged, too few of {n_rows}")


def in_random_order(numbers: Array) -> Array:
    """A fixed pseudo-random key for each number (splitmix64): the smallest keys of any range are a uniform sample."""
    with np.errstate(over="ignore"):
        z = (numbers.astype(np.uint64) + np.uint64(1)) * _STEP
        z = (z ^ (z >> np.uint64(30))) * _MIX_1
        z = (z ^ (z >> np.uint64(27))) * _MIX_2
        return z ^ (z >> np.uint64(31))
