"""Several modalities, each a metric on its own columns, weighed by Hedge (spec.md 5).

A round: f_r = d_r(p, p+) - d_r(p, p-), f = sum_r theta_r f_r. If f + gate > 0, every modality takes a step on its own
loss m + f_r, and those with f_r >= 0, a mistake, are discounted. A gate of infinity is always open: then the modalities
do not see each other, and each is learnt by the loop of `paloma._learner`. Else a block is learnt as there, pair values
and Gram matrices of all modalities first, and one sweep that decides on each round from all of them; few columns, and
low-rank factors, take a fused loop over triplets.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._hedge import Hedge
from ._kernels.joint import joint_stream, joint_sweep, weighed
from ._kernels.scratch import Scratch
from ._learner import (
    STREAM_CHUNK,
    STREAM_DIMENSION,
    _aggressiveness,
    _constrained_block,
    _inner,
    _psi,
    learn,
)
from ._locality import FREE
from ._parts import Parts, Stream, Tally, candidate_codes, distinct_pairs
from ._representation import Dense, gram, segments_of
from ._validation import read_only

Array = NDArray[Any]
# Pairs in a block where one matrix serves all classes, and where each class has its own (measured at d = 384).
PAIRS, LOCAL_PAIRS = 256, 1024


@dataclass(frozen=True)
class JointParts(Parts):
    """Further choices: the gate, Hedge's discount, and for factors whether steps are plain online gradient."""

    gate: float = np.inf
    beta: float | str = "auto"
    plain: bool = False


@dataclass
class Modalities:
    """The matrices of all modalities, which stand to `learn` for those of one.

    columns, factors : of X, for each modality; states : U and L of each, or one that holds the factors W of all, side
    by side, where `rank` is given.
    """

    columns: list[Array]
    factors: list[float]
    states: list[Dense]
    hedge: Hedge
    rank: int | None = None

    def project(self) -> None:
        for state in self.states:
            state.project()

    def average(self, rate: float) -> None:
        for state in self.states:
            state.average(rate)

    def settle(self) -> None:
        for state in self.states:
            state.settle()

    def fork(self) -> "Modalities":
        """A copy to learn from here on."""
        return replace(self, states=[state.fork() for state in self.states], hedge=self.hedge.fork())

    @classmethod
    def mixed(cls, forks: list["Modalities"], weights: Array) -> "Modalities":
        """Weighted mean of the matrices of forks; their rounds of Hedge add up."""
        each = zip(*(fork.states for fork in forks), strict=True)
        states = [Dense.mixed(list(states), weights) for states in each]
        return replace(forks[0], states=states, hedge=Hedge.mixed([fork.hedge for fork in forks]))

    def joined(self, fork: "Modalities") -> "Modalities":
        """This state and what a fork of it learnt since."""
        return fork.fork()

    def side_by_side(self, codes: Array) -> Array:
        """U, and L of these classes, each as one (k, D) array of the matrices of all modalities, filled up with 0."""
        out = np.zeros((1 + len(codes), max(map(len, self.columns)), self.bounds[-1]), self.states[0].start.dtype)
        for state, block in self._places(out):
            state.settle()
            slots = state.ensure(codes)
            block[0], block[1:] = state.shared, state.stack[slots]
        return out

    def put_back(self, codes: Array, arrays: Array) -> None:
        """The inverse of `side_by_side`."""
        for state, block in self._places(arrays):
            state.shared[...] = block[0]
            state.stack[state.slots_of(codes)] = block[1:]

    def _places(self, arrays: Array) -> Iterator[tuple[Dense, Array]]:
        for state, a, b in zip(self.states, self.bounds[:-1], self.bounds[1:], strict=True):
            yield state, arrays[:, : b - a, a:b]

    def independent(self, parts: "JointParts") -> bool:
        """Whether modalities do not see each other: the gate is always open, or shut only where no step is due."""
        idle = len(self.columns) == 1 and parts.gate >= parts.margin and parts.step.name != "logistic"
        return self.rank is None and (idle or parts.gate == np.inf)

    @property
    def bounds(self) -> Array:
        """Where the columns of each modality begin, side by side; and the end."""
        return np.cumsum([0, *map(len, self.columns)])


def select(X: Array, columns: Array) -> Array:
    """Columns of X, C-ordered; X itself where they are all of them."""
    if len(columns) == X.shape[1] and np.array_equal(columns, np.arange(X.shape[1])):
        return X
    return np.take(X, columns, axis=1)


@dataclass
class Rounds:
    """What each modality did in each triplet of a stream: (n, m) step sizes, and margin - z before the steps.

    opened : rounds in which the gate was open; log_betas, sums : discounts to come, and mistakes so far.
    """

    tau: Array
    gaps: Array
    opened: Array
    log_betas: Array
    sums: Array


def learn_modalities(
    parts: JointParts,
    modalities: Modalities,
    stream: Stream,
    *,
    block: int | str,
    seen: int,
    averaging: Callable[[int], float] | None,
    advance: Callable[[float, float], Any] | None,
) -> Tally:
    """Learn a stream on all modalities; see `paloma._learner.learn`. `averaging` may depend on `n` alone."""
    n, hedge = len(stream.triplets), modalities.hedge
    if not n:
        return Tally()
    hedge.beta = parts.beta
    shape = (n, len(modalities.columns))
    rounds = Rounds(np.zeros(shape), np.zeros(shape), np.ones(n, np.bool_), hedge.log_betas(n), hedge.losses.copy())
    learner = partial(learn, block=block, seen=seen, averaging=averaging)
    if modalities.independent(parts):
        _learn_apart(partial(learner, parts), modalities, stream, rounds, advance)
    else:
        jointly = replace(parts, path=lambda *_: _path(parts, modalities, stream, rounds, block))
        learner(jointly, modalities, stream, advance=advance)
    charged = _aggressiveness(parts, stream, 0, n) > 0  # a triplet of weight 0 discounts nobody
    theta = hedge.play(rounds.gaps >= parts.margin - _tie(parts, stream), rounds.opened & charged)
    gaps = (theta * rounds.gaps).sum(axis=1)
    if stream.gaps is not None:
        stream.gaps[:] = gaps
    loss = np.maximum(gaps, 0.0).sum()
    return Tally(n, int((rounds.tau != 0).any(axis=1).sum()), float(loss))


def _learn_apart(
    learner: Callable[..., Tally], modalities: Modalities, stream: Stream, rounds: Rounds, advance: Any
) -> None:
    """Each modality by itself: the gate is always open."""
    n, m = rounds.tau.shape
    part = None if advance is None else lambda steps, loss: advance(steps / m, loss)
    for r, state in enumerate(modalities.states):
        tau, gaps, X = np.zeros(n), np.zeros(n), select(stream.X, modalities.columns[r])
        factor = modalities.factors[r]
        learner(state, Stream(X, stream.triplets, stream.codes, factor, stream.weight, tau, gaps=gaps), advance=part)
        rounds.tau[:, r], rounds.gaps[:, r] = tau, gaps


def _tie(parts: JointParts, stream: Stream) -> float:
    """Differences of distances up to this are rounding: a mistake, and no reason to open the gate."""
    return float(parts.margin * np.finfo(stream.X.dtype).eps ** (2 / 3))


def _path(
    parts: JointParts, modalities: Modalities, stream: Stream, rounds: Rounds, block: int | str
) -> tuple[Callable[..., Any], int]:
    """How to learn a stretch of triplets jointly, and how many at a time."""
    if modalities.rank is not None:
        return partial(_rank_block, rounds=rounds), STREAM_CHUNK
    if parts.psd.sequential:
        return partial(_joint_constrained_block, rounds=rounds), 64
    one = partial(_joint_block, rounds=rounds, scratches=[Scratch() for _ in modalities.columns])
    if block != "auto":
        return one, int(block)
    head = stream.triplets[: STREAM_CHUNK // 64]
    pairs = np.unique(head[:, :1] * len(stream.X) + head[:, 1:]).size / len(head)
    if max(map(len, modalities.columns)) <= STREAM_DIMENSION[stream.X.dtype.itemsize] * (2.0 * pairs) ** 0.75:
        return partial(_fused_block, rounds=rounds), STREAM_CHUNK
    return one, max(1, int((LOCAL_PAIRS if parts.locality.is_local else PAIRS) / pairs))


def _streams(modalities: Modalities, stream: Stream, part: slice) -> list[Stream]:
    """A stretch of the stream as each modality sees it: the rows it needs, in the modality's columns."""
    numbers, triplets = np.unique(stream.triplets[part], return_inverse=True)
    rows, triplets = stream.X[numbers], triplets.reshape(-1, 3)
    codes = None if stream.codes is None else stream.codes[numbers]
    weight = None if stream.weight is None else stream.weight[part]
    return [
        Stream(read_only(select(rows, columns)), triplets, codes, factor, weight)
        for columns, factor in zip(modalities.columns, modalities.factors, strict=True)
    ]


def _joint_block(
    parts: JointParts,
    modalities: Modalities,
    stream: Stream,
    start: int,
    stop: int,
    rounds: Rounds,
    scratches: list[Scratch],
) -> tuple[float, int]:
    """Triplets start to stop of all modalities by the exact blocked algorithm of spec.md 10."""
    part = slice(start, stop)
    inside = _streams(modalities, stream, part)
    triplets = inside[0].triplets
    anchors, candidates, codes, members = distinct_pairs(triplets, candidate_codes(parts, inside[0], triplets))
    segments = segments_of(codes) if parts.locality.mu else []
    lam, mu, n, m = parts.locality.lam, parts.locality.mu, len(codes), len(inside)
    grams = scratches[0].take("grams", (m, n, n), stream.X.dtype)
    values, norms, net = np.zeros((m, n)), np.empty((m, stop - start, 3)), np.zeros((m, n))
    rows = []
    for r, (one, state, scratch) in enumerate(zip(inside, modalities.states, scratches, strict=True)):
        left, _ = parts.measure.factors(one.X, anchors, candidates, one.factor, scratch)
        values[r] = mu * state.local_values(left, left, segments, scratch)
        if lam:
            values[r] += lam * state.shared_values(left, left, scratch)
        norms[r] = parts.measure.norms(one.X, triplets, one.factor)
        gram(left, grams[r])
        rows.append(left)
    loss, updates = joint_sweep(
        grams, lam * lam, mu * mu, codes, members, norms, values, parts.margin, _tie(parts, stream),
        _aggressiveness(parts, stream, start, stop), parts.step.code, parts.step.constants, parts.gate,
        rounds.log_betas[part], rounds.sums, rounds.tau[part], net, rounds.gaps[part], rounds.opened[part],
    )  # fmt: skip
    for left, state, weight, scratch in zip(rows, modalities.states, net, scratches, strict=True):
        if lam and weight.any():
            state.move_shared(left, left, lam * weight, scratch)
        if mu and weight.any():
            state.move_local(left, left, segments, mu * weight, scratch)
    return loss, updates


def _joint_constrained_block(
    parts: JointParts, modalities: Modalities, stream: Stream, start: int, stop: int, rounds: Rounds
) -> tuple[float, int]:
    """Triplets start to stop one by one, every step ending inside the cone."""
    part, n = slice(start, stop), stop - start
    inside, gaps, opened = _streams(modalities, stream, part), rounds.gaps[part], rounds.opened[part]
    for one in inside:
        one.tau = np.zeros(n)
    codes = candidate_codes(parts, inside[0], inside[0].triplets)
    slots = [state.ensure(codes) for state in modalities.states]
    C, margin, tie = _aggressiveness(parts, stream, start, stop), parts.margin, _tie(parts, stream)
    loss = 0.0
    for t, triplet in enumerate(inside[0].triplets):
        for r, (state, one) in enumerate(zip(modalities.states, inside, strict=True)):
            gaps[t, r] = margin + _inner(_psi(parts.locality, state, one, triplet, *slots[r][t]))
        combined = weighed(gaps[t], rounds.log_betas[start + t], rounds.sums)
        loss += max(combined, 0.0)
        opened[t] = combined - margin + parts.gate > tie
        if opened[t]:
            rounds.sums += (gaps[t] >= margin - tie) & (C[t] > 0)
            for state, one in zip(modalities.states, inside, strict=True):
                _constrained_block(parts, state, one, t, t + 1)
    rounds.tau[part] = np.transpose([one.tau for one in inside])
    return loss, int((rounds.tau[part] != 0).any(axis=1).sum())


def _rank_block(
    parts: JointParts, modalities: Modalities, stream: Stream, start: int, stop: int, rounds: Rounds
) -> tuple[float, int]:
    """Triplets start to stop by online gradient on the factors of all modalities."""
    state = modalities.states[0]
    slots = state.ensure(candidate_codes(parts, stream, stream.triplets[start:stop]))
    return _stream(parts, modalities, stream, slice(start, stop), rounds, state.shared, state.stack, slots)


def _fused_block(
    parts: JointParts, modalities: Modalities, stream: Stream, start: int, stop: int, rounds: Rounds
) -> tuple[float, int]:
    """Triplets start to stop by the fused loop, for few columns; the matrices are put side by side and back."""
    codes = candidate_codes(parts, stream, stream.triplets[start:stop])
    known = np.unique(codes[codes >= 0])
    arrays = modalities.side_by_side(known)
    slots = np.where(codes >= 0, np.searchsorted(known, codes), FREE)
    result = _stream(parts, modalities, stream, slice(start, stop), rounds, arrays[0], arrays[1:], slots)
    modalities.put_back(known, arrays)
    return result


def _stream(
    parts: JointParts,
    modalities: Modalities,
    stream: Stream,
    part: slice,
    rounds: Rounds,
    W: Array,
    L: Array,
    slots: Array,
) -> tuple[float, int]:
    factors = np.repeat(modalities.factors, np.diff(modalities.bounds)).astype(stream.X.dtype)
    return joint_stream(
        stream.X, np.concatenate(modalities.columns), modalities.bounds, factors, stream.triplets[part],
        slots.astype(np.int32), _aggressiveness(parts, stream, part.start, part.stop), parts.locality.lam,
        parts.locality.mu, W, L, modalities.rank is None, parts.margin, _tie(parts, stream), parts.plain,
        parts.step.code, parts.step.constants, parts.gate, rounds.log_betas[part], rounds.sums, rounds.tau[part],
        rounds.gaps[part], rounds.opened[part],
    )  # fmt: skip
