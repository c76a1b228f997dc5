"""The one learning loop of every learner.

A triplet (p, p+, p-) asks that p be nearer to p+ than to p- by a margin. With phi the pair feature of the measure and
M_c = lam U + mu L_c the metric of a candidate's class c, the constraint on Theta = (U, L_1, ..., L_k) is linear,
m + <Theta, Psi> <= xi, and the passive-aggressive step is Theta -= tau Psi, tau = rule(gap, |Psi|^2, C) (theory 0, 1).

Since <Psi_k, Psi_b> needs only inner products of pair features times the class kernel T = lam^2 + mu^2 [c = c'], a
block of triplets is learned exactly as if one by one (theory 10). How a block is learned is the representation's
business; where blocks end, so that p.s.d. projections and averages keep their rhythm, is the loop's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import scipy.sparse as sp

from .._progress import report
from .._validation import read_only
from .choice import Choice
from .stream import AVERAGE_EVERY, Pass, Stream, Tally

# Learns triplets start to stop; returns (sum of hinge losses, steps taken).
Block = Callable[[int, int], tuple[float, int]]
# Averages due inside a stretch: after how many of its triplets, and the weight of the iterate.
Averages = list[tuple[int, float]]


@dataclass(frozen=True)
class Unbroken:
    """A block that takes averages inside itself, so that it need not end where one is due."""

    learn: Callable[[int, int, Averages], tuple[float, int]]

    def __call__(self, start: int, stop: int, averages: Averages | None = None) -> tuple[float, int]:
        return self.learn(start, stop, averages or [])


class State(Protocol):
    """What the loop asks of what a plan learns on."""

    def project(self) -> None:
        """P_+ of every matrix, in place."""
        ...

    def average(self, rate: float) -> None:
        """Move the averaged iterates toward the current ones."""
        ...


# plan(choice, state, stream, block): how to learn a stretch of triplets, and how many at a time at most.
Plan = Callable[[Choice, Any, Stream, int | str], tuple[Block, int]]


def learn(choice: Choice, plan: Plan, state: State, stream: Stream, how: Pass) -> Tally:
    """Learn a stream of triplets in the given order."""
    if not len(stream.triplets):
        return Tally()
    if not sp.issparse(stream.X):
        stream.X = read_only(stream.X)
    every, seen, rate = choice.psd.every, how.seen, how.rate
    learn_block, size = plan(choice, state, stream, how.block)
    unbroken = learn_block if isinstance(learn_block, Unbroken) and rate and not every else None
    rhythm = [n for n in (every, AVERAGE_EVERY if rate and unbroken is None else 0) if n]
    tally, begin = Tally(), perf_counter()
    for start, stop in cuts(len(stream.triplets), size, rhythm, seen):
        if unbroken is None:
            loss, updates = learn_block(start, stop)
        else:
            loss, updates = unbroken(start, stop, due(rate, seen + start, seen + stop))
        tally.add(stop - start, loss, updates)
        if every and (seen + stop) % every == 0:
            state.project()
        if rate and unbroken is None and (seen + stop) % AVERAGE_EVERY == 0:
            state.average(rate(seen + stop))
        begin = report(stop - start, loss, updates, begin)
        if how.advance:
            how.advance(stop - start, loss / (stop - start))
    return tally


def due(rate: Any, first: int, last: int) -> Averages:
    """Averages due between so many triplets seen and so many."""
    ends = range(first - first % AVERAGE_EVERY + AVERAGE_EVERY, last + 1, AVERAGE_EVERY)
    return [(end - first, rate(end)) for end in ends]


def cuts(n: int, size: int, rhythm: list[int], seen: int) -> Iterator[tuple[int, int]]:
    """Blocks of at most `size` triplets that also end at every multiple (of all triplets seen) in `rhythm`."""
    start = 0
    while start < n:
        stop = min([n, start + size, *(start + m - (seen + start) % m for m in rhythm)])
        yield start, stop
        start = stop
