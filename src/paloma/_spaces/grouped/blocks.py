"""Several modalities, each a metric on its own columns, weighted by Hedge (theory 5).

A round: f_r = d_r(p, p+) - d_r(p, p-), f = sum_r theta_r f_r. If f + gate > 0, every modality takes a step on its own
loss m + f_r, and those with f_r >= 0, a mistake, are discounted. A gate of infinity is always open: then the modalities
do not see each other, and each is learned by the loop of `paloma._core.loop`. Else a block is learned as there, pair
values and Gram matrices of all modalities first, and one sweep that decides on each round from all of them; few
columns, and low-rank factors, take a fused loop over triplets.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..._compiled.groups import Out, Pairs, Rule, Theta, Triplets
from ..._compiled.joint import Columns, Gate, joint_stream, joint_sweep, weighted
from ..._compiled.members import distinct_pairs
from ..._compiled.scratch import Scratch
from ..._compiled.steps import PLAIN
from ..._core.choice import Choice
from ..._core.hedge import Hedge
from ..._core.locality import FREE
from ..._core.loop import Block, learn
from ..._core.stream import Pass, Stream, Tally, aggressiveness, candidate_codes
from ..._typing import Array
from ..._validation import read_only
from ..dense.blocks import STREAM_CHUNK, STREAM_DIMENSION, constrained_block, inner, plan, psi
from ..dense.matrices import Matrices, PairRows, gram, segments_of

# Pairs in a block if one matrix serves all classes, and if each class has its own (measured at d = 384).
PAIRS, LOCAL_PAIRS = 256, 1024


@dataclass(frozen=True)
class Gating:
    """When a round is open, Hedge's discount, and for factors whether steps are plain online gradient."""

    margin: float = np.inf
    beta: float | str = "auto"
    plain: bool = False


@dataclass
class Modalities:
    """The matrices of all modalities, which stand to `learn` for those of one.

    columns, factors : of X, for each modality; states : U and L of each, or one that holds the factors W of all, side
    by side, if `rank` is given.
    """

    columns: list[Array]
    factors: list[float]
    states: list[Matrices]
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
            state.symmetrize()

    def fork(self) -> "Modalities":
        """A copy to learn from here on."""
        return replace(self, states=[state.fork() for state in self.states], hedge=self.hedge.fork())

    @classmethod
    def mixed(cls, forks: list["Modalities"], weights: Array) -> "Modalities":
        """Weighted mean of the matrices of forks; their rounds of Hedge add up."""
        each = zip(*(fork.states for fork in forks), strict=True)
        states = [Matrices.mixed(list(states), weights) for states in each]
        return replace(forks[0], states=states, hedge=Hedge.mixed([fork.hedge for fork in forks]))

    def side_by_side(self, codes: Array) -> Array:
        """U, and L of these classes, each as one (k, D) array of the matrices of all modalities, filled up with 0."""
        out = np.zeros((1 + len(codes), max(map(len, self.columns)), self.bounds[-1]), self.states[0].start.dtype)
        for state, block in self._places(out):
            state.symmetrize()
            slots = state.allocate(codes)
            block[0], block[1:] = state.shared, state.stack[slots]
        return out

    def put_back(self, codes: Array, arrays: Array) -> None:
        """The inverse of `side_by_side`."""
        for state, block in self._places(arrays):
            state.shared[...] = block[0]
            state.stack[state.slots_of(codes)] = block[1:]

    def _places(self, arrays: Array) -> Iterator[tuple[Matrices, Array]]:
        for state, a, b in zip(self.states, self.bounds[:-1], self.bounds[1:], strict=True):
            yield state, arrays[:, : b - a, a:b]

    def independent(self, choice: Choice, gating: Gating) -> bool:
        """Whether modalities do not see each other: the gate is always open, or shut only when no step is due."""
        idle = len(self.columns) == 1 and gating.margin >= choice.margin and choice.step.name != "logistic"
        return self.rank is None and (idle or gating.margin == np.inf)

    @property
    def bounds(self) -> Array:
        """Where the columns of each modality begin, side by side; and the end."""
        return np.cumsum([0, *map(len, self.columns)])


def select(X: Array, columns: Array) -> Array:
    """Columns of X, C-ordered; X itself if they are all of them."""
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


def learn_modalities(choice: Choice, gating: Gating, modalities: Modalities, stream: Stream, how: Pass) -> Tally:
    """Learn a stream on all modalities; see `paloma._core.loop.learn`. `how.rate` may depend on `n` alone."""
    n, hedge = len(stream.triplets), modalities.hedge
    if not n:
        return Tally()
    hedge.beta = gating.beta
    shape = (n, len(modalities.columns))
    rounds = Rounds(np.zeros(shape), np.zeros(shape), np.ones(n, np.bool_), hedge.log_betas(n), hedge.losses.copy())
    if modalities.independent(choice, gating):
        _learn_apart(choice, modalities, stream, rounds, how)
    else:
        learn(choice, partial(_together, gating=gating, rounds=rounds), modalities, stream, how)
    modalities.settle()
    charged = aggressiveness(choice, stream, 0, n) > 0  # a triplet of weight 0 discounts no expert
    theta = hedge.play(rounds.gaps >= choice.margin - _tie(choice, stream), rounds.opened & charged)
    gaps = (theta * rounds.gaps).sum(axis=1)
    if stream.gaps is not None:
        stream.gaps[:] = gaps
    loss = np.maximum(gaps, 0.0).sum()
    return Tally(n, int((rounds.tau != 0).any(axis=1).sum()), float(loss))


def _learn_apart(choice: Choice, modalities: Modalities, stream: Stream, rounds: Rounds, how: Pass) -> None:
    """Each modality by itself: the gate is always open."""
    (n, m), advance = rounds.tau.shape, how.advance
    if advance is not None:
        how = replace(how, advance=lambda steps, loss: advance(steps / m, loss))
    for r, state in enumerate(modalities.states):
        tau, gaps, X = np.zeros(n), np.zeros(n), select(stream.X, modalities.columns[r])
        factor = modalities.factors[r]
        one = Stream(X, stream.triplets, stream.codes, factor, stream.weight, tau, gaps=gaps)
        learn(choice, plan, state, one, how)
        rounds.tau[:, r], rounds.gaps[:, r] = tau, gaps


def _tie(choice: Choice, stream: Stream) -> float:
    """Differences of distances up to this are rounding: a mistake, and no reason to open the gate."""
    return float(choice.margin * np.finfo(stream.X.dtype).eps ** (2 / 3))


def _together(
    choice: Choice, modalities: Modalities, stream: Stream, block: int | str, gating: Gating, rounds: Rounds
) -> tuple[Block, int]:
    """How all modalities learn a stretch of triplets, a round after the other, and how many at a time."""
    one, size = _way(choice, modalities, stream, block)
    return partial(one, choice, modalities, stream, gating=gating, rounds=rounds), size


def _way(choice: Choice, modalities: Modalities, stream: Stream, block: int | str) -> tuple[Callable[..., Any], int]:
    """How to learn a stretch of triplets jointly, and how many at a time."""
    if modalities.rank is not None:
        return _rank_block, STREAM_CHUNK
    if choice.psd.sequential:
        return _joint_constrained_block, 64
    one = partial(_joint_block, scratches=[Scratch() for _ in modalities.columns])
    if block != "auto":
        return one, int(block)
    head = stream.triplets[: STREAM_CHUNK // 64]
    pairs = np.unique(head[:, :1] * len(stream.X) + head[:, 1:]).size / len(head)
    if max(map(len, modalities.columns)) <= STREAM_DIMENSION[stream.X.dtype.itemsize] * (2.0 * pairs) ** 0.75:
        return _fused_block, STREAM_CHUNK
    return one, max(1, int((LOCAL_PAIRS if choice.locality.is_local else PAIRS) / pairs))


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
    choice: Choice,
    modalities: Modalities,
    stream: Stream,
    start: int,
    stop: int,
    rounds: Rounds,
    gating: Gating,
    scratches: list[Scratch],
) -> tuple[float, int]:
    """Triplets start to stop of all modalities by the exact blocked algorithm of theory 10."""
    part = slice(start, stop)
    inside = _streams(modalities, stream, part)
    triplets = inside[0].triplets
    anchors, candidates, codes, members = distinct_pairs(triplets, candidate_codes(choice, inside[0], triplets))
    segments = segments_of(codes) if choice.locality.mu else []
    lam, mu, n, m = choice.locality.lam, choice.locality.mu, len(codes), len(inside)
    grams = scratches[0].take("grams", (m, n, n), stream.X.dtype)
    values, norms, net = np.zeros((m, n)), np.empty((m, stop - start, 3)), np.zeros((m, n))
    rows = []
    for r, (one, state, scratch) in enumerate(zip(inside, modalities.states, scratches, strict=True)):
        left, _ = choice.measure.factors(one.X, anchors, candidates, one.factor, scratch)
        pairs = PairRows(left, left, scratch)
        values[r] = mu * state.local_values(pairs, segments)
        if lam:
            values[r] += lam * state.shared_values(pairs)
        norms[r] = choice.measure.norms(one.X, triplets, one.factor)
        gram(left, grams[r])
        rows.append(pairs)
    loss, updates = joint_sweep(
        _asked(choice, stream, part, members, norms), Pairs(grams, grams, codes, values), choice.locality.kernel,
        choice.step.rule, _gate(choice, stream, part, rounds, gating), Out(rounds.tau[part], rounds.gaps[part], net),
    )  # fmt: skip
    for pairs, state, weight in zip(rows, modalities.states, net, strict=True):
        if lam and weight.any():
            state.move_shared(pairs, lam * weight)
        if mu and weight.any():
            state.move_local(pairs, segments, mu * weight)
    return loss, updates


def _asked(choice: Choice, stream: Stream, part: slice, members: Array, norms: Array | None = None) -> Triplets:
    C = aggressiveness(choice, stream, part.start, part.stop)
    return Triplets(members, np.full(len(C), choice.margin), C, norms)


def _gate(choice: Choice, stream: Stream, part: slice, rounds: Rounds, gating: Gating) -> Gate:
    return Gate(gating.margin, _tie(choice, stream), rounds.log_betas[part], rounds.sums, rounds.opened[part])


def _joint_constrained_block(
    choice: Choice, modalities: Modalities, stream: Stream, start: int, stop: int, rounds: Rounds, gating: Gating
) -> tuple[float, int]:
    """Triplets start to stop one by one, every step ending inside the cone."""
    part, n = slice(start, stop), stop - start
    inside, gaps, opened = _streams(modalities, stream, part), rounds.gaps[part], rounds.opened[part]
    for one in inside:
        one.tau = np.zeros(n)
    codes = candidate_codes(choice, inside[0], inside[0].triplets)
    slots = [state.allocate(codes) for state in modalities.states]
    C, margin, tie = aggressiveness(choice, stream, start, stop), choice.margin, _tie(choice, stream)
    loss = 0.0
    for t, triplet in enumerate(inside[0].triplets):
        for r, (state, one) in enumerate(zip(modalities.states, inside, strict=True)):
            gaps[t, r] = margin + inner(psi(choice.locality, state, one, triplet, *slots[r][t]))
        combined = weighted(gaps[t], rounds.log_betas[start + t], rounds.sums)
        loss += max(combined, 0.0)
        opened[t] = combined - margin + gating.margin > tie
        if opened[t]:
            rounds.sums += (gaps[t] >= margin - tie) & (C[t] > 0)
            for state, one in zip(modalities.states, inside, strict=True):
                constrained_block(choice, state, one, t, t + 1)
    rounds.tau[part] = np.transpose([one.tau for one in inside])
    return loss, int((rounds.tau[part] != 0).any(axis=1).sum())


def _rank_block(
    choice: Choice, modalities: Modalities, stream: Stream, start: int, stop: int, rounds: Rounds, gating: Gating
) -> tuple[float, int]:
    """Triplets start to stop by online gradient on the factors of all modalities."""
    state = modalities.states[0]
    slots = state.allocate(candidate_codes(choice, stream, stream.triplets[start:stop]))
    return _stream(choice, modalities, stream, slice(start, stop), rounds, gating, state.shared, state.stack, slots)


def _fused_block(
    choice: Choice, modalities: Modalities, stream: Stream, start: int, stop: int, rounds: Rounds, gating: Gating
) -> tuple[float, int]:
    """Triplets start to stop by the fused loop, for few columns; the matrices are put side by side and back."""
    codes = candidate_codes(choice, stream, stream.triplets[start:stop])
    known = np.unique(codes[codes >= 0])
    arrays = modalities.side_by_side(known)
    slots = np.where(codes >= 0, np.searchsorted(known, codes), FREE)
    result = _stream(choice, modalities, stream, slice(start, stop), rounds, gating, arrays[0], arrays[1:], slots)
    modalities.put_back(known, arrays)
    return result


def _stream(
    choice: Choice,
    modalities: Modalities,
    stream: Stream,
    part: slice,
    rounds: Rounds,
    gating: Gating,
    W: Array,
    L: Array,
    slots: Array,
) -> tuple[float, int]:
    factors = np.repeat(modalities.factors, np.diff(modalities.bounds)).astype(stream.X.dtype)
    return joint_stream(
        _asked(choice, stream, part, stream.triplets[part]),
        Columns(stream.X, np.concatenate(modalities.columns), modalities.bounds, factors),
        Theta(W, L, slots.astype(np.int32)), choice.locality.kernel,
        Rule(PLAIN) if gating.plain else choice.step.rule, _gate(choice, stream, part, rounds, gating),
        modalities.rank is None, Out(rounds.tau[part], rounds.gaps[part]),
    )  # fmt: skip
