"""What learning changes: the one object behind a fitted learner, and the memory of a stream."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._learner import Parts, Stream, Tally, learn
from .._locality import Labels
from .._representation import Dense, DenseMetric
from ..triplets import Reservoir
from ._vectors import Balance

Array = NDArray[Any]

# Weight of later iterates in the average: eta of polynomial-decay averaging (Shamir & Zhang 2013).
AVERAGE_DECAY = 3.0


@dataclass
class Model:
    """Matrices, classes, scale, randomness and memory of one learner."""

    state: Dense
    labels: Labels
    rng: np.random.Generator
    reservoir: Reservoir
    scale: float | None = None
    seen: int = 0
    updates: int = 0
    metric: DenseMetric | None = field(default=None, repr=False)
    balance: Balance | None = field(default=None, repr=False)

    @property
    def factor(self) -> float:
        return 1.0 / (self.scale or 1.0)

    def learn(self, parts: Parts, stream: Stream, averaging: bool, block: int | str, advance: Any = None) -> Tally:
        """One pass over a stream; the averaged iterates, once begun, are always kept up."""
        averaging = averaging or self.state.mean is not None
        tally = learn(
            parts,
            self.state,
            stream,
            block=block,
            seen=self.seen,
            averaging=self._rate if averaging else None,
            advance=advance,
        )
        self.seen += tally.triplets
        self.updates += tally.updates
        self.metric = None
        return tally

    def _rate(self, _: int) -> float:
        return (AVERAGE_DECAY + 1.0) / (self.state.n_means + 1.0 + AVERAGE_DECAY)

    def readout(self, parts: Parts, averaged: bool) -> DenseMetric:
        """The metric in the units of X after p.s.d. policy and averaging; kept until learning goes on."""
        if self.metric is None:
            cone = parts.psd.at_readout
            self.metric = DenseMetric(self.state, parts.locality, cone, averaged, self.factor)
        return self.metric
