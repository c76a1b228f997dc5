"""How a learner of LogDet geometry takes a block of triplets (theory 8 and 10).

Steps add to inverses: a block turns M^-1 into M^-1 + sum_r w_r v_r v_r^T, w_r the net step of the pair v_r. With an
orthonormal basis Q of the block's pairs, v_r = Q c_r, all that the steps ask of M is S = Q^T M Q: the block is learned
on the small S and the coordinates c_r. The net steps then move M itself by matrix products: what has a positive one
shrinks M, M -= F F^T, then what has a negative one grows it, M += F F^T, with F in the image M Q.

Theory 10 takes the pairs themselves as the basis. An orthonormal one makes the small problem as stable as the large
one, even if pairs repeat or depend on each other. Every class matrix has a basis of its own, of the pairs of its class.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, blas, lapack, qr

from ..._compiled.fading import fading_sweep
from ..._compiled.groups import Theta
from ..._compiled.logdet import Spans, logdet_sweep
from ..._compiled.members import distinct_pairs
from ..._compiled.scratch import Scratch
from ..._core.choice import Choice
from ..._core.loop import Block
from ..._core.stream import Stream, answers, asked, candidate_codes
from ..._typing import Array
from ..dense.matrices import Matrices, PairRows, segments_of

# Up to this dimension learning on the matrices themselves beats blocks if a triplet brings half a new pair; the
# bound grows with that number, and with the number of classes, each of which has matrix products of its own (measured).
DIRECT_DIMENSION = 170
# Such a chunk of triplets gathers about this many numbers of pairs first.
DIRECT_CHUNK = 1 << 16
# Pairs are independent if each keeps this share of its squared length off the span of those before it.
INDEPENDENT = 1e-4


def plan(choice: Choice, state: Matrices, stream: Stream, block: int | str) -> tuple[Block, int]:
    """How to learn a stretch of triplets by LogDet steps, and how many at a time."""
    one, size = _way(choice, stream, block)
    return partial(one, choice, state, stream), size


def _way(choice: Choice, stream: Stream, block: int | str) -> tuple[Callable[..., Any], int]:
    d = stream.X.shape[1]
    if choice.forget:
        return partial(_fading, scratch=Scratch()), DIRECT_CHUNK
    if block != "auto":
        return partial(_block, scratch=Scratch()), min(int(block), max(d // 2, 1))
    head = stream.triplets[:1024]
    codes = candidate_codes(choice, stream, head)
    pairs = len(distinct_pairs(head, codes)[0]) / len(head)
    if d <= DIRECT_DIMENSION * (2.0 * pairs) ** 0.6 * (1.0 + len(np.unique(codes)) / 60):
        return partial(_direct, scratch=Scratch()), max(256, DIRECT_CHUNK // d)
    size = max(64, d // 4 if choice.locality.is_local else d // 8)
    return partial(_block, scratch=Scratch()), max(1, int(size / pairs))


def _direct(
    choice: Choice, state: Matrices, stream: Stream, start: int, stop: int, scratch: Scratch
) -> tuple[float, int]:
    """Triplets start to stop on the matrices themselves, in float64; float32 ones are rounded once per call."""
    rows, codes, members = _pairs(choice, stream, start, stop, scratch)
    before, slots, (n, d, _) = state.n_slots, state.allocate(codes), state.stack.shape
    rows, shared, stack = (array.astype(np.float64, copy=False) for array in (rows, state.shared, state.stack))
    spans = Spans(shared, stack.reshape(-1), np.arange(n) * d * d, np.full(n, d), slots)
    loss, updates, weight = _sweep(logdet_sweep, choice, stream, start, stop, members, rows, rows, spans)
    if shared is not state.shared and updates:
        state.shared[...], state.stack[...] = shared, stack
    state.drop_untouched(before, codes, weight)
    return loss, updates


def _fading(
    choice: Choice, state: Matrices, stream: Stream, start: int, stop: int, scratch: Scratch
) -> tuple[float, int]:
    """Triplets start to stop on inverses, which decay toward that of the start."""
    rows, codes, members = _pairs(choice, stream, start, stop, scratch)
    before, slots = state.n_slots, state.allocate(codes)
    matrices = state.shared, *state.stack[: state.n_slots]
    inverses = np.array([_inverse(matrix) for matrix in matrices])
    inside = Theta(inverses[0], inverses[1:], slots)
    fading = rows.astype(np.float64, copy=False), inside, _inverse(state.start), choice.forget
    loss, updates, weight = _sweep(fading_sweep, choice, stream, start, stop, members, *fading)
    for matrix, inverse in zip(matrices, inverses, strict=True):
        matrix[...] = _inverse(inverse)
    state.drop_untouched(before, codes, weight)
    return loss, updates


def _inverse(matrix: Array) -> Array:
    inverse = np.linalg.inv(matrix.astype(np.float64))
    return (inverse + inverse.T) / 2


def _block(
    choice: Choice, state: Matrices, stream: Stream, start: int, stop: int, scratch: Scratch
) -> tuple[float, int]:
    """Triplets start to stop in the coordinates of what their pairs span."""
    rows, codes, members = _pairs(choice, stream, start, stop, scratch)
    shared = Span(state.shared, rows)
    classes = [(code, part, Span(state.local(code), rows[part])) for code, part in segments_of(codes) if code >= 0]
    coordinates, *local = _side_by_side(classes, len(rows))
    matrices = shared.coordinates, coordinates, Spans(shared.small.copy(), *local)
    loss, updates, weight = _sweep(logdet_sweep, choice, stream, start, stop, members, *matrices)
    if not updates:
        return loss, updates
    try:
        factors, signs = shared.factors(choice.locality.lam * weight)
        moves = [(code, span.factors(choice.locality.mu * weight[part])) for code, part, span in classes]
    except LinAlgError:  # a growth beyond the precision of the products
        state.symmetrize()
        return _direct(choice, state, stream, start, stop, scratch)
    state.move_shared(PairRows(factors, factors, scratch), signs)
    for code, (factors, signs) in moves:
        if len(signs):
            state.move_local(PairRows(factors, factors, scratch), [(code, slice(0, len(signs)))], signs)
    return loss, updates


class Span:
    """A matrix M as some pairs see it: `images` Q^T M, `small` Q^T M Q, and the pairs' coordinates in the basis Q.

    If the pairs are clearly independent, Q is orthonormal under M itself, by Cholesky's factor of their forms; else
    in the plain sense, by Householder's reflections.
    """

    def __init__(self, matrix: Array, pairs: Array) -> None:
        single = matrix.dtype == np.float32
        images = _product(matrix, pairs)
        lower, failed = (lapack.spotrf if single else lapack.dpotrf)(images @ pairs.T, lower=1, clean=1)
        distances = np.square(lower).sum(axis=1)
        if not failed and (np.square(lower.diagonal()) > INDEPENDENT * distances).all():
            self.coordinates = np.ascontiguousarray(lower, np.float64)
            self.small = np.eye(len(pairs))
            self.images = _solved(lower, images)
            return
        basis, coordinates = qr(pairs.T, mode="economic", check_finite=False)
        self.coordinates = np.ascontiguousarray(coordinates.T, np.float64)
        self.images = _product(matrix, basis.T)
        small = (self.images @ basis).astype(np.float64)
        self.small = (small + small.T) / 2

    def factors(self, weight: Array) -> tuple[Array, Array]:
        """Rows f and signs s with M - sum_k s_k f_k f_k^T the inverse of M^-1 + sum_r weight_r v_r v_r^T.

        With G = sqrt(|w|) C: Woodbury's identity for the positive weights, then for the negative ones.
        """
        scaled = np.sqrt(np.abs(weight))[:, None] * self.coordinates
        shrink, grow = scaled[weight > 0], scaled[weight < 0]
        down = _whitened(shrink @ self.small @ shrink.T, shrink)
        mapped = down @ self.small
        met = grow @ mapped.T
        up = _whitened(met @ met.T - grow @ self.small @ grow.T, grow - met @ down)
        factors = np.concatenate([down, up]).astype(self.images.dtype) @ self.images
        return factors, np.repeat([1.0, -1.0], [len(down), len(up)])


def _product(matrix: Array, rows: Array) -> Array:
    """rows M; of a symmetric M learning keeps the upper triangle alone up to date."""
    symm = blas.ssymm if matrix.dtype == np.float32 else blas.dsymm
    return symm(1.0, matrix.T, rows.T, lower=1).T


def _whitened(form: Array, rows: Array) -> Array:
    """L^-1 rows, L L^T = I + form."""
    form[np.diag_indices_from(form)] += 1.0
    lower, failed = lapack.dpotrf(form, lower=1)
    if failed:
        raise LinAlgError("not positive definite")
    return _solved(lower, rows)


def _solved(lower: Array, rows: Array) -> Array:
    """lower^-1 rows."""
    trsm = blas.strsm if rows.dtype == np.float32 else blas.dtrsm
    return trsm(1.0, lower, rows.T, side=1, lower=1, trans_a=1).T


def _pairs(choice: Choice, stream: Stream, start: int, stop: int, scratch: Scratch) -> tuple[Array, Array, Array]:
    """The distinct pairs p - q sorted by class, their class codes, and the two pairs of each triplet."""
    triplets = stream.triplets[start:stop]
    anchors, candidates, codes, members = distinct_pairs(triplets, candidate_codes(choice, stream, triplets))
    rows, _ = choice.measure.factors(stream.X, anchors, candidates, stream.factor, scratch)
    return rows, codes, members


def _side_by_side(classes: list[tuple[int, slice, Span]], n: int) -> tuple[Array, Array, Array, Array, Array]:
    """Class matrices of different sizes as the sweep takes them: coordinates, matrices, begins, sizes, slots."""
    size = np.array([len(span.small) for _, _, span in classes], np.int64)
    coordinates, slots = np.zeros((n, int(size.max(initial=0)))), np.full(n, -1, np.int32)
    for slot, (_, part, span) in enumerate(classes):
        coordinates[part, : size[slot]], slots[part] = span.coordinates, slot
    flat = np.concatenate([np.empty(0), *(span.small.ravel() for _, _, span in classes)])
    return coordinates, flat, np.cumsum(size * size) - size * size, size, slots


def _sweep(
    loop: Callable[..., Any], choice: Choice, stream: Stream, start: int, stop: int, members: Array, *matrices: Any
) -> Any:
    """(loss, updates, net step of each pair) of triplets start to stop."""
    weight, norms = (
        np.zeros(len(matrices[0])),
        choice.measure.norms(stream.X, stream.triplets[start:stop], stream.factor),
    )
    loss, updates = loop(
        asked(choice, stream, start, stop, members, norms), *matrices, choice.locality.kernel,
        choice.step.name == "pa2", answers(stream, start, stop, weight),
    )  # fmt: skip
    return loss, updates, weight
