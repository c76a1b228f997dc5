"""What learning changes: the one object behind a fitted learner. How it is held is the representation axis."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .._learner import AVERAGE_EVERY, learn
from .._locality import FREE, Labels
from .._parts import Parts, Stream, Tally
from .._regions import Regions
from .._representation import Dense, DenseMetric, FactoredMetric, Projected, identity_values, refuse_dense, spanning
from ..triplets import Reservoir
from ._drift import Drift
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
    forget: float = 0.0
    project: str = "auto"
    from_labels: bool = False
    whole: bool = False
    sparse: bool = False
    threshold: float | None = None
    regions: Regions | None = None
    drift: Drift = field(default_factory=Drift)
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

    def drop_classes(self, codes: Array) -> None:
        """Forget these class codes; the others are numbered anew, in the same order."""
        kept = np.setdiff1d(np.arange(len(self.labels)), codes)
        new_codes = np.full(len(self.labels), FREE, np.int32)
        new_codes[kept] = np.arange(len(kept))
        if self.regions is None:
            self.drop(new_codes)
        self.labels = Labels(self.labels.labels[kept])
        self.reservoir.drop(new_codes)
        self.drift.drop(new_codes)
        self.metric = self.balance = None

    @abstractmethod
    def drop(self, new_codes: Array) -> None:
        """Give class codes their new numbers in what is held; -1 forgets a class."""

    def widen(self, d: int) -> None:
        """Take more features, which were 0 so far."""
        raise ValueError("New features can only come to learners of dense matrices: ODML, LODML, OASIS, LOSL, SLMOML.")

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
        return self._weight(self.n_means)

    def blend(self) -> float:
        """Weight of the last iterate in a read-out between two averages: what was just learnt counts at once."""
        return self._weight(self.n_means + 1) * (self.seen % AVERAGE_EVERY) / AVERAGE_EVERY

    def _weight(self, n: int) -> float:
        """Weight of the n-th iterate among n; an average reaches back no farther than forgetting does."""
        weight = (AVERAGE_DECAY + 1.0) / (n + AVERAGE_DECAY)
        return max(weight, 1.0 - (1.0 - self.forget) ** AVERAGE_EVERY) if self.forget else weight


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
        self.forget = parts.forget
        rate = self.rate if averaging or self.n_means else None
        return self.count(
            learn(parts, self.state, stream, block=block, seen=self.seen, averaging=rate, advance=advance)
        )

    def close(self) -> None:
        self.state.settle()

    def drop(self, new_codes: Array) -> None:
        self.state.drop(new_codes)

    def widen(self, d: int) -> None:
        if self.regions is not None:
            raise ValueError("A learner with regions has a fixed number of features.")
        self.state = self.state.grown(d)
        self.reservoir.widen(d)
        self.metric = self.balance = None

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
        m = auto_components(d, n, len(self.labels)) if self.n_components == "auto" else int(self.n_components)
        seed = int(self.rng.integers(np.iinfo(np.int32).max))
        arguments = (d, m, X.dtype, self.symmetric, self.projection, seed)
        if m == d:
            self.state = Projected(*arguments, basis=np.eye(d, dtype=X.dtype))
            return self
        self.state = Projected(*arguments)
        basis = spanning(X, self.state.project(X), X.dtype) if self.whole and n else None
        if basis is not None:
            self.state = Projected(*arguments, basis=basis)
        elif not self.symmetric:
            self.state.deflate(X)
        return self

    @property
    def dtype(self) -> Any:
        return self.state.dtype

    def learn(self, parts: Parts, stream: Stream, averaging: bool, block: int | str, advance: Any = None) -> Tally:
        tau = np.zeros(len(stream.triplets))
        self.forget = parts.forget
        self.state.extend(stream.X)
        X = self.state.project(stream.X)
        shift = self._shift(parts, stream, X)
        shift += 0.0 if stream.shift is None else stream.shift
        inside = Stream(X, stream.triplets, stream.codes, stream.factor, stream.weight, tau, shift, stream.gaps)
        seen = self.seen
        tally = self.count(learn(parts, self.state.inner, inside, block=block, seen=seen, advance=advance))
        shares = self._fading_shares if self.forget else self._shares
        last, mean = shares(seen, len(tau), averaging or self.n_means > 0)
        codes = np.full((len(tau), 2), FREE, np.int32)
        if stream.codes is not None and parts.locality.is_local:
            codes = stream.codes[stream.triplets[:, 1:]]
        self.state.journal.add(stream.X, stream.triplets, codes, last * tau, mean * tau)
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

    def _shares(self, seen: int, n: int, averaging: bool) -> tuple[Array, Array]:
        """Share of each of the next n steps in the last and in the averaged iterates.

        The latter is 1 - prod (1 - rate) over the averages to come; what is held already is brought up to date.
        """
        if not averaging:
            return np.ones(n), np.ones(n)
        ends = _average_ends(seen, n)
        left_out = np.cumprod(np.array([1.0 - self.rate() for _ in ends])[::-1])[::-1]
        if len(ends):
            self.state.age(left_out[0])
        return np.ones(n), np.r_[1.0 - left_out, 0.0][np.searchsorted(ends, np.arange(n))]

    def _fading_shares(self, seen: int, n: int, averaging: bool) -> tuple[Array, Array]:
        """`_shares` with forgetting: the step of triplet k weighs g^(e - k) in the iterate after triplet e."""
        g, ends = 1.0 - self.forget, _average_ends(seen, n)
        last = g ** np.arange(n - 1, -1, -1.0)
        if not averaging:
            self.state.fade(g**n, 0.0, g**n)
            return last, last
        rates = [self.rate() for _ in ends]
        mean, left_out, gain, after = np.zeros(n), 1.0, 0.0, n - 1
        for k in reversed(range(len(ends))):
            gain = rates[k] * left_out + g ** int(after - ends[k]) * gain
            left_out *= 1.0 - rates[k]
            after = ends[k]
            first = ends[k - 1] + 1 if k else 0
            mean[first : after + 1] = gain * g ** np.arange(after - first, -1, -1.0)
        self.state.fade(g**n, left_out, g ** int(after + 1) * gain)
        return last, mean

    def _rank(self) -> int:
        return auto_rank(self.state.d, len(self.labels)) if self.rank == "auto" else int(self.rank)

    def close(self) -> None:
        self.state.journal.close()

    def drop(self, new_codes: Array) -> None:
        self.state.drop(new_codes)

    def raw(self) -> Dense:
        refuse_dense(self.state.d)
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


def _average_ends(seen: int, n: int) -> Array:
    """Which of the next n triplets an average is taken after."""
    return np.arange(AVERAGE_EVERY - 1 - seen % AVERAGE_EVERY, n, AVERAGE_EVERY)


def auto_components(d: int, n_triplets: int, n_classes: int) -> int:
    """Dimension m: 10 log(triplets) (spec.md 9), at least 50 and 1.6 a class, at most 400; all d up to twice that."""
    by_triplets = 10.0 * np.log(n_triplets) if n_triplets > 1 else 100.0
    m = int(np.clip(np.ceil(max(by_triplets, 1.6 * n_classes)), 50, 400))
    return d if d <= 2 * m else m


def auto_rank(d: int, n_classes: int) -> int:
    """Dimension of the recovered part: 256 or 3.75 a class, at most 1024; or d where that is hardly more."""
    rank = int(np.clip(3.75 * n_classes, 256, 1024))
    return d if d <= 1.25 * rank else rank
