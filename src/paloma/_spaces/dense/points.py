"""How dense matrices take many triplets of few points: in long blocks, by products on points instead of pairs.

A point is in many pairs. What a matrix makes of the points tells the values of all their pairs, and
sum_k w_k (x_i - x_j)(x_i - x_j)^T = X^T W X with a graph Laplacian W, so that a matrix is read and moved by one product
with the points. That pays if a block has several pairs for each point, and blocks can be that long because the Gram
matrix of all points tells how pairs know each other (theory 10).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import blas

from ..._compiled.dual import Known, Moved, distinct_points, dual_sweep, point_forms, spread_differences, spread_rows
from ..._compiled.groups import Out, Triplets
from ..._compiled.members import distinct_pairs, members_of_parts
from ..._compiled.pairs import differences, paired
from ..._compiled.scratch import Scratch
from ..._core.choice import Choice
from ..._core.loop import Averages
from ..._core.stream import Stream, answers, asked, candidate_codes
from ..._rows import identity_values, squared_norms
from ..._threads import sharing
from ..._typing import Array
from .matrices import NARROW, Forms, Matrices, PairRows, Parts, add_upper, gram, segments_of

# Blocks by points pay for so many points in units of features, if a triplet brings one new pair (measured).
MOST = 8
# The same where pairs have products of our own.
MOST_NARROW = 2
# A Gram matrix of so many numbers is never too large; nor is one no larger than the matrices that are learned.
SMALL = 1 << 24
# Pairs of a class after which its matrix is brought up to date.
OF_CLASS = 2000
# Squared norms of points about their center, in units of what is typical, beyond which sums of products lose digits.
FARTHEST = 64.0
# So many points for each pair, or fewer, take less time than the pairs.
FEWER = 0.75


@dataclass(frozen=True)
class Points:
    """The points of a stream: their center, and the Gram matrix of their deviations from it in units of the scale."""

    center: Array
    gram: Array

    @property
    def between(self) -> int:
        """Pairs after which U is brought up to date: products with all points weighed against sums over pairs."""
        n, d = len(self.gram), len(self.center)
        return max(2 * n, int(0.2 * d * np.sqrt(n)))


def points_of(choice: Choice, stream: Stream, pairs: float, n_classes: int) -> Points | None:
    """The points of a stream, if blocks by points pay for so many new pairs of each triplet; kept with the stream."""
    n, d = stream.X.shape
    most = MOST_NARROW if choice.measure.is_distance and d < NARROW else MOST
    if n * pairs > most * d or pairs * len(stream.triplets) < 2 * n or n * n > max(SMALL, (n_classes + 1) * d * d):
        return None
    if stream.points is None:
        center = stream.X.mean(axis=0) if choice.measure.is_distance else np.zeros(d, stream.X.dtype)
        rows = (stream.X - center) * stream.X.dtype.type(stream.factor)
        if not squared_norms(rows).max() <= FARTHEST * choice.measure.typical:
            return None
        stream.points = Points(center, gram(rows, np.empty((n, n), rows.dtype)))
    return stream.points


@dataclass(frozen=True)
class PointPairs:
    """Pairs of points, as matrices ask for them (`AnyPairs`); points are given about their center."""

    stream: Stream
    center: Array
    anchors: Array
    candidates: Array
    scratch: Scratch

    def __len__(self) -> int:
        return len(self.anchors)

    def taken(self, rows: Array | slice) -> "PointPairs":
        """These pairs."""
        return replace(self, anchors=self.anchors[rows], candidates=self.candidates[rows])

    def forms(self, parts: Forms, symmetric: bool) -> Array:
        with self._sharing(parts):
            return np.concatenate([self.taken(part)._values(matrix, symmetric) for matrix, part in parts])

    def subtract(self, parts: Parts, weight: Array, symmetric: bool) -> None:
        with self._sharing(parts):
            for matrix, part in parts:
                moved = part.start + np.flatnonzero(weight[part])
                self.taken(moved)._move(matrix, weight[moved], symmetric)

    def _sharing(self, parts: Sequence[Any]) -> AbstractContextManager[None]:
        """A part has at most as many points as its share of all of them, or as it has pairs."""
        n, d = self.stream.X.shape
        return sharing(min(len(self), n) // max(1, len(parts)), d, d)

    def _values(self, matrix: Array | None, symmetric: bool) -> Array:
        X, factor = self.stream.X, self.stream.factor
        if matrix is None:
            return factor * factor * identity_values(X, self.anchors, self.candidates, symmetric)
        rows, ends = self._points(symmetric)
        if ends is None:
            return PairRows(rows, rows, self.scratch).forms([(matrix, slice(0, len(self)))], symmetric)
        product = self.scratch.take("product", rows.shape, rows.dtype)
        if not symmetric:
            return factor * paired(np.matmul(rows, matrix, out=product), X, ends[0], self.candidates)
        np.copyto(product, rows)
        trmm = blas.strmm if rows.dtype == np.float32 else blas.dtrmm
        trmm(1.0, matrix.T, product.T, lower=1, overwrite_b=1)
        return point_forms(product, rows, ends, matrix.diagonal().copy())

    def _move(self, matrix: Array, weight: Array, symmetric: bool) -> None:
        rows, ends = self._points(symmetric)
        if ends is None:
            PairRows(rows, rows, self.scratch).subtract([(matrix, slice(0, len(self)))], weight, symmetric)
            return
        spread = self.scratch.take("product", rows.shape, rows.dtype)
        if symmetric:
            spread_differences(rows, ends, weight, spread)
            add_upper(matrix, rows, spread, -1.0)
        else:
            spread_rows(self.stream.X, ends[0], self.candidates, self.stream.factor * weight, spread)
            gemm = blas.sgemm if rows.dtype == np.float32 else blas.dgemm
            gemm(-1.0, spread.T, rows.T, beta=1.0, c=matrix.T, trans_b=1, overwrite_c=1)

    def _points(self, symmetric: bool) -> tuple[Array, Array | None]:
        """For a distance the points and both places of each pair among them, or the differences if those are fewer.

        For a similarity the anchors, and the places of each pair's anchor.
        """
        X, factor = self.stream.X, self.stream.X.dtype.type(self.stream.factor)
        points, ends = distinct_points(self.anchors, self.candidates if symmetric else self.anchors, len(X))
        by_points = not symmetric or len(points) <= FEWER * len(self)
        rows = self.scratch.take("rows", (len(points) if by_points else len(self), X.shape[1]), X.dtype)
        if not by_points:
            differences(X, self.anchors, self.candidates, factor, rows)
            return rows, None
        np.take(X, points, axis=0, out=rows, mode="clip")
        rows -= self.center
        rows *= factor
        return rows, ends


def points_block(
    choice: Choice, state: Matrices, stream: Stream, start: int, stop: int, averages: Averages | None = None, *,
    points: Points, inner: int, scratch: Scratch,
) -> tuple[float, int]:  # fmt: skip
    """Triplets start to stop: U is brought up to date after every `inner` triplets, the class matrices at the end.

    Averages inside a part, or inside the block, are sums of the same pairs (theory 15 V).
    """
    triplets = stream.triplets[start:stop]
    anchors, candidates, codes, members = distinct_pairs(triplets, candidate_codes(choice, stream, triplets))
    pairs, n = PointPairs(stream, points.center, anchors, candidates, scratch), len(codes)
    lam, mu, sign = choice.locality.lam, choice.locality.mu, choice.measure.sign
    segments = segments_of(codes) if mu else []
    local, begin = mu * state.local_values(pairs, segments), np.full(n, -1, np.int64)
    for code, of_class in segments:
        if code >= 0:
            begin[of_class] = of_class.start
    known = Known(points.gram, anchors.astype(np.int32), candidates.astype(np.int32), codes, begin, np.empty(n))
    moved = Moved(
        np.full(n, -1, np.int32), np.empty((2, n), np.int32), np.empty(n, stream.X.dtype), np.zeros(n, np.int64)
    )
    norms, block = choice.measure.norms(stream.X, triplets, stream.factor), asked(choice, stream, start, stop)
    (taus, gaps, _), kept = answers(stream, start, stop), _kept(averages or [], 0, stop - start)
    weight, mean_weight, loss, updates = np.zeros(n), np.zeros(n), 0.0, 0
    edges = [*range(0, stop - start, inner), stop - start]
    used, ends, places = members_of_parts(members, np.array(edges[1:]), n)
    for (a, b), (first, last) in zip(pairwise(edges), pairwise([0, *ends.tolist()]), strict=True):
        part, rows = slice(a, b), used[first:last]
        some, scale = pairs.taken(rows), None if stream.scale is None else stream.scale[part]
        known.values[rows] = local[rows]
        if lam:
            known.values[rows] += lam * state.shared_values(some)
        one_loss, one_updates = dual_sweep(
            Triplets(members[part], block.margins[part], block.C[part], norms[part]), known, moved,
            choice.locality.kernel, sign, choice.step.rule, Out(taus[part], gaps[part]), scale,
        )  # fmt: skip
        loss, updates = loss + one_loss, updates + one_updates
        steps = taus[part] if scale is None else taus[part] / scale
        net = _net(places[part], steps, len(rows))
        weight[rows] += net
        if averages:
            mean_weight[rows] += _net(places[part], (1.0 - kept[part]) * steps, len(rows))
            here = _kept(averages, a, b)
            mean_net = _net(places[part], (1.0 - here[:-1]) * steps, len(rows))
            state.average_shared(1.0 - here[0], some, sign * lam * mean_net)
        if lam and one_updates:
            state.move_shared(some, sign * lam * net)
    if averages:
        state.average_local(1.0 - kept[0], pairs, segments, sign * mu * mean_weight)
    if mu and updates:
        state.move_local(pairs, segments, sign * mu * weight)
    return loss, updates


def _kept(averages: Averages, start: int, stop: int) -> Array:
    """What the averages due after each of the triplets start to stop leave of the average before them; 1 at the end."""
    kept = np.ones(stop - start + 1)
    for end, rate in averages:
        if start < end <= stop:
            kept[: end - start] *= 1.0 - rate
    return kept


def _net(places: Array, steps: Array, n: int) -> Array:
    """The net step of each of n pairs: a step moves the positive pair of its triplet, and the negative one back."""
    return np.bincount(places[:, 0], steps, n) - np.bincount(places[:, 1], steps, n)
