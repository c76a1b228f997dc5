"""The one learning loop of every learner.

A triplet (p, p+, p-) asks that p be nearer to p+ than to p- by a margin. With phi the pair feature of the measure and
M_c = lam U + mu L_c the metric of a candidate's class c, the constraint on Theta = (U, L_1, ..., L_k) is linear,
m + <Theta, Psi> <= xi, and the passive-aggressive step is Theta -= tau Psi, tau = rule(gap, |Psi|^2, C) (spec.md 0, 1).

Since <Psi_k, Psi_b> needs only inner products of pair features times the class kernel T = lam^2 + mu^2 [c = c'],
a block of triplets is learnt exactly as if one by one (spec.md 10): pair values and Gram matrices by matrix products,
one short sequential sweep for the step sizes, and one matrix product for each matrix that moved.
"""

from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._forgetting import forgetting, horizon
from ._kernels.scratch import Scratch
from ._kernels.soft import soft_sweep
from ._kernels.sparse import sparse_stream
from ._kernels.steps import squared_norm, step_size
from ._kernels.stream import stream as fused
from ._kernels.sweep import correct, row_products, sweep
from ._locality import Locality
from ._parts import Parts, Stream, Tally, candidate_codes, distinct_pairs, is_soft
from ._progress import report
from ._psd import exact_tau, project_one
from ._representation import Dense, gram, segments_of
from ._validation import read_only

Array = NDArray[Any]

# Up to this dimension (by item size) the fused per-triplet loop beats blocks, where a triplet brings half a new pair;
# the bound grows with that number (measured).
STREAM_DIMENSION = {8: 52, 4: 65}
# The fused loop works through this many triplets a call, so that progress can be shown.
STREAM_CHUNK = 1 << 16
# Averaging takes the iterate after every so many triplets, wherever blocks begin and end.
AVERAGE_EVERY = 1024


def learn(
    parts: Parts,
    state: Any,
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
    if not len(stream.triplets):
        return Tally()
    if not sp.issparse(stream.X):
        stream.X = read_only(stream.X)
    one, size = (parts.path or _path)(parts, stream, block)
    if parts.forget and parts.path is None:
        one, size = forgetting(one), min(size, horizon(parts.forget))
    rhythm = [n for n in (parts.psd.every, AVERAGE_EVERY if averaging else 0) if n]
    tally, begin = Tally(), perf_counter()
    for start, stop in _cuts(len(stream.triplets), size, rhythm, seen):
        loss, updates = one(parts, state, stream, start, stop)
        tally.add(stop - start, loss, updates)
        if parts.psd.every and (seen + stop) % parts.psd.every == 0:
            state.project()
        if averaging and (seen + stop) % AVERAGE_EVERY == 0:
            state.average(averaging(seen + stop))
        begin = report(stop - start, loss, updates, begin)
        if advance:
            advance(stop - start, loss / (stop - start))
    state.settle()
    return tally


def _path(parts: Parts, stream: Stream, block: int | str) -> tuple[Callable[..., Any], int]:
    """How to learn a stretch of triplets, and how many at a time."""
    if sp.issparse(stream.X):
        return _sparse_block, STREAM_CHUNK
    if parts.psd.sequential:
        return _constrained_block, 64
    if is_soft(stream):
        size = auto_blocks(stream.X.shape[1], 1)[0] // 2 if block == "auto" else int(block)
        return partial(_soft_block, scratch=Scratch()), size
    if block != "auto":
        return partial(_exact_block, inner=int(block), scratch=Scratch()), 4 * int(block)
    head = stream.triplets[: STREAM_CHUNK // 64]
    pairs = np.unique(head[:, :1] * len(stream.X) + head[:, 1:]).size / len(head)
    d = stream.X.shape[1]
    if d <= STREAM_DIMENSION[stream.X.dtype.itemsize] * (2.0 * pairs) ** 0.75:
        return _stream_block, STREAM_CHUNK
    classes = len(np.unique(candidate_codes(parts, stream, head)))
    inner, outer = auto_blocks(d, classes)
    return partial(_exact_block, inner=max(1, int(inner / pairs)), scratch=Scratch()), int(outer / pairs)


def auto_blocks(d: int, n_classes: int) -> tuple[int, int]:
    """Pairs after which U, and the class matrices, are brought up to date.

    Few enough that Gram matrices stay small against U, enough that each class's matrix is worth touching.
    """
    inner = int(np.clip(d // 2, 192, 512))
    return inner, int(np.clip(48 * n_classes, 1920, 4096)) if n_classes > 1 else inner


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


def _margins(parts: Parts, stream: Stream, start: int, stop: int) -> Array:
    margins = np.full(stop - start, parts.margin)
    return margins if stream.shift is None else margins + stream.shift[start:stop]


def _taus(stream: Stream, start: int, stop: int) -> Array:
    return np.empty(stop - start) if stream.tau is None else stream.tau[start:stop]


def _gaps(stream: Stream, start: int, stop: int) -> Array:
    return np.empty(stop - start) if stream.gaps is None else stream.gaps[start:stop]


def _stream_block(parts: Parts, state: Dense, stream: Stream, start: int, stop: int) -> tuple[float, int]:
    """Triplets start to stop by the fused loop."""
    triplets = stream.triplets[start:stop]
    codes, before, taus = candidate_codes(parts, stream, triplets), state.n_slots, _taus(stream, start, stop)
    slots = state.ensure(codes)
    result = fused(
        stream.X, stream.X.dtype.type(stream.factor), triplets, slots, _aggressiveness(parts, stream, start, stop),
        parts.locality.lam, parts.locality.mu, state.shared, state.stack,
        parts.measure.sign, _margins(parts, stream, start, stop), parts.step.code, parts.step.constants,
        taus, _gaps(stream, start, stop), stream.scale,
    )  # fmt: skip
    state.release(before, codes, taus)
    return result


def _sparse_block(parts: Parts, state: Dense, stream: Stream, start: int, stop: int) -> tuple[float, int]:
    """Triplets start to stop of CSR rows by the loop over non-zeros; similarities only."""
    triplets, X = stream.triplets[start:stop], stream.X
    codes, before, taus = candidate_codes(parts, stream, triplets), state.n_slots, _taus(stream, start, stop)
    slots = state.ensure(codes)
    result = sparse_stream(
        X.data, X.indices, X.indptr, stream.factor, triplets, slots, _aggressiveness(parts, stream, start, stop),
        parts.locality.lam, parts.locality.mu, state.shared, state.stack, _margins(parts, stream, start, stop),
        parts.step.code, parts.step.constants, taus, _gaps(stream, start, stop), stream.scale,
    )  # fmt: skip
    state.release(before, codes, taus)
    return result


def _exact_block(
    parts: Parts, state: Dense, stream: Stream, start: int, stop: int, inner: int, scratch: Scratch
) -> tuple[float, int]:
    """Triplets start to stop by the exact blocked algorithm of spec.md 10, on the distinct pairs of the block.

    U is brought up to date after every `inner` triplets, the class matrices once at the end: each has few pairs in a
    block, and what steps did to them meanwhile is a correction among the pairs of one class.
    """
    triplets = stream.triplets[start:stop]
    anchors, candidates, codes, members = distinct_pairs(triplets, candidate_codes(parts, stream, triplets))
    lam, mu, sign = parts.locality.lam, parts.locality.mu, parts.measure.sign
    left, right = parts.measure.factors(stream.X, anchors, candidates, stream.factor, scratch)
    segments = segments_of(codes) if mu else []
    first, last = _bounds(segments, len(codes))
    local = mu * state.local_values(left, right, segments, scratch)
    norms = parts.measure.norms(stream.X, triplets, stream.factor)
    C, taus = _aggressiveness(parts, stream, start, stop), _taus(stream, start, stop)
    margins, weight = _margins(parts, stream, start, stop), np.zeros(len(codes))
    gaps = _gaps(stream, start, stop)
    loss, updates = 0.0, 0
    for a in range(0, stop - start, inner):
        part = slice(a, a + inner)
        rows, places = np.unique(members[part], return_inverse=True)
        l_rows = np.take(left, rows, axis=0, out=scratch.take("inner left", (len(rows), left.shape[1]), left.dtype))
        r_rows = l_rows
        if right is not left:
            r_rows = np.take(right, rows, axis=0, out=scratch.take("inner right", l_rows.shape, left.dtype))
        values = local[rows]
        if lam:
            values += lam * state.shared_values(l_rows, r_rows, scratch)
        if mu and a:
            correct(values, rows, left, right, right is left, first, last, weight, sign * mu * mu)
        square = (len(rows), len(rows))
        left_gram = gram(l_rows, scratch.take("left gram", square, left.dtype))
        right_gram = left_gram
        if right is not left:
            right_gram = gram(r_rows, scratch.take("right gram", square, left.dtype))
        net = np.zeros(len(rows))
        one_loss, one_updates = sweep(
            left_gram, right_gram, lam * lam, mu * mu, codes[rows], places.reshape(-1, 2), norms[part], values, sign,
            margins[part], C[part], parts.step.code, parts.step.constants, taus[part], net,
            gaps[part], None if stream.scale is None else stream.scale[part],
        )  # fmt: skip
        weight[rows] += net
        if lam and one_updates:
            state.move_shared(l_rows, r_rows, sign * lam * net, scratch)
        loss, updates = loss + one_loss, updates + one_updates
    if mu and updates:
        state.move_local(left, right, segments, sign * mu * weight, scratch)
    return loss, updates


def _soft_block(
    parts: Parts, state: Dense, stream: Stream, start: int, stop: int, scratch: Scratch
) -> tuple[float, int]:
    """Triplets start to stop where a candidate has a share pi_r in each region r: T = lam^2 + mu^2 <pi, pi'>."""
    triplets = stream.triplets[start:stop]
    anchors, candidates, _, members = distinct_pairs(triplets, np.zeros((len(triplets), 2), np.int32))
    lam, mu, sign = parts.locality.lam, parts.locality.mu, parts.measure.sign
    left, right = parts.measure.factors(stream.X, anchors, candidates, stream.factor, scratch)
    shares = stream.codes[candidates]  # type: ignore[index]
    members_of = [np.flatnonzero(share) for share in shares.T]
    values = lam * state.shared_values(left, right, scratch)
    for region, rows in enumerate(members_of):
        if len(rows):
            one = [(region, slice(0, len(rows)))]
            values[rows] += mu * shares[rows, region] * state.local_values(left[rows], right[rows], one, scratch)
    square = (len(anchors), len(anchors))
    left_gram = gram(left, scratch.take("left gram", square, left.dtype))
    right_gram = left_gram if right is left else gram(right, scratch.take("right gram", square, left.dtype))
    weight, taus = np.zeros(len(anchors)), _taus(stream, start, stop)
    loss, updates = soft_sweep(
        left_gram, right_gram, lam * lam + mu * mu * shares @ shares.T, members,
        parts.measure.norms(stream.X, triplets, stream.factor), values, sign, _margins(parts, stream, start, stop),
        _aggressiveness(parts, stream, start, stop), parts.step.code, parts.step.constants, taus, weight,
        _gaps(stream, start, stop), stream.scale,
    )  # fmt: skip
    if updates:
        state.move_shared(left, right, sign * lam * weight, scratch)
        for region, rows in enumerate(members_of):
            if len(rows):
                moved = sign * mu * weight[rows] * shares[rows, region]
                state.move_local(left[rows], right[rows], [(region, slice(0, len(rows)))], moved, scratch)
    return loss, updates


def _bounds(segments: list[tuple[int, slice]], n: int) -> tuple[Array, Array]:
    """For each pair, where the pairs of its class begin and end; nowhere for pairs without a class."""
    first, last = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for code, part in segments:
        if code >= 0:
            first[part], last[part] = part.start, part.stop
    return first, last


def _constrained_block(parts: Parts, state: Dense, stream: Stream, start: int, stop: int) -> tuple[float, int]:
    """Triplets start to stop one by one, every step ending inside the cone (spec.md 3 and 6.2); distances only."""
    triplets = stream.triplets[start:stop]
    codes, before = candidate_codes(parts, stream, triplets), state.n_slots
    slots = state.ensure(codes)
    C, taus, gaps = _aggressiveness(parts, stream, start, stop), _taus(stream, start, stop), _gaps(stream, start, stop)
    norms, margins = parts.measure.norms(stream.X, triplets, stream.factor), _margins(parts, stream, start, stop)
    total, updates = 0.0, 0
    for t, triplet in enumerate(triplets):
        blocks = _psi(parts.locality, state, stream, triplet, *slots[t])
        gaps[t] = gap = margins[t] + _inner(blocks)
        total += max(float(gap), 0.0)
        norm = squared_norm(parts.locality.lam**2, parts.locality.mu**2, *slots[t], *norms[t])
        if parts.psd.word == "exact":
            limit = np.inf if parts.step.name == "pa" and C[t] > 0 else float(C[t])
            taus[t] = exact_tau(blocks, float(margins[t]), limit) if norm > 0 else 0.0
        else:
            taus[t] = step_size(parts.step.code, float(gap), norm, C[t], *parts.step.constants)
        if taus[t] > 0:
            updates += 1
            for matrix, vectors, signs in blocks:
                matrix -= (taus[t] * (vectors.T * signs) @ vectors).astype(matrix.dtype)
                project_one(matrix)
    state.release(before, codes, taus)
    return total, updates


def _psi(
    locality: Locality, state: Dense, stream: Stream, triplet: Array, i: int, j: int
) -> list[tuple[Array, Array, Array]]:
    """Psi of one triplet as (matrix, vectors, signed weights) for each matrix it touches (spec.md 0)."""
    lam, mu = locality.lam, locality.mu
    pair = (stream.X[triplet[0]] - stream.X[triplet[1:]]) * stream.X.dtype.type(stream.factor)
    both = np.array([1.0, -1.0])
    blocks = [(state.shared, pair, lam * both)] if lam else []
    if i == j and i >= 0:
        blocks.append((state.stack[i], pair, mu * both))
    else:
        blocks += [(state.stack[s], pair[[k]], mu * both[[k]]) for k, s in enumerate((i, j)) if s >= 0]
    return blocks


def _inner(blocks: list[tuple[Array, Array, Array]]) -> float:
    """<Theta, Psi>."""
    return float(sum(signs @ row_products(v @ m, v) for m, v, signs in blocks))
