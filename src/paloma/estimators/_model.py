"""What learning changes: the one object behind a fitted learner. How it is held is the representation axis."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .._learner import AVERAGE_EVERY, Parts, Stream, Tally, learn
from .._locality import FREE, Labels
from .._representation import Dense, DenseMetric, FactoredMetric, Projected, identity_values, spanning
from ..triplets import Reservoir
from ._vectors import Balance

Array = NDArray[Any]

# Weight of later iterates in the average: eta of polynomial-decay averaging (Shamir & Zhang 2013).
AVERAGE_DECAY = 3.0


@dataclass
class Model(ABC):
    """Classes, scale, randomness, memory and counters of one learner; subclasses hold the matrices."""

    cone_words: ClassVar[tuple[str, ...]]

    labels: Labels
    rng: np.random.Generator
    reservoir: Reservoir
    scale: float | None = None
    seen: int = 0
    updates: int = 0
    n_means: int = 0
    project: str = "auto"
    from_labels: bool = False
    whole: bool = False
    sparse: bool = False
    metric: Any = field(default=None, repr=False)
    balance: Balance | None = field(default=None, repr=False)

    @property
    def factor(self) -> float:
        return 1.0 / (1.0 if self.scale is None else self.scale)

    @abstractmethod
    def begin(self, start: Callable[[float], Array], X: Any, triplets: Array | None) -> Self:
        """Make the matrices anew, at their start(scale); called again when the scale becomes known."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """Precision of the matrices, which all rows are brought to."""

    @abstractmethod
    def learn(self, parts: Parts, stream: Stream, averaging: bool, block: int | str, advance: Any = None) -> Tally:
        """One pass over a stream; averaged iterates, once begun, are always kept up."""

    @abstractmethod
    def raw(self) -> Dense:
        """The last iterates as dense matrices."""

    @abstractmethod
    def build(self, parts: Parts, averaged: bool) -> Any:
        """The metric in the units of X after p.s.d. policy and averaging."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what only one call needs."""

    def readout(self, parts: Parts, averaged: bool, project: str) -> Any:
        """`build`, kept until learning goes on or another read-out is asked for."""
        key = (parts.psd, parts.locality, averaged, project)
        if self.metric is None or self.metric[0] != key:
            self.project = project
            self.metric = (key, self.build(parts, averaged and self.n_means > 0))
        return self.metric[1]

    def cone(self, parts: Parts) -> str:
        """What the read-out makes p.s.d.: the paper's components, or the metrics themselves."""
        if parts.psd.word not in self.cone_words:
            return ""
        if self.project != "auto":
            return self.project
        return "effective" if self.from_labels else "components"

    def count(self, tally: Tally) -> Tally:
        """Enter what a pass has seen."""
        self.seen += tally.triplets
        self.updates += tally.updates
        self.metric = self.balance = None
        return tally

    def rate(self, _: int = 0) -> float:
        """Weight of the next iterate that enters the average."""
        self.n_means += 1
        return (AVERAGE_DECAY + 1.0) / (self.n_means + AVERAGE_DECAY)

    def blend(self) -> float:
        """Weight of the last iterate in a read-out between two averages: what was just learnt counts at once."""
        return (
            (AVERAGE_DECAY + 1.0) / (self.n_means + 1.0 + AVERAGE_DECAY) * (self.seen % AVERAGE_EVERY) / AVERAGE_EVERY
        )


@dataclass
class DenseModel(Model):
    """U and one L a class, dense."""

    cone_words: ClassVar[tuple[str, ...]] = ("end",)

    state: Dense = None  # type: ignore[assignment]

    def begin(self, start: Callable[[float], Array], X: Any, triplets: Array | None) -> Self:
        self.state = Dense(start(self.scale or 1.0), self.symmetric)
        return self

    symmetric: bool = True

    @property
    def dtype(self) -> Any:
        return self.state.start.dtype

    def learn(self, parts: Parts, stream: Stream, averaging: bool, block: int | str, advance: Any = None) -> Tally:
        rate = self.rate if averaging or self.n_means else None
        return self.count(
            learn(parts, self.state, stream, block=block, seen=self.seen, averaging=rate, advance=advance)
        )

    def close(self) -> None:
        self.state.settle()

    def raw(self) -> Dense:
        return self.state

    def build(self, parts: Parts, averaged: bool) -> DenseMetric:
        return DenseMetric(self.state, parts.locality, self.cone(parts), self.blend() if averaged else 1.0, self.factor)


@dataclass
class ProjectedModel(Model):
    """m x m matrices on random projections, and a journal of steps on the original rows (spec.md 9).

    A p.s.d. policy inside the loop acts on the m x m matrices, hence on the step sizes; the recovered metric, which the
    steps alone make up, is then projected at read-out as well.
    """

    cone_words: ClassVar[tuple[str, ...]] = ("end", "every", "step", "exact")

    symmetric: bool = True
    n_components: int | str = "auto"
    rank: int | str = "auto"
    n_power_iter: int = 2
    projection: str = "gaussian"
    max_journal: int | None = None
    parts: Parts | None = None
    state: Projected = None  # type: ignore[assignment]

    def begin(self, start: Callable[[float], Array], X: Any, triplets: Array | None) -> Self:
        d = X.shape[1]
        n = 0 if triplets is None else len(triplets)
        m = min(d, auto_components(n, len(self.labels))) if self.n_components == "auto" else int(self.n_components)
        seed = int(self.rng.integers(np.iinfo(np.int32).max))
        arguments = (d, m, X.dtype, self.symmetric, self.projection, seed)
        if m == d:
            self.state = Projected(*arguments, basis=np.eye(d, dtype=X.dtype))
            return self
        self.state = Projected(*arguments)
        basis = spanning(X, self.state.project(X), X.dtype) if self.whole and n else None
        if basis is not None:
            self.state = Projected(*arguments, basis=basis)
        return self

    @property
    def dtype(self) -> Any:
        return self.state.dtype

    def learn(self, parts: Parts, stream: Stream, averaging: bool, block: int | str, advance: Any = None) -> Tally:
        tau = np.zeros(len(stream.triplets))
        self.state.extend(stream.X)
        X = self.state.project(stream.X)
        shift = self._shift(parts, stream, X)
        inside = Stream(X, stream.triplets, stream.codes, stream.factor, stream.weight, tau, shift)
        seen = self.seen
        tally = self.count(learn(parts, self.state.inner, inside, block=block, seen=seen, advance=advance))
        share = self._shares(seen, len(tau)) if averaging or self.n_means else np.ones(len(tau))
        codes = np.full((len(tau), 2), FREE, np.int32)
        if stream.codes is not None and parts.locality.is_local:
            codes = stream.codes[stream.triplets[:, 1:]]
        self.state.journal.add(stream.X, stream.triplets, codes, tau, share * tau)
        self.parts = parts
        self.bound()
        return tally

    def bound(self) -> None:
        """Fold the journal where it is too long, or where mixing made the folded part wider than the rank."""
        too_long = self.max_journal is not None and len(self.state.journal) > self.max_journal
        too_wide = self.state.folded is not None and self.state.folded[0].shape[1] > self._rank()
        if (too_long or too_wide) and self.parts is not None:
            measure, locality = self.parts.measure, self.parts.locality
            self.state.fold(measure, locality, self.factor, self._rank(), self.n_power_iter)

    def _shift(self, parts: Parts, stream: Stream, X: Array) -> Array:
        """What projection did to each triplet's constraint at the start, taken back: the identity is known exactly.

        sigma ((v+ - v-) on the rows - (v+ - v-) on their projections X), v the value of a pair under the identity; only
        what was learnt is then subject to the error of the projection.
        """
        if self.state.exact:
            return np.zeros(len(stream.triplets))
        n, t = X.shape[0], stream.triplets
        keys, places = np.unique(t[:, :1] * n + t[:, 1:], return_inverse=True)
        anchors, candidates = np.divmod(keys, n)
        symmetric = parts.measure.symmetric
        error = identity_values(stream.X, anchors, candidates, symmetric)
        error -= identity_values(X, anchors, candidates, symmetric)
        signed = self.factor**2 * parts.measure.sign * error[places.reshape(-1, 2)]
        if parts.locality.is_local:
            codes = np.full(signed.shape, FREE) if stream.codes is None else stream.codes[t[:, 1:]]
            signed *= np.where(codes >= 0, 1.0, parts.locality.lam)
        return signed[:, 0] - signed[:, 1]

    def _shares(self, seen: int, n: int) -> Array:
        """Share of each of the next n steps in the averaged iterates, 1 - prod (1 - rate) over the averages to come."""
        first = AVERAGE_EVERY - 1 - seen % AVERAGE_EVERY
        ends = np.arange(first, n, AVERAGE_EVERY)
        left_out = np.cumprod(np.array([1.0 - self.rate() for _ in ends])[::-1])[::-1]
        if len(ends):
            self.state.age(left_out[0])
        return np.r_[1.0 - left_out, 0.0][np.searchsorted(ends, np.arange(n))]

    def _rank(self) -> int:
        return auto_rank(self.state.d, len(self.labels)) if self.rank == "auto" else int(self.rank)

    def close(self) -> None:
        self.state.journal.close()

    def raw(self) -> Dense:
        basis = np.eye(self.state.d, dtype=self.dtype)
        if self.parts is None:
            return Dense(basis, self.symmetric)
        return self.state.recover(basis, self.parts.measure, self.parts.locality, self.factor, blend=1.0)

    def build(self, parts: Parts, averaged: bool) -> FactoredMetric:
        basis = self.state.basis(parts.measure, parts.locality, self.factor, self._rank(), self.n_power_iter)
        blend = self.blend() if averaged else 1.0
        state = self.state.recover(basis, parts.measure, parts.locality, self.factor, blend)
        inner = DenseMetric(state, parts.locality, self.cone(parts), 1.0, self.factor)
        return FactoredMetric(inner, basis, self.factor)


def auto_components(n_triplets: int, n_classes: int) -> int:
    """Projected dimension: 10 log(triplets) (spec.md 9), at least 50 and 1.6 a class, at most 400."""
    by_triplets = 10.0 * np.log(n_triplets) if n_triplets > 1 else 100.0
    return int(np.clip(np.ceil(max(by_triplets, 1.6 * n_classes)), 50, 400))


def auto_rank(d: int, n_classes: int) -> int:
    """Dimension of the recovered part: 256 or 3.75 a class, at most 1024; or d where that is hardly more."""
    rank = int(np.clip(3.75 * n_classes, 256, 1024))
    return d if d <= 1.25 * rank else rank
