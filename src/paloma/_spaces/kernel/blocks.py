"""Exact blocks in index space: the learning loop of kernel learners (theory 10, inner products replaced by k).

A block needs kernel values of its points with the support, the forms k_p^T S k_q of its pairs, and kernel values among
its points; the sweep then gives the steps of every kernel, one triplet after the other. The iterates do not depend on
where blocks begin and end.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..._compiled.groups import Out, Pairs, Triplets
from ..._compiled.index import Budget, Hedging, gather, index_sweep
from ..._core.choice import Choice
from ..._core.hedge import Hedge
from ..._core.loop import Block
from ..._core.stream import Stream, aggressiveness
from ..._typing import Array
from .support import Support

# Distinct pairs of a block, so that its matrices stay small.
BLOCK_PAIRS = 384
# Values are tied if they differ by this many units of rounding: a tie that rounding broke must not depend on blocks.
TIE = 1024.0
# Triplets whose pairs are counted to choose a block.
HEAD = 1024


@dataclass
class Work:
    """A support at work on one stream: what the loop moves, and what a block needs beside it.

    judging : whether the triplets are new, so that mistakes on them count for Hedge.
    draws : (n, n_kernels) numbers in [0, 1) that decide which kernels learn from which triplet, or none at all: all do.
    numbered, members : the points and the pairs of each triplet, see `Support.enter`.
    """

    index: Support
    hedge: Hedge
    judging: bool
    delta: float
    draws: Array
    seen: int
    numbered: Array
    members: Array

    def project(self) -> None:
        """There is not a matrix to project: psd is never anything but "never"."""

    def average(self, rate: float) -> None:
        self.index.pairs.means += rate * (self.index.pairs.steps - self.index.pairs.means)


def plan(choice: Choice, work: Work, stream: Stream, block: int | str) -> tuple[Block, int]:
    """How to learn a stretch of triplets, and how many at a time."""
    size = _block_size(work.members) if block == "auto" else int(block)
    return partial(_index_block, choice, work.index, stream, one_pass=work), size


def _block_size(members: Array) -> int:
    head = members[:HEAD]
    return max(1, BLOCK_PAIRS * len(head) // len(np.unique(head)))


def _index_block(
    choice: Choice, index: Support, stream: Stream, start: int, stop: int, one_pass: Work
) -> tuple[float, int]:
    """Triplets start to stop; if the support is full, it forgets and the rest is computed again."""
    loss, updates = 0.0, 0
    while start < stop:
        done, one_loss, steps = _stretch(choice, index, stream, start, stop, one_pass)
        loss, updates, start = loss + one_loss, updates + steps, start + done
        if start < stop:
            index.forget()
    return loss, updates


def _stretch(
    choice: Choice, index: Support, stream: Stream, start: int, stop: int, one_pass: Work
) -> tuple[int, float, int]:
    """Triplets from start on, until the support has no room: (how many, their loss, steps taken)."""
    pairs, places = np.unique(one_pass.members[start:stop], return_inverse=True)
    points, rows = np.unique(one_pass.numbered[start:stop], return_inverse=True)
    rows = rows.reshape(-1, 3)
    left, right = (np.searchsorted(points, p[pairs]) for p in (index.pairs.anchors, index.pairs.candidates))
    n, m = stop - start, len(index.kernels)
    codes = index.pairs.codes[pairs]
    grams = [index.gram(r, points) for r in range(m)]
    values = np.array([_values(choice, index, r, points, codes, left, right, grams[r]) for r in range(m)])
    owns = [index.selfs(r, points) for r in range(m)]
    lefts, rights = _pair_grams(grams, owns, left, right, index.distances)
    norms = np.array([_norms(index, r, points, rows, grams[r]) for r in range(m)])
    (tau, ranks), (mistakes, taking_part) = np.zeros((2, n, m)), np.zeros((2, n, m), bool)
    weight, hedge = np.zeros((m, len(pairs))), one_pass.hedge
    C, margins = aggressiveness(choice, stream, start, stop), np.full(n, choice.margin)
    hedging = Hedging(
        hedge.losses.copy(), hedge.log_betas(n), one_pass.judging, one_pass.delta, one_pass.draws[start:stop],
        float(TIE * np.finfo(index.dtype).eps), mistakes, taking_part,
    )  # fmt: skip
    done, steps = index_sweep(
        Triplets(places.reshape(-1, 2), margins, C, norms), Pairs(lefts, rights, codes, values),
        choice.locality.kernel, choice.measure.sign, choice.step.rule, hedging,
        Budget(rows, index.held[points], index.room, index.forgetting), Out(tau, ranks, weight),
    )  # fmt: skip
    if not done:
        return 0, 0.0, 0
    weights = hedge.play(mistakes[:done], taking_part[:done]) if one_pass.judging else hedge.weights
    active = np.flatnonzero((tau[:done] != 0).any(axis=1))
    index.pairs.steps[:, pairs] += weight
    index.touch(one_pass.numbered[start + active], one_pass.seen + start + active)
    combined = choice.margin + (weights * ranks[:done]).sum(axis=1)
    if stream.gaps is not None:
        stream.gaps[start : start + done] = combined
    return done, float(np.maximum(combined, 0.0).sum()), steps


def _values(
    choice: Choice, index: Support, r: int, points: Array, codes: Array, left: Array, right: Array, gram: Array
) -> Array:
    """Values of the block's pairs under one kernel, lam U + mu L_c of the candidate's class; lam U without a class."""
    lam, mu = choice.locality.lam, choice.locality.mu
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
        values[_alike(own, gram, left, right)] = 0.0
    return values


def _pair_grams(
    grams: list[Array], owns: list[Array], left: Array, right: Array, distances: bool
) -> tuple[Array, Array]:
    """Factors of the inner products of pairs: k(p, p') and k(q, q'), or twice that of differences (theory 0)."""
    first, second = np.empty((2, len(grams), len(left), len(left)), grams[0].dtype)
    for k, (gram, own) in enumerate(zip(grams, owns, strict=True)):
        gather(gram, left, left, first[k])
        gather(gram, right, right, second[k])
        if distances:
            cross = gram[np.ix_(left, right)]
            first[k] += second[k] - cross - cross.T
            alike = _alike(own, gram, left, right)
            first[k][alike] = first[k][:, alike] = 0.0
    return first, (first if distances else second)


def _norms(index: Support, r: int, points: Array, rows: Array, gram: Array) -> Array:
    """(n_d, n_+, n_-) of each triplet (theory 4, 6.1 and 7), exactly 0 where it should be."""
    own = index.selfs(r, points)
    p, q, n = rows.T
    apart = _squared_gap(own, gram, q, n)
    if not index.distances:
        return np.stack([own[p] * apart, own[p] * own[q], own[p] * own[n]], axis=1)
    a, b = _squared_gap(own, gram, p, q), _squared_gap(own, gram, p, n)
    both = 0.5 * (apart * np.maximum(2.0 * (a + b) - apart, 0.0) + (a - b) ** 2)
    return np.stack([both, a * a, b * b], axis=1)


def _alike(own: Array, gram: Array, i: Array, j: Array) -> Array:
    """Whether points are at kernel distance 0, but for rounding, which must not decide who is near."""
    size = own[i] + own[j]
    return (i == j) | (np.abs(size - 2.0 * gram[i, j]) <= 8.0 * np.finfo(gram.dtype).eps * np.abs(size))


def _squared_gap(own: Array, gram: Array, i: Array, j: Array) -> Array:
    """|phi(x_i) - phi(x_j)|^2; 0 for equal points, and for values that rounding alone could give."""
    size = own[i] + own[j]
    gap = size - 2.0 * gram[i, j]
    return np.where((i == j) | (gap <= 8.0 * np.finfo(gram.dtype).eps * np.abs(size)), 0.0, gap)
