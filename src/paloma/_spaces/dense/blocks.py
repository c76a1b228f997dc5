"""How dense matrices take a stretch of triplets: in exact blocks (theory 10), fused, over non-zeros, or one by one.

A block computes pair values and Gram matrices by matrix products, runs one short sequential sweep for the step sizes,
and moves each matrix by one product.
"""

from functools import partial
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..._compiled.groups import Out, Pairs, Rows, Theta, Triplets
from ..._compiled.members import distinct_pairs, members_of_parts
from ..._compiled.scratch import Scratch
from ..._compiled.soft import soft_sweep
from ..._compiled.sparse import Csr, sparse_move, sparse_norms, sparse_stream, sparse_sweep, sparse_values
from ..._compiled.steps import squared_norm, step_size
from ..._compiled.stream import distance_stream, similarity_stream, working
from ..._compiled.sweep import correct, sweep
from ..._compiled.vectors import is_ragged
from ..._core.choice import Choice
from ..._core.cone import exact_tau, project_one
from ..._core.locality import Locality
from ..._core.loop import Averages, Block, Unbroken
from ..._core.stream import (
    Stream,
    aggressiveness,
    answers,
    asked,
    candidate_codes,
    is_soft,
    margins_of,
)
from ..._rows import row_products
from ..._threads import in_threads
from ..._typing import Array
from .decay import forgetting, horizon
from .matrices import NARROW, Matrices, PairRows, class_grams, gram, segments_of
from .points import OF_CLASS, points_block, points_of

# Up to this dimension (by item size) the fused per-triplet loop beats blocks if a triplet brings half a new pair;
# the bound grows with that number (measured). The second one is for distances.
STREAM_DIMENSION = {8: 52, 4: 65}
FUSED_DISTANCES = {8: 50, 4: 55}
# Pairs after which U is brought up to date by products of our own.
NARROW_INNER = 128
# Matrices of at most so many bytes stay in caches.
CACHE = 1 << 24
# The pairs of a block, of very many classes, may be so many numbers.
GATHERED = 1 << 22
# The rows of U are passed over in so many parts, which threads share, by blocks of CSR rows.
SPARSE_PARTS = 8
# The fused loop works through this many triplets per call, so that progress can be shown.
STREAM_CHUNK = 1 << 16


def plan(choice: Choice, state: Matrices, stream: Stream, block: int | str) -> tuple[Block, int]:
    """How to learn a stretch of triplets on dense matrices, and how many at a time."""
    one, size = _way(choice, stream, block)
    if choice.forget:
        return partial(forgetting(one), choice, state, stream), min(size, horizon(choice.forget))
    learn = partial(one, choice, state, stream)
    return (Unbroken(learn) if one.func in (_exact_block, points_block) else learn), size


def _way(choice: Choice, stream: Stream, block: int | str) -> tuple[partial[tuple[float, int]], int]:
    if sp.issparse(stream.X):
        size = _sparse_size(stream) if block == "auto" else int(block)
        return (
            (partial(_sparse_block), STREAM_CHUNK)
            if choice.locality.is_local or not size
            else (partial(_sparse_shared_block), size)
        )
    if choice.psd.sequential:
        return partial(constrained_block), 64
    if is_soft(stream):
        size = auto_blocks(stream.X.shape[1], 1)[0] // 2 if block == "auto" else int(block)
        return partial(_soft_block, scratch=Scratch()), size
    if block != "auto":
        return partial(_exact_block, inner=int(block), scratch=Scratch()), 4 * int(block)
    head = stream.triplets[: STREAM_CHUNK // 64]
    pairs = np.unique(head[:, :1] * len(stream.X) + head[:, 1:]).size / len(head)
    if _is_fused(choice, stream.X, pairs):
        return partial(_stream_block), STREAM_CHUNK
    classes = len(np.unique(candidate_codes(choice, stream, head)))
    points = None if choice.psd.every else points_of(choice, stream, pairs, classes)
    if points is not None:
        inner = int(points.between / pairs)
        size = max(inner, int(OF_CLASS * classes / pairs))
        return partial(points_block, points=points, inner=inner, scratch=Scratch()), size
    d = stream.X.shape[1]
    inner, outer = auto_blocks(d, classes)
    if choice.measure.is_distance and d < NARROW:
        inner = NARROW_INNER
    return partial(_exact_block, inner=max(1, int(inner / pairs)), scratch=Scratch()), int(outer / pairs)


def _is_fused(choice: Choice, X: Array, pairs: float) -> bool:
    """Whether the fused loop beats blocks if a triplet brings so many new pairs."""
    d, size = X.shape[1], X.dtype.itemsize
    if not choice.measure.is_distance:
        return d <= STREAM_DIMENSION[size] * (2.0 * pairs) ** 0.75
    bound = FUSED_DISTANCES[size] * (2.0 * pairs) ** 0.9 * (1.0 if choice.locality.is_local else 1.6)
    return bool(d <= bound * (0.75 if is_ragged(d, X.dtype) else 1.0))


def auto_blocks(d: int, n_classes: int) -> tuple[int, int]:
    """Pairs after which U, and the class matrices, are brought up to date.

    Few enough that Gram matrices stay small against U, enough that each class's matrix is worth touching.
    """
    inner = int(np.clip(d // 2, 192, 512))
    return inner, int(np.clip(48 * n_classes, 1920, max(4096, GATHERED // d))) if n_classes > 1 else inner


def _stream_block(choice: Choice, state: Matrices, stream: Stream, start: int, stop: int) -> tuple[float, int]:
    """Triplets start to stop by the fused loop."""
    triplets = stream.triplets[start:stop]
    codes, before = candidate_codes(choice, stream, triplets), state.n_slots
    learned, out, slots = asked(choice, stream, start, stop), answers(stream, start, stop), state.allocate(codes)
    free, ragged = None if (slots >= 0).all() else True, is_ragged(stream.X.shape[1], stream.X.dtype)
    fused, case = (distance_stream, ragged) if choice.measure.is_distance else (similarity_stream, free)
    result = fused(
        learned,
        Rows(stream.X, stream.X.dtype.type(stream.factor), working(stream.X.shape[1], stream.X.dtype)),
        Theta(state.shared, state.stack, slots), choice.locality.kernel, case, choice.step.rule, out, stream.scale,
    )  # fmt: skip
    state.touch(slots)
    state.drop_untouched(before, codes, out.tau)
    return result


def _sparse_block(choice: Choice, state: Matrices, stream: Stream, start: int, stop: int) -> tuple[float, int]:
    """Triplets start to stop of CSR rows by the loop over non-zeros; similarities only."""
    triplets, X = stream.triplets[start:stop], stream.X
    codes, before = candidate_codes(choice, stream, triplets), state.n_slots
    slots, out = state.allocate(codes), answers(stream, start, stop)
    result = sparse_stream(
        asked(choice, stream, start, stop), Csr(X.data, X.indices, X.indptr, stream.factor),
        Theta(state.shared, state.stack, slots), choice.locality.kernel, choice.step.rule,
        out, stream.scale,
    )  # fmt: skip
    state.drop_untouched(before, codes, out.tau)
    return result


def _sparse_size(stream: Stream) -> int:
    """Triplets of an exact block of CSR rows: visits of U weighed against inner products; 0 if U fits into caches.

    Blocks of one stretch are equally long: a short last one would visit U for little.
    """
    X, n = stream.X, len(stream.triplets)
    d, n_nonzero = X.shape[1], max(X.nnz / X.shape[0], 1.0)
    if d * d * X.dtype.itemsize <= CACHE:
        return 0
    n_blocks = ceil(n / np.clip(0.6 * d**1.5 / n_nonzero, 256, STREAM_CHUNK))
    return ceil(n / max(n_blocks, 1)) or 1


def _sparse_shared_block(choice: Choice, state: Matrices, stream: Stream, start: int, stop: int) -> tuple[float, int]:
    """Triplets start to stop of CSR rows by an exact block in which U is passed over twice; no class matrices."""
    triplets, X = stream.triplets[start:stop], stream.X
    p, v = X[triplets[:, 0]], X[triplets[:, 1]] - X[triplets[:, 2]]
    columns = p.tocsc()
    v_begin = np.append(0, np.cumsum(np.bincount(v.indices, minlength=X.shape[1]))).astype(columns.indptr.dtype)
    parts = _row_parts(state.shared, columns)
    differences = Csr(v.data, v.indices, v.indptr, 1.0)
    values = sum(in_threads(lambda part: sparse_values(*part, differences), parts))
    norms = sparse_norms(Csr(X.data, X.indices, X.indptr, stream.factor), triplets)
    weight = np.empty(stop - start)
    result = sparse_sweep(
        asked(choice, stream, start, stop, norms=norms), values,
        (Csr(p.data, p.indices, p.indptr, stream.factor), differences), (columns.indptr, v_begin),
        choice.locality.kernel, choice.step.rule,
        answers(stream, start, stop, weight), stream.scale,
    )  # fmt: skip
    in_threads(lambda part: sparse_move(*part, differences, weight), parts)
    return result


def _row_parts(U: Array, columns: Any) -> list[tuple[Array, Csr]]:
    """Rows of U with the anchors that have their features (CSC), in parts of about as many non-zeros each."""
    edges = np.searchsorted(columns.indptr, np.linspace(0, columns.nnz, SPARSE_PARTS + 1))
    edges[0], edges[-1] = 0, len(U)
    return [(U[a:b], Csr(columns.data, columns.indices, columns.indptr[a : b + 1], 1.0)) for a, b in pairwise(edges)]


def _exact_block(
    choice: Choice, state: Matrices, stream: Stream, start: int, stop: int, averages: Averages | None = None, *,
    inner: int, scratch: Scratch,
) -> tuple[float, int]:  # fmt: skip
    """Triplets start to stop by the exact blocked algorithm of theory 10, on the distinct pairs of the block.

    U is brought up to date after every `inner` triplets, the class matrices once at the end: each has few pairs in a
    block, and what steps did to them meanwhile is a correction among the pairs of one class. So are their averages,
    which are sums of the same pairs (theory 15 V).
    """
    triplets = stream.triplets[start:stop]
    anchors, candidates, codes, members = distinct_pairs(triplets, candidate_codes(choice, stream, triplets))
    lam, mu, sign = choice.locality.lam, choice.locality.mu, choice.measure.sign
    left, right = choice.measure.factors(stream.X, anchors, candidates, stream.factor, scratch)
    pairs = PairRows(left, right, scratch)
    segments = segments_of(codes) if mu else []
    rates, parts = dict(averages or []), _parts(stop - start, inner, averages or [])
    bounds = grams = None
    if segments and len(parts) > 1:
        bounds = _bounds(segments, len(codes))
        left_grams = class_grams(left, segments, "left grams", scratch)
        grams = left_grams, left_grams if right is left else class_grams(right, segments, "right grams", scratch)
    local = mu * state.local_values(pairs, segments)
    norms = choice.measure.norms(stream.X, triplets, stream.factor)
    block, weight, mean_weight = asked(choice, stream, start, stop), np.zeros(len(codes)), np.zeros(len(codes))
    kernel, rule = choice.locality.kernel, choice.step.rule
    taus, gaps, _ = answers(stream, start, stop)
    loss, updates, kept = 0.0, 0, _kept(averages or [], parts)
    used, ends, places = members_of_parts(members, np.array([part.stop for part in parts]), len(codes))
    for part, later, (first, last) in zip(parts, kept, pairwise([0, *ends.tolist()]), strict=True):
        rows = used[first:last]
        l_rows = r_rows = _taken(left, rows, "inner left", scratch)
        if right is not left:
            r_rows = _taken(right, rows, "inner right", scratch)
        some, values = PairRows(l_rows, r_rows, scratch), local[rows]
        if lam:
            values += lam * state.shared_values(some)
        if grams is not None and part.start:
            correct(values, rows, grams, bounds, weight, sign * mu * mu)
        square = (len(rows), len(rows))
        left_gram = gram(l_rows, scratch.take("left gram", square, left.dtype))
        right_gram = left_gram
        if right is not left:
            right_gram = gram(r_rows, scratch.take("right gram", square, left.dtype))
        net = np.zeros(len(rows))
        one_loss, one_updates = sweep(
            Triplets(places[part], block.margins[part], block.C[part], norms[part]),
            Pairs(left_gram, right_gram, codes[rows], values), kernel, sign, rule,
            Out(taus[part], gaps[part], net), None if stream.scale is None else stream.scale[part],
        )  # fmt: skip
        weight[rows] += net
        mean_weight[rows] += (1.0 - later) * net
        if lam and one_updates:
            state.move_shared(some, sign * lam * net)
        if part.stop in rates:
            state.average_shared(rates[part.stop])
        loss, updates = loss + one_loss, updates + one_updates
    if averages:
        state.average_local(1.0 - kept[0], pairs, segments, sign * mu * mean_weight)
    if mu and updates:
        state.move_local(pairs, segments, sign * mu * weight)
    return loss, updates


def _taken(X: Array, rows: Array, name: str, scratch: Scratch) -> Array:
    """These rows of X; without mode="clip" NumPy would copy them twice."""
    return np.take(X, rows, axis=0, out=scratch.take(name, (len(rows), X.shape[1]), X.dtype), mode="clip")


def _soft_block(
    choice: Choice, state: Matrices, stream: Stream, start: int, stop: int, scratch: Scratch
) -> tuple[float, int]:
    """Triplets start to stop where a candidate has a share pi_r in each region r: T = lam^2 + mu^2 <pi, pi'>."""
    triplets = stream.triplets[start:stop]
    anchors, candidates, _, members = distinct_pairs(triplets, np.zeros((len(triplets), 2), np.int32))
    lam, mu, sign = choice.locality.lam, choice.locality.mu, choice.measure.sign
    left, right = choice.measure.factors(stream.X, anchors, candidates, stream.factor, scratch)
    shares = stream.codes[candidates]  # type: ignore[index]
    members_of = [np.flatnonzero(share) for share in shares.T]
    pairs = PairRows(left, right, scratch)
    values = lam * state.shared_values(pairs)
    for region, rows in enumerate(members_of):
        if len(rows):
            some, one = PairRows(left[rows], right[rows], scratch), [(region, slice(0, len(rows)))]
            values[rows] += mu * shares[rows, region] * state.local_values(some, one)
    square = (len(anchors), len(anchors))
    left_gram = gram(left, scratch.take("left gram", square, left.dtype))
    right_gram = left_gram if right is left else gram(right, scratch.take("right gram", square, left.dtype))
    weight, norms = np.zeros(len(anchors)), choice.measure.norms(stream.X, triplets, stream.factor)
    loss, updates = soft_sweep(
        asked(choice, stream, start, stop, members, norms), Pairs(left_gram, right_gram, None, values),
        lam * lam + mu * mu * shares @ shares.T, sign, choice.step.rule,
        answers(stream, start, stop, weight), stream.scale,
    )  # fmt: skip
    if updates:
        state.move_shared(pairs, sign * lam * weight)
        for region, rows in enumerate(members_of):
            if len(rows):
                some, one = PairRows(left[rows], right[rows], scratch), [(region, slice(0, len(rows)))]
                state.move_local(some, one, sign * mu * weight[rows] * shares[rows, region])
    return loss, updates


def _parts(n: int, inner: int, averages: Averages) -> list[slice]:
    """Stretches of at most `inner` of n triplets that also end where averages are taken."""
    edges = sorted({*range(0, n, inner), *(end for end, _ in averages), n})
    return [slice(a, b) for a, b in pairwise(edges)]


def _kept(averages: Averages, parts: list[slice]) -> list[float]:
    """What the averages due from each part on leave of the average before them: the product of 1 - rate."""
    rates, kept, left = dict(averages), [], 1.0
    for part in reversed(parts):
        left *= 1.0 - rates.get(part.stop, 0.0)
        kept.append(left)
    return kept[::-1]


def _bounds(segments: list[tuple[int, slice]], n: int) -> tuple[Array, Array, Array]:
    """For each pair, where the pairs of its class begin and end, and where their Gram matrix begins; 0 without one."""
    first, last, begin = (np.zeros(n, np.int64) for _ in range(3))
    total = 0
    for code, part in segments:
        if code >= 0:
            first[part], last[part], begin[part] = part.start, part.stop, total
            total += (part.stop - part.start) ** 2
    return first, last, begin


def constrained_block(choice: Choice, state: Matrices, stream: Stream, start: int, stop: int) -> tuple[float, int]:
    """Triplets start to stop one by one, every step ending inside the cone (theory 3 and 6.2); distances only."""
    triplets = stream.triplets[start:stop]
    codes, before = candidate_codes(choice, stream, triplets), state.n_slots
    slots, C = state.allocate(codes), aggressiveness(choice, stream, start, stop)
    taus, gaps, _ = answers(stream, start, stop)
    norms, margins = choice.measure.norms(stream.X, triplets, stream.factor), margins_of(choice, stream, start, stop)
    total, updates = 0.0, 0
    for t, triplet in enumerate(triplets):
        blocks = psi(choice.locality, state, stream, triplet, *slots[t])
        gaps[t] = gap = margins[t] + inner(blocks)
        total += max(float(gap), 0.0)
        norm = squared_norm(choice.locality.kernel, *slots[t], *norms[t])
        if choice.psd.word == "exact":
            limit = np.inf if choice.step.name == "pa" and C[t] > 0 else float(C[t])
            taus[t] = exact_tau(blocks, float(margins[t]), limit) if norm > 0 else 0.0
        else:
            taus[t] = step_size(*choice.step.rule, float(gap), norm, C[t])
        if taus[t] > 0:
            updates += 1
            for matrix, vectors, signs in blocks:
                matrix -= (taus[t] * (vectors.T * signs) @ vectors).astype(matrix.dtype)
                project_one(matrix)
    state.drop_untouched(before, codes, taus)
    return total, updates


def psi(
    locality: Locality, state: Matrices, stream: Stream, triplet: Array, i: int, j: int
) -> list[tuple[Array, Array, Array]]:
    """Psi of one triplet as (matrix, vectors, signed weights) for each matrix it touches (theory 0)."""
    lam, mu = locality.lam, locality.mu
    pair = (stream.X[triplet[0]] - stream.X[triplet[1:]]) * stream.X.dtype.type(stream.factor)
    both = np.array([1.0, -1.0])
    blocks = [(state.shared, pair, lam * both)] if lam else []
    if i == j and i >= 0:
        blocks.append((state.stack[i], pair, mu * both))
    else:
        blocks += [(state.stack[s], pair[[k]], mu * both[[k]]) for k, s in enumerate((i, j)) if s >= 0]
    return blocks


def inner(blocks: list[tuple[Array, Array, Array]]) -> float:
    """<Theta, Psi>."""
    return float(sum(signs @ row_products(v @ m, v) for m, v, signs in blocks))
