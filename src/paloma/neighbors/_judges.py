"""How many neighbors should vote: rows that vote classify each other under the start and tell (theory 23)."""

from typing import Any

import numpy as np

from .._core.locality import SHARED
from .._rows import evenly_spaced
from .._search.voting import best_count, counts_of
from ._voters import Voters

# Rows that judge, evenly spaced among those that vote, and rows among which they find neighbors by the start.
MAX_JUDGES, MAX_VOTERS = 1000, 20_000


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
