"""The projected representation: m x m matrices on random projections, and a journal of steps on the original rows.

A p.s.d. policy inside the loop acts on the m x m matrices, hence on the step sizes; the recovered metric, which the
steps alone make up, is then projected at read-out as well (theory 9).
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np

from ... import _validation as check
from ..._core.choice import Choice
from ..._core.fields import Schema
from ..._core.locality import FREE, Locality
from ..._core.measure import Measure
from ..._core.space import Beginning, Kept, Representation, Space
from ..._core.stream import AVERAGE_EVERY, Counts, Pass, Stream, Tally
from ..._device import torch
from ..._rows import identity_values
from ..._search.device import neighbors_by_class
from ..._search.directions import DIRECTIONS, in_strongest, is_many, neighbors_by_directions
from ..._threads import sharing
from ..._typing import Array, Rows
from ..dense.matrices import Matrices
from ..dense.metric import DenseMetric, refuse_dense
from ..dense.space import DenseSpace
from ..device import DeviceSpace, on_device
from .metric import LowRankMetric
from .projection import Projection, spanning
from .replayed import ReplayedMetric
from .state import SCHEMA, projection_of, projection_state

# More power iterations change nothing but time.
MAX_POWER_ITER = 100
# Directions that a metric is recovered in, "auto": at least, per class, at most.
FEWEST, PER_CLASS, MOST = 128, 2.5, 1024
# Directions of rows that are enough to judge by, if there are clearly more: at least, per class, at most.
FEWEST_JUDGED, JUDGED_PER_CLASS, MOST_JUDGED = 128, 1.5, 256
# Classes are read out without matrices if these would have so many times as many rows as the journal.
MANY = 4


@dataclass(frozen=True)
class Projected(Representation):
    """Parameters of dual random projection; see L2ODML."""

    linear = decays = guarded = True
    whitening = "low-rank"

    init: Any = "identity"
    n_components: int | str = "auto"
    rank: int | str = "auto"
    n_power_iter: int = 1
    projection: str = "gaussian"
    max_journal: int | None = None
    device: str | None = None

    @property
    def search(self) -> Any:
        return neighbors_by_directions if self.device is None else partial(neighbors_by_class, device=self.device)

    def mined_by(self, X: Rows, n: int) -> str:
        return f"candidates in {DIRECTIONS} directions" if self.device is None and is_many(X, n) else "exact"

    @property
    def cannot(self) -> dict[str, str]:
        return {
            "scale='full'": "{who} never holds a d x d matrix; use scale='low-rank', 'diagonal' or 'scalar'.",
            "soft regions": "{who} stores one code per pair in its journal and only supports soft_regions=False.",
        }

    def adapted(self, who: str, choice: Choice) -> Choice:
        return choice if self.device is None else on_device(who, choice)

    def bound(self, who: str, choice: Choice, d: int, names: Any) -> "Projected":
        if not isinstance(self.init, str):
            raise ValueError(f"{who} only supports init='identity': it never holds a d x d matrix.")
        check.check_word("init", self.init, ("identity",))
        for name in ("n_components", "rank"):
            if getattr(self, name) != "auto":
                check.check_count(name, getattr(self, name))
                if getattr(self, name) > d:
                    raise ValueError(f"{name}={getattr(self, name)} is more than the {d} features of X.")
        check.check_between("n_power_iter", self.n_power_iter, 0, MAX_POWER_ITER)
        check.check_word("projection", self.projection, ("gaussian", "sparse"))
        if self.max_journal is not None:
            check.check_count("max_journal", self.max_journal)
        return self

    def turned(self, X: Rows, n_classes: int) -> Rows:
        """In few directions nothing is projected, and these few are enough to judge by."""
        return in_strongest(X, int(np.clip(JUDGED_PER_CLASS * n_classes, FEWEST_JUDGED, MOST_JUDGED)))

    def begin(self, choice: Choice, at: Beginning) -> "ProjectedSpace":
        d, n = at.X.shape[1], at.n_triplets
        m = auto_components(d, n, at.n_classes) if self.n_components == "auto" else min(int(self.n_components), d)
        seed, symmetric = int(at.rng.integers(np.iinfo(np.int32).max)), choice.measure.is_distance
        arguments = (d, m, at.X.dtype, symmetric, self.projection, seed)
        if m == d:
            projection = Projection(*arguments, basis=np.eye(d, dtype=at.X.dtype))
        else:
            projection = Projection(*arguments)
            basis = spanning(at.X, projection) if at.whole and n else None
            if basis is not None:
                projection = Projection(*arguments, basis=basis)
            else:
                projection.deflate(at.X)
        return ProjectedSpace(projection, 1.0 / (at.scale or 1.0), self)

    def schema(self, d: int) -> Schema:
        return SCHEMA

    def restore(self, choice: Choice, state: dict[str, Any], kept: Kept) -> "ProjectedSpace":
        lam = state["lam"]
        axes = None if lam is None else (choice.measure, Locality.per_class(lam))
        projection = projection_of(state, choice.measure.is_distance)
        return ProjectedSpace(projection, 1.0 / (kept.scale or 1.0), self, axes)


@dataclass
class _Held:
    """Rows of a stream and their projections; the pairs of its triplets, and what projection did to their values."""

    source: Rows
    rows: Array
    keys: Array = field(default_factory=lambda: np.empty(0, np.int64))
    error: Array = field(default_factory=lambda: np.empty(0))


@dataclass
class ProjectedSpace(Space):
    """A projection with its matrices and its journal; `axes` are the measure and locality that it learned by."""

    at_readout = ("end", "every", "step", "exact")

    state: Projection
    factor: float
    kind: Projected
    axes: tuple[Measure, Locality] | None = None
    _held: _Held | None = field(default=None, init=False, repr=False)

    @property
    def dtype(self) -> Any:
        return self.state.dtype

    @property
    def device(self) -> Any:
        return None if self.kind.device is None else torch.device(self.kind.device)

    @property
    def exact(self) -> bool:
        """Whether rows span so few directions that learning runs in their exact coordinates."""
        return bool(self.state.exact)

    # -- learning ----------------------------------------------------------------------------------------------------

    def learn(self, choice: Choice, stream: Stream, counts: Counts, how: Pass) -> Tally:
        tau = np.zeros(len(stream.triplets))
        counts.forget = choice.forget
        held = self._held = self._known(stream.X)
        shift = self._shift(choice, stream, held)
        shift += 0.0 if stream.shift is None else stream.shift
        inside = Stream(held.rows, stream.triplets, stream.codes, stream.factor, stream.weight, tau, shift, stream.gaps)
        tally = self._run(choice, inside, counts, replace(how, rate=None))
        shares = self._fading_shares if choice.forget else self._shares
        last, mean = shares(counts, len(tau), how.rate is not None)
        codes = np.full((len(tau), 2), FREE, np.int32)
        if stream.codes is not None and choice.locality.is_local:
            codes = stream.codes[stream.triplets[:, 1:]]
        self.state.journal.add(stream.X, stream.triplets, codes, last * tau, mean * tau)
        self.axes = (choice.measure, choice.locality)
        self._bound(counts)
        return tally

    def _known(self, X: Rows) -> _Held:
        """Rows as learning sees them; the same rows are known again over epochs."""
        if self._held is not None and self._held.source is X:
            return self._held
        self.state.extend(X)
        return _Held(X, self.state.project(X))

    def _run(self, choice: Choice, inside: Stream, counts: Counts, how: Pass) -> Tally:
        """Learn projected rows, on the device if there is one."""
        dense = DenseSpace(self.state.inner)
        if self.kind.device is None:
            tally = dense.learn(choice, inside, counts, how)
            dense.close()  # rows of new directions make the matrices larger
            return tally
        away = DeviceSpace(dense, self.device)
        tally = away.learn(choice, inside, counts, how)
        self.state.inner = away.on_host().matrices
        return tally

    def _shift(self, choice: Choice, stream: Stream, held: _Held) -> Array:
        """What projection did to each triplet's constraint at the start, taken back: the identity is known exactly.

        sigma ((v+ - v-) on the rows - (v+ - v-) on their projections), v the value of a pair under the identity; only
        what was learned is then subject to the error of the projection.
        """
        if self.state.exact:
            return np.zeros(len(stream.triplets))
        n, t = len(held.rows), stream.triplets
        keys, places = np.unique(t[:, :1] * n + t[:, 1:], return_inverse=True)
        if not np.array_equal(keys, held.keys):
            pairs, distances = np.divmod(keys, n), choice.measure.is_distance
            held.error = identity_values(stream.X, *pairs, distances) - identity_values(held.rows, *pairs, distances)
            held.keys = keys
        signed = self.factor**2 * choice.measure.sign * held.error[places.reshape(-1, 2)]
        if choice.locality.is_local:
            codes = np.full(signed.shape, FREE) if stream.codes is None else stream.codes[t[:, 1:]]
            signed *= np.where(codes >= 0, 1.0, choice.locality.lam)
        return signed[:, 0] - signed[:, 1]

    def _shares(self, counts: Counts, n: int, averaging: bool) -> tuple[Array, Array]:
        """Share of each of the next n steps in the last and in the averaged iterates.

        The latter is 1 - prod (1 - rate) over the averages to come; what is held already is brought up to date.
        """
        if not averaging:
            return np.ones(n), np.ones(n)
        ends = _average_ends(counts.seen, n)
        left_out = np.cumprod(np.array([1.0 - counts.rate() for _ in ends])[::-1])[::-1]
        if len(ends):
            self.state.age(left_out[0])
        return np.ones(n), np.r_[1.0 - left_out, 0.0][np.searchsorted(ends, np.arange(n))]

    def _fading_shares(self, counts: Counts, n: int, averaging: bool) -> tuple[Array, Array]:
        """`_shares` with forgetting: the step of triplet k weighs g^(e - k) in the iterate after triplet e."""
        g, ends = 1.0 - counts.forget, _average_ends(counts.seen, n)
        last = g ** np.arange(n - 1, -1, -1.0)
        if not averaging:
            self.state.fade(g**n, 0.0, g**n)
            return last, last
        rates = [counts.rate() for _ in ends]
        mean, left_out, gain, after = np.zeros(n), 1.0, 0.0, n - 1
        for k in reversed(range(len(ends))):
            gain = rates[k] * left_out + g ** int(after - ends[k]) * gain
            left_out *= 1.0 - rates[k]
            after = ends[k]
            first = ends[k - 1] + 1 if k else 0
            mean[first : after + 1] = gain * g ** np.arange(after - first, -1, -1.0)
        self.state.fade(g**n, left_out, g ** int(after + 1) * gain)
        return last, mean

    def _bound(self, counts: Counts) -> None:
        """Fold the journal if it is too long, or if mixing made the folded part wider than the rank."""
        limit = self.kind.max_journal
        too_long = limit is not None and len(self.state.journal) > limit
        too_wide = self.state.folded is not None and self.state.folded[0].shape[1] > self._rank(counts.n_classes)
        if (too_long or too_wide) and self.axes is not None:
            self.state.fold(*self.axes, self.factor, self._rank(counts.n_classes), self.kind.n_power_iter)

    def _rank(self, n_classes: int) -> int:
        rank = self.kind.rank
        return auto_rank(self.state.d, n_classes) if isinstance(rank, str) else int(rank)

    # -- reading -----------------------------------------------------------------------------------------------------

    def readout(
        self, choice: Choice, counts: Counts, cone: str, blend: float, strength: tuple[float, float] = (1.0, 1.0)
    ) -> LowRankMetric:
        axes, rank = (choice.measure, choice.locality), self._rank(counts.n_classes)
        with sharing(len(self.state.journal.ids), self.state.d, rank):
            basis = self.state.basis(*axes, self.factor, rank, self.kind.n_power_iter)
            replays = cone == "effective" and choice.locality.is_local and self._has_many_classes(basis.shape[1])
            read, kind = (self.state.replay, ReplayedMetric) if replays else (self.state.recover, DenseMetric)
            state: Any = read(basis, *axes, self.factor, blend)
        return LowRankMetric(kind(state, choice.locality, cone, 1.0, self.factor, strength), basis, self.factor)

    def _has_many_classes(self, rank: int) -> bool:
        """Whether matrices of all classes would cost more than products with the points of the journal."""
        journal, folded = self.state.journal, self.state.folded
        if folded is not None or not len(journal) or not self.state.symmetric:
            return False
        return len(np.unique(journal.pairs.codes)) * rank >= MANY * journal.rows.shape[0]

    def last(self, choice: Choice, n_classes: int) -> Matrices:
        refuse_dense(self.state.d)
        basis = np.eye(self.state.d, dtype=self.dtype)
        if self.axes is None:
            return Matrices(basis, self.state.symmetric)
        return self.state.recover(basis, *self.axes, self.factor, blend=1.0)

    # -- what may happen to it ---------------------------------------------------------------------------------------

    def close(self) -> None:
        self._held = None
        self.state.journal.close()

    def adopt(self, blend: float) -> None:
        if blend < 1.0 and self.axes is not None:
            self.state.adopt(*self.axes, self.factor, blend)

    def drop(self, new_codes: Array) -> None:
        self.state.drop(new_codes)

    def fork(self, counts: Counts) -> Self:
        return replace(self, state=self.state.fork())

    def mixed(self, forks: list[Self], weights: Array, counts: Counts) -> Self:
        out = replace(forks[0], state=Projection.mixed([fork.state for fork in forks], weights))
        out._bound(counts)
        return out

    def joined(self, fork: Self, choice: Choice, counts: Counts) -> Self:
        out = replace(self, state=self.state.joined(fork.state), axes=fork.axes)
        if choice.psd.word in ("every", "step", "exact"):
            out.state.inner.project()
        out._bound(counts)
        return out

    def open(self, X: Rows, ids: Array) -> None:
        self.state.journal.open(X, ids)

    def saved(self) -> dict[str, Any]:
        return {**projection_state(self.state), "lam": None if self.axes is None else self.axes[1].lam}


def _average_ends(seen: int, n: int) -> Array:
    """Which of the next n triplets an average is taken after."""
    return np.arange(AVERAGE_EVERY - 1 - seen % AVERAGE_EVERY, n, AVERAGE_EVERY)


def auto_components(d: int, n_triplets: int, n_classes: int) -> int:
    """Dimension m: 4.5 log(triplets) (theory 9) or 1 per class, to a multiple of 16; all d up to four times that."""
    by_triplets = 4.5 * np.log(n_triplets) if n_triplets > 1 else 48.0
    m = 16 * int(np.clip(np.rint(max(by_triplets, 1.0 * n_classes) / 16), 3, 25))
    return d if d <= 4 * m else m


def auto_rank(d: int, n_classes: int) -> int:
    """Dimension of the recovered part: 256 or 3.75 per class, at most 1024; or d if that is hardly more."""
    rank = int(np.clip(PER_CLASS * n_classes, FEWEST, MOST))
    return d if d <= 1.25 * rank else rank
