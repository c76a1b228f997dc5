"""Exact blocks in index space: the learning loop of kernel learners (spec.md 10, inner products replaced by k).

A block needs kernel values of its points with the support, the forms k_p^T S k_q of its pairs, and kernel values among
its points; the sweep then gives the steps of every kernel, one triplet after the other. The iterates do not depend on
where blocks begin and end.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._hedge import Hedge
from ._kernels.index import gather, index_sweep
from ._learner import _aggressiveness, learn
from ._parts import Parts, Stream, Tally, candidate_codes
from ._representation import Index

Array = NDArray[Any]
# Distinct pairs of a block, so that its matrices stay small.
BLOCK_PAIRS = 384
# Values are tied if they differ by this many units of rounding: a tie that rounding broke must not depend on blocks.
TIE = 1024.0
# Triplets whose pairs are counted to choose a block.
HEAD = 1024


@dataclass
class Pass:
    """One pass over a stream: triplets as numbers of points and of pairs, and the state of Hedge.

    judging : whether the triplets are new, so that mistakes on them count.
    draws : (n, n_kernels) numbers in [0, 1) that decide which kernels learn from which triplet, or none at all: all do.
    """

    numbered: Array
    members: Array
    hedge: Hedge
    judging: bool
    delta: float
    draws: Array
    seen: int


def learn_indexed(
    parts: Parts,
    index: Index,
    stream: Stream,
    hedge: Hedge,
    *,
    judging: bool = True,
    delta: float = 0.0,
    draws: Array | None = None,
    block: int | str = "auto",
    seen: int = 0,
    **more: Any,
) -> Tally:
    """`learn` on index space; Hedge is played on each triplet's ranking mistakes as it comes."""
    if not len(stream.triplets):
        return Tally()
    codes = candidate_codes(parts, stream, stream.triplets)
    numbered, members = index.enter(stream.X, stream.triplets, codes)
    draws = np.empty((0, len(index.kernels))) if draws is None else draws
    one_pass = Pass(numbered, members, hedge, judging, delta, draws, seen)
    path = (partial(_index_block, one_pass=one_pass), _block_size(members) if block == "auto" else int(block))
    return learn(replace(parts, path=lambda *_: path), index, replace(stream), seen=seen, **more)


def _block_size(members: Array) -> int:
    head = members[:HEAD]
    return max(1, BLOCK_PAIRS * len(head) // len(np.unique(head)))


def _index_block(
    parts: Parts, index: Index, stream: Stream, start: int, stop: int, one_pass: Pass
) -> tuple[float, int]:
    """Triplets start to stop; where the support is full, it forgets and the rest is computed anew."""
    loss, updates = 0.0, 0
    while start < stop:
        done, one_loss, steps = _stretch(parts, index, stream, start, stop, one_pass)
        loss, updates, start = loss + one_loss, updates + steps, start + done
        if start < stop:
            index.forget()
    return loss, updates


def _stretch(
    parts: Parts, index: Index, stream: Stream, start: int, stop: int, one_pass: Pass
) -> tuple[int, float, int]:
    """Triplets from start on, until the support has no room: (how many, their loss, steps taken)."""
    pairs, places = np.unique(one_pass.members[start:stop], return_inverse=True)
    points, rows = np.unique(one_pass.numbered[start:stop], return_inverse=True)
    rows = rows.reshape(-1, 3)
    left, right = (np.searchsorted(points, p[pairs]) for p in (index.pairs.anchors, index.pairs.candidates))
    lam, mu, n, m = parts.locality.lam, parts.locality.mu, stop - start, len(index.kernels)
    codes = index.pairs.codes[pairs]
    grams = [index.gram(r, points) for r in range(m)]
    values = np.array([_values(parts, index, r, points, codes, left, right, grams[r]) for r in range(m)])
    lefts, rights = _pair_grams(grams, left, right, index.distances)
    norms = np.array([_norms(index, r, points, rows, grams[r]) for r in range(m)])
    (tau, ranks), (mistakes, taking_part) = np.zeros((2, n, m)), np.zeros((2, n, m), bool)
    weight, held, margins = np.zeros((m, len(pairs))), index.held[points], np.full(n, parts.margin)
    hedge = one_pass.hedge
    done, steps = index_sweep(
        lefts, rights, lam * lam, mu * mu, codes, places.reshape(-1, 2), norms, values, parts.measure.sign, margins,
        _aggressiveness(parts, stream, start, stop), parts.step.code, parts.step.constants, hedge.losses.copy(),
        hedge.log_betas(n), one_pass.judging, one_pass.delta, one_pass.draws[start:stop], rows, held, index.room,
        index.forgetting, TIE * np.finfo(index.dtype).eps, tau, weight, ranks, mistakes, taking_part,
    )  # fmt: skip
    if not done:
        return 0, 0.0, 0
    weights = hedge.play(mistakes[:done], taking_part[:done]) if one_pass.judging else hedge.weights
    active = np.flatnonzero((tau[:done] != 0).any(axis=1))
    index.move(pairs, weight)
    index.touch(one_pass.numbered[start + active], one_pass.seen + start + active)
    combined = parts.margin + (weights * ranks[:done]).sum(axis=1)
    if stream.gaps is not None:
        stream.gaps[start : start + done] = combined
    return done, float(np.maximum(combined, 0.0).sum()), steps


def _values(
    parts: Parts, index: Index, r: int, points: Array, codes: Array, left: Array, right: Array, gram: Array
) -> Array:
    """Values of the block's pairs under one kernel, lam U + mu L_c of the candidate's class; lam U without a class."""
    lam, mu = parts.locality.lam, parts.locality.mu
    known, steps = index.values_with(r, points), index.pairs.steps[r]
    start = gram[left, right].astype(np.float64)
    if index.distances:
        own = index.selfs(r, points)
        start = own[left] + own[right] - 2.0 * start
    values = index.start * (lam + mu * (codes >= 0)) * start
    if lam:
        values += lam * lam * index.forms(slice(None), steps, known, left, right)
    for code in np.unique(codes[codes >= 0]).tolist() if mu else ():
        part, mine = index.pairs.of_class(code), np.flatnonzero(codes == code)
        values[mine] += mu * mu * index.forms(part, steps[part], known, left[mine], right[mine])
    if index.distances:
        values[left == right] = 0.0
    return values


def _pair_grams(grams: list[Array], left: Array, right: Array, distances: bool) -> tuple[Array, Array]:
    """Factors of the inner products of pairs: k(p, p') and k(q, q'), or twice that of differences (spec.md 0)."""
    first, second = np.empty((2, len(grams), len(left), len(left)), grams[0].dtype)
    for k, gram in enumerate(grams):
        gather(gram, left, left, first[k])
        gather(gram, right, right, second[k])
        if distances:
            cross = gram[np.ix_(left, right)]
            first[k] += second[k] - cross - cross.T
            first[k][left == right] = first[k][:, left == right] = 0.0
    return first, (first if distances else second)


def _norms(index: Index, r: int, points: Array, rows: Array, gram: Array) -> Array:
    """(n_d, n_+, n_-) of each triplet (spec.md 4, 6.1 and 7), exactly 0 where it should be."""
    own = index.selfs(r, points)
    p, q, n = rows.T
    apart = _squared_gap(own, gram, q, n)
    if not index.distances:
        return np.stack([own[p] * apart, own[p] * own[q], own[p] * own[n]], axis=1)
    a, b = _squared_gap(own, gram, p, q), _squared_gap(own, gram, p, n)
    both = 0.5 * (apart * np.maximum(2.0 * (a + b) - apart, 0.0) + (a - b) ** 2)
    return np.stack([both, a * a, b * b], axis=1)


def _squared_gap(own: Array, gram: Array, i: Array, j: Array) -> Array:
    """|phi(x_i) - phi(x_j)|^2; 0 for equal points, and for values that rounding alone could give."""
    size = own[i] + own[j]
    gap = size - 2.0 * gram[i, j]
    return np.where((i == j) | (gap <= 8.0 * np.finfo(gram.dtype).eps * np.abs(size)), 0.0, gap)
