"""What the learning loop works on: a learner as a choice of parts, a stream of triplets, a tally of what was seen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._locality import FREE, Locality
from ._measure import Measure
from ._psd import Psd
from ._step import Step

Array = NDArray[Any]


@dataclass(frozen=True)
class Parts:
    """A learner: one choice on each axis, and the numbers of the step; `forget` is 1 - g of `paloma._forgetting`.

    `path` chooses how a stretch of triplets is learnt, and how many at a time, where it is not one of those of
    `paloma._learner` (LogDet steps, several modalities); it sees to forgetting by itself.
    """

    measure: Measure
    locality: Locality
    step: Step
    psd: Psd
    C: float
    margin: float
    forget: float = 0.0
    path: Callable[..., tuple[Callable[..., Any], int]] | None = None


@dataclass
class Stream:
    """Triplets to learn, in order: rows of X, and the class code of each row (None: class-free).

    `factor` multiplies X; `weight` multiplies C and `shift` is added to the margin, a value a triplet; `tau` and
    `gaps`, where given, receive the step sizes and margin - z before each step. `scale`: see `paloma._forgetting`.
    For soft regions `codes` are (n_rows, n_regions) shares. `about`: rows whose classes the triplets count for in the
    drift signals; None: the positives.
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


def candidate_codes(parts: Parts, stream: Stream, triplets: Array) -> Array:
    """(n, 2) class codes of positives and negatives, FREE where a learner knows no classes."""
    if stream.codes is None or not parts.locality.is_local:
        return np.full((len(triplets), 2), FREE, np.int32)
    return stream.codes[triplets[:, 1:]]


def is_soft(stream: Stream) -> bool:
    """Whether `codes` are shares of regions, (n_rows, n_regions), not the code of one class for each row."""
    return stream.codes is not None and stream.codes.ndim == 2


def distinct_pairs(triplets: Array, codes: Array) -> tuple[Array, Array, Array, Array]:
    """The distinct (anchor, candidate) pairs sorted by class: anchors, candidates, codes, and (B, 2) positions."""
    width = int(triplets.max()) + 1
    keys = (triplets[:, :1].astype(np.int64) * width + triplets[:, 1:]).ravel()
    distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    pair_codes = codes.ravel()[first]
    order = np.argsort(pair_codes, kind="stable")
    position = np.empty(len(order), np.intp)
    position[order] = np.arange(len(order))
    anchors, candidates = np.divmod(distinct[order], width)
    return anchors, candidates, pair_codes[order], position[inverse].reshape(-1, 2)
