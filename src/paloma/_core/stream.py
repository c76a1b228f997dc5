"""What the learning loop works on: a learner as a choice of parts, a stream of triplets, what was seen of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._compiled.groups import Out, Triplets
from .._typing import Array
from .choice import Choice
from .locality import FREE

# Averaging takes an iterate each time this many triplets have passed, wherever blocks begin and end.
AVERAGE_EVERY = 1024
# Weight of later iterates in the average: eta of polynomial-decay averaging (Shamir & Zhang 2013).
AVERAGE_DECAY = 3.0


@dataclass
class Stream:
    """Triplets to learn, in order: rows of X, and the class code of each row (None: class-free).

    `factor` multiplies X; `weight` multiplies C and `shift` is added to the margin, one value per triplet; `tau` and
    `gaps`, if given, receive the step sizes and margin - z before each step. `scale`: see `_spaces/dense/decay.py`.
    For soft regions `codes` are (n_rows, n_regions) shares. `about`: rows whose classes the triplets count for in the
    drift signals; None: the positives. `points`: what a space knows of X, kept from one pass over X to the next.
    """

    X: Any
    triplets: Array
    codes: Array | None = None
    factor: float = 1.0
    weight: Array | None = None
    tau: Array | None = None
    shift: Array | None = None
    gaps: Array | None = None
    scale: Array | None = None
    about: Array | None = None
    points: Any = None


@dataclass(frozen=True)
class Pass:
    """How one pass over a stream is made.

    seen : triplets learned before, so that psd every n and averaging keep their rhythm over calls.
    rate : weight of the iterate after `n` triplets in the running average; None keeps no average.
    block : triplets, or pairs, that are learned at a time; "auto": as many as pay.
    advance : called with (triplets, mean loss) after each stretch, for a progress bar.
    rng : randomness of the model, for spaces that draw.
    """

    seen: int = 0
    rate: Callable[[int], float] | None = None
    block: int | str = "auto"
    advance: Callable[[float, float], Any] | None = None
    rng: Any = None


@dataclass
class Tally:
    """What learning has seen: triplets, non-passive steps, and the sum of hinge losses."""

    triplets: int = 0
    updates: int = 0
    loss: float = 0.0

    def add(self, triplets: int, loss: float, updates: int) -> None:
        self.triplets += triplets
        self.loss += float(loss)
        self.updates += int(updates)


@dataclass
class Counts:
    """What a model has seen: triplets, steps, averages taken, classes."""

    seen: int = 0
    updates: int = 0
    n_means: int = 0
    n_classes: int = 0
    forget: float = 0.0

    def add(self, tally: Tally) -> None:
        """Enter a pass."""
        self.seen += tally.triplets
        self.updates += tally.updates

    def rate(self, _: int = 0) -> float:
        """Weight of the next iterate that enters the average."""
        self.n_means += 1
        return self._weight(self.n_means)

    def blend(self) -> float:
        """Weight of the last iterate in a read-out between two averages: what was just learned counts at once."""
        return self._weight(self.n_means + 1) * (self.seen % AVERAGE_EVERY) / AVERAGE_EVERY

    def _weight(self, n: int) -> float:
        """Weight of the n-th iterate among n; an average reaches back no farther than forgetting does."""
        weight = (AVERAGE_DECAY + 1.0) / (n + AVERAGE_DECAY)
        return max(weight, 1.0 - (1.0 - self.forget) ** AVERAGE_EVERY) if self.forget else weight


def candidate_codes(choice: Choice, stream: Stream, triplets: Array) -> Array:
    """(n, 2) class codes of positives and negatives, FREE where a learner knows no classes."""
    if stream.codes is None or not choice.locality.is_local:
        return np.full((len(triplets), 2), FREE, np.int32)
    return stream.codes[triplets[:, 1:]]


def is_soft(stream: Stream) -> bool:
    """Whether `codes` are shares of regions, (n_rows, n_regions), not the code of one class for each row."""
    return stream.codes is not None and stream.codes.ndim == 2


# -- a stretch of a stream as blocks take it ---------------------------------------------------------------------------


def aggressiveness(choice: Choice, stream: Stream, start: int, stop: int) -> Array:
    """C of each triplet, times its weight."""
    if stream.weight is None:
        return np.full(stop - start, choice.C)
    weight = stream.weight[start:stop]
    return np.multiply(choice.C, weight, out=np.zeros(stop - start), where=weight > 0)


def margins_of(choice: Choice, stream: Stream, start: int, stop: int) -> Array:
    """Margin of each triplet, with its shift."""
    margins = np.full(stop - start, choice.margin)
    return margins if stream.shift is None else margins + stream.shift[start:stop]


def answers(stream: Stream, start: int, stop: int, weight: Array | None = None) -> Out:
    """Where the steps of these triplets go, and margin - z before each."""
    tau, gaps = (np.empty(stop - start) if each is None else each[start:stop] for each in (stream.tau, stream.gaps))
    return Out(tau, gaps, weight)


def asked(
    choice: Choice, stream: Stream, start: int, stop: int, members: Array | None = None, norms: Array | None = None
) -> Triplets:
    """Triplets start to stop as compiled loops take them: as rows of X, or as `members` among pairs."""
    members = stream.triplets[start:stop] if members is None else members
    C = aggressiveness(choice, stream, start, stop)
    return Triplets(members, margins_of(choice, stream, start, stop), C, norms)
