"""The one learning loop of every learner.

A triplet (p, p+, p-) asks that p be nearer to p+ than to p- by a margin. With phi the pair feature of the measure and
M_c = lam U + mu L_c the metric of a candidate's class c, the constraint on Theta = (U, L_1, ..., L_k) is linear,
m + <Theta, Psi> <= xi, and the passive-aggressive step is Theta -= tau Psi with tau = rule(gap, |Psi|^2, C) (spec.md 0, 1).

Since <Psi_k, Psi_b> needs only inner products of pair features times the class kernel T = lam^2 + mu^2 [c = c'],
a block of triplets is learnt exactly as if one by one (spec.md 10): pair values and Gram matrices by matrix products,
one short sequential sweep for the step sizes, and one matrix product for each matrix that moved.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._kernels.scratch import Scratch
from ._kernels.steps import squared_norm, step_size
from ._kernels.sweep import sweep
from ._locality import FREE, Locality
from ._measure import Measure
from ._psd import Psd, exact_tau, project_one
from ._representation import Dense, gram
from ._step import Step

Array = NDArray[Any]

# Up to this dimension the fused per-triplet loop is faster than blocks (see benchmarks/learning.py).
STREAM_DIMENSION = {8: 48, 4: 64}
# The fused loop works through this many triplets a call, so that progress can be shown.
STREAM_CHUNK = 1 << 16
# Averaging takes the iterate after every so many triplets, wherever blocks begin and end.
AVERAGE_EVERY = 1024


@dataclass(frozen=True)
class Parts:
    """A learner: one choice on each axis, and the two numbers of the step."""

    measure: Measure
    locality: Locality
    step: Step
    psd: Psd
    C: float
    margin: float


@dataclass
class Stream:
    """Triplets to learn, in order: rows of X, and the class code of each row (None: class-free).

    `factor` multiplies X; `weight` multiplies C, a value a triplet; `tau`, where given, receives the step sizes.
    """

    X: Array
    triplets: Array
    codes: Array | None = None
    factor: float = 1.0
    weight: Array | None = None
    tau: Array | None = None


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


def learn(
    parts: Parts,
    state: Dense,
    stream: Stream,
    *,
    block: int | str = "auto",
    seen: int = 0,
    averaging: Callable[[int], float] | None = None,
    advance: Callable[[int, float], Any] | None = None,
) -> Tally:
    """Learn a stream of triplets in the given order.

    seen : triplets learnt before, so that psd every n and averaging keep their rhythm over calls.
    averaging : weight of the iterate after `n` triplets in the running average; None keeps no average.
    """
    d, itemsize = stream.X.shape[1], stream.X.dtype.itemsize
    if parts.psd.sequential:
        one, size = _constrained_block, 64
    elif block == "auto" and d <= STREAM_DIMENSION[itemsize]:
        one, size = _stream_block, STREAM_CHUNK
    else:
        one, size = partial(_exact_block, scratch=Scratch()), auto_block(d, len(state.slots)) if block == "auto" else int(block)
    rhythm = [n for n in (parts.psd.every, AVERAGE_EVERY if averaging else 0) if n]
    tally = Tally()
    for start, stop in _cuts(len(stream.triplets), size, rhythm, seen):
        loss, updates = one(parts, state, stream, start, stop)
        tally.add(stop - start, loss, updates)
        if parts.psd.every and (seen + stop) % parts.psd.every == 0:
            state.project()
        if averaging and (seen + stop) % AVERAGE_EVERY == 0:
            state.average(averaging(seen + stop))
        if advance:
            advance(stop - start, loss / (stop - start))
    state.settle()
    return tally


def auto_block(d: int, n_classes: int) -> int:
    """Block size: long enough that each class's matrix is worth touching, short enough that Gram matrices stay small."""
    return int(np.clip(max(d // 2, 8 * n_classes), 64, 1024))


def _cuts(n: int, size: int, rhythm: list[int], seen: int) -> Iterator[tuple[int, int]]:
    """Blocks of at most `size` triplets that also end at every multiple (of all triplets seen) in `rhythm`."""
    start = 0
    while start < n:
        stop = min([n, start + size, *(start + m - (seen + start) % m for m in rhythm)])
        yield start, stop
        start = stop


def _aggressiveness(parts: Parts, stream: Stream, start: int, stop: int) -> Array:
    if stream.weight is None:
        return np.full(stop - start, parts.C)
    weight = stream.weight[start:stop]
    return np.multiply(parts.C, weight, out=np.zeros(stop - start), where=weight > 0)


def _candidate_codes(parts: Parts, stream: Stream, triplets: Array) -> Array:
    if stream.codes is None or not parts.locality.is_local:
        return np.full((len(triplets), 2), FREE, np.int32)
    return stream.codes[triplets[:, 1:]]


def _taus(stream: Stream, start: int, stop: int) -> Array:
    return np.empty(stop - start) if stream.tau is None else stream.tau[start:stop]


def _stream_block(parts: Parts, state: Dense, stream: Stream, start: int, stop: int) -> tuple[float, int]:
    """Triplets start to stop by the fused loop."""
    triplets = stream.triplets[start:stop]
    slots = state.ensure(_candidate_codes(parts, stream, triplets))
    lam, mu = parts.locality.lam, parts.locality.mu
    return parts.measure.stream(
        stream.X, stream.X.dtype.type(stream.factor), triplets, slots, _aggressiveness(parts, stream, start, stop),
        lam, mu, state.shared, state.stack, parts.margin, parts.step.code, parts.step.constants,
        _taus(stream, start, stop),
    )  # fmt: skip


def _exact_block(
    parts: Parts, state: Dense, stream: Stream, start: int, stop: int, scratch: Scratch
) -> tuple[float, int]:
    """Triplets start to stop as one block of spec.md 10, on the distinct pairs of the block."""
    triplets = stream.triplets[start:stop]
    anchors, candidates, codes, members = _distinct_pairs(triplets, _candidate_codes(parts, stream, triplets))
    lam, mu = parts.locality.lam, parts.locality.mu
    left, right = parts.measure.factors(stream.X, anchors, candidates, stream.factor, scratch)
    values = state.values(left, right, codes, lam, mu, scratch)
    square = (len(left), len(left))
    left_gram = gram(left, scratch.take("left gram", square, left.dtype))
    right_gram = left_gram if right is left else gram(right, scratch.take("right gram", square, left.dtype))
    norms = parts.measure.norms(stream.X, triplets, stream.factor)
    weight = np.zeros(len(anchors))
    loss, updates = sweep(
        left_gram, right_gram, lam * lam, mu * mu, codes, members, norms, values, parts.measure.sign, parts.margin,
        _aggressiveness(parts, stream, start, stop), parts.step.code, parts.step.constants,
        _taus(stream, start, stop), weight,
    )  # fmt: skip
    state.apply(left, right, codes, parts.measure.sign * weight, lam, mu, scratch)
    return loss, updates


def _distinct_pairs(triplets: Array, codes: Array) -> tuple[Array, Array, Array, Array]:
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


def _constrained_block(parts: Parts, state: Dense, stream: Stream, start: int, stop: int) -> tuple[float, int]:
    """Triplets start to stop one by one, every step ending inside the cone (spec.md 3 and 6.2); distances only."""
    triplets = stream.triplets[start:stop]
    slots = state.ensure(_candidate_codes(parts, stream, triplets))
    C, taus = _aggressiveness(parts, stream, start, stop), _taus(stream, start, stop)
    norms = parts.measure.norms(stream.X, triplets, stream.factor)
    total, updates = 0.0, 0
    for t, (p, q, n) in enumerate(triplets):
        pair = (stream.X[p] - stream.X[[q, n]]) * stream.X.dtype.type(stream.factor)
        blocks = _psi(parts.locality, state, pair, *slots[t])
        gap = parts.margin + sum(signs @ np.einsum("kd,de,ke->k", v, m, v) for m, v, signs in blocks)
        total += max(float(gap), 0.0)
        norm = squared_norm(parts.locality.lam**2, parts.locality.mu**2, *slots[t], *norms[t])
        if parts.psd.word == "exact":
            limit = np.inf if parts.step.name == "pa" and C[t] > 0 else float(C[t])
            taus[t] = exact_tau(blocks, parts.margin, limit) if norm > 0 else 0.0
        else:
            taus[t] = step_size(parts.step.code, float(gap), norm, C[t], *parts.step.constants)
        if taus[t] > 0:
            updates += 1
            for matrix, vectors, signs in blocks:
                matrix -= (taus[t] * (vectors.T * signs) @ vectors).astype(matrix.dtype)
                project_one(matrix)
    return total, updates


def _psi(locality: Locality, state: Dense, pair: Array, i: int, j: int) -> list[tuple[Array, Array, Array]]:
    """Psi of one triplet as (matrix, vectors, signed weights) for each matrix it touches (spec.md 0)."""
    lam, mu = locality.lam, locality.mu
    both = np.array([1.0, -1.0])
    blocks = [(state.shared, pair, lam * both)] if lam else []
    if i == j and i >= 0:
        blocks.append((state.stack[i], pair, mu * both))
    else:
        blocks += [(state.stack[s], pair[[k]], mu * both[[k]]) for k, s in enumerate((i, j)) if s >= 0]
    return blocks
