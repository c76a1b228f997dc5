"""Dense matrices: the shared U and one L per class, which exists from the class's first update on."""

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Protocol, Self

import numpy as np
from scipy.linalg import blas

from ..._compiled.dense import mirror_upper, move_toward, quadratic_rows
from ..._compiled.members import signed_rows
from ..._compiled.pairs import scaled_rows
from ..._compiled.prefetch import LINE
from ..._compiled.products import gram_of, row_forms, subtract_rows
from ..._compiled.scratch import Scratch
from ..._core.cone import project
from ..._rows import row_products
from ..._threads import LARGE, sharing
from ..._typing import Array

Segments = list[tuple[int, slice]]
# Matrices, and the pairs that each of them has to do with.
Parts = list[tuple[Array, slice]]
Forms = list[tuple[Array | None, slice]]
# From this many features on, OpenBLAS's symmetric rank-k product may crash if it has several threads.
WIDE, PANEL = 8192, 256
# With fewer features matrices fit into caches, and products of our own beat those of BLAS on one thread (measured).
NARROW = 800


class Matrices:
    """U and the stack of L. A class whose slot is -1 was never updated: its L is still the start.

    Symmetric matrices are updated in their upper triangle alone, by symmetric rank-k products, and read by
    triangular ones, half the work of general products; `symmetrize` restores the lower triangle.
    """

    def __init__(self, start: Array, symmetric: bool) -> None:
        self.start = start
        self.symmetric = symmetric
        self.shared = _on_lines(start.shape, start)
        self.shared[...] = start
        self.stack = np.empty((0, *start.shape), start.dtype)
        self.slots = np.empty(0, np.int32)
        self.n_slots = 0
        self.mean: tuple[Array, Array] | None = None
        self.pending = np.empty(0)  # a slot: decay of L toward the start that is still to be applied
        self._stale: set[int] = set()
        self._averaged = False  # whether averages may have taken in half of a matrix
        self._deviating: list[int] = []

    # -- classes ---------------------------------------------------------------------------------------------

    def slots_of(self, codes: Array) -> Array:
        """Slot of each class code; -1 for class-free (-1) and for classes never updated."""
        return np.append(self.slots, np.int32(-1))[np.minimum(codes, len(self.slots))]

    def own(self) -> Array:
        """Whether each class code has a matrix of its own; the last entry stands for all codes beyond."""
        return np.append(self.slots >= 0, False)

    def allocate(self, codes: Array) -> Array:
        """Give every class in `codes` a matrix of its own, at the start; returns the slots."""
        slots = self.slots_of(codes)
        without = (slots < 0) & (codes >= 0)
        if not without.any():
            return slots
        new = np.unique(codes[without])
        self._grow(int(new[-1]) + 1, self.n_slots + len(new))
        self.slots[new] = np.arange(self.n_slots, self.n_slots + len(new))
        self.n_slots += len(new)
        return self.slots_of(codes)

    def drop_untouched(self, first: int, codes: Array, tau: Array) -> None:
        """Take back the matrices given out since there were `first` that no step (of triplets of `codes`) has moved."""
        if self.n_slots == first:
            return
        kept = np.unique(self.slots_of(codes[tau != 0]))
        kept = kept[kept >= first]
        n_slots = first + len(kept)
        if n_slots == self.n_slots:
            return
        given = np.flatnonzero(self.slots >= first)
        held = np.isin(self.slots[given], kept)
        self._keep_slots(np.concatenate([np.arange(first), kept]))
        self.slots[given] = np.where(held, first + np.searchsorted(kept, self.slots[given]), -1)

    def _keep_slots(self, kept: Array) -> None:
        """The matrices of these slots, in this order, and no others."""
        self.symmetrize()
        n = len(kept)
        for stack in (self.stack, *(self.mean[1:] if self.mean else ())):
            stack[:n] = stack[kept]
            stack[n : self.n_slots] = self.start
        self.pending[:n] = self.pending[kept]
        self.pending[n:] = 1.0
        self.n_slots = n

    def drop(self, new_codes: Array) -> None:
        """Give each class code the new one, -1: none; classes without one lose their matrices."""
        old = np.flatnonzero((self.slots >= 0) & (new_codes[: len(self.slots)] >= 0))
        kept = self.slots[old]
        self._keep_slots(kept)
        self.slots = np.full(int(new_codes.max(initial=-1)) + 1, -1, np.int32)
        self.slots[new_codes[old]] = np.arange(len(old))

    def _grow(self, n_codes: int, n_slots: int) -> None:
        if n_codes > len(self.slots):
            self.slots = np.concatenate([self.slots, np.full(n_codes - len(self.slots), -1, np.int32)])
        if n_slots > len(self.stack):
            room = max(n_slots, len(self.stack) + len(self.stack) // 4)
            self.stack = _taller(self.stack, room, self.start)
            self.pending = np.concatenate([self.pending, np.ones(room - len(self.pending))])
            if self.mean is not None:
                self.mean = (self.mean[0], _taller(self.mean[1], room, self.start))

    def slot(self, code: int) -> int:
        """Slot of one class code, -1 for none."""
        return int(self.slots[code]) if 0 <= code < len(self.slots) else -1

    def local(self, code: int) -> Array:
        """L of one class."""
        slot = self.slot(code)
        if slot >= 0:
            self._catch_up(slot)
        return self.start if slot < 0 else self.stack[slot]

    def grown(self, d: int) -> "Matrices":
        """The same matrices in d dimensions, the identity in the new ones."""
        self.catch_up()
        start, old = np.eye(d, dtype=self.start.dtype), len(self.start)
        start[:old, :old] = self.start
        out = Matrices(start, self.symmetric)
        out.shared[:old, :old] = self.shared
        out.slots, out.n_slots, out.pending = self.slots, self.n_slots, self.pending
        out.stack = _wider(self.stack, start)
        if self.mean is not None:
            out.mean = (_wider(self.mean[0][None], start)[0], _wider(self.mean[1], start))
        return out

    def fork(self) -> Self:
        """A copy to learn from here on."""
        return copy.deepcopy(self)

    @classmethod
    def mixed(cls, states: Sequence["Matrices"], weights: Array) -> Self:
        """Weighted mean of the matrices and of their averages, in the given order; weights sum to 1.

        A class that a state never updated counts there as what it is, the start; a state without averages counts there
        with its last iterates.
        """
        first = states[0]
        out = cls(first.start, first.symmetric)
        out.allocate(np.unique(np.concatenate([np.flatnonzero(s.slots >= 0) for s in states])).astype(np.int32))
        if any(state.mean is not None for state in states):
            out.mean = (first.start.copy(), _taller(out.stack[:0], len(out.stack), out.start))
        for code in (None, *np.flatnonzero(out.slots >= 0).tolist()):
            slot = -1 if code is None else out.slot(code)
            into = out.shared if code is None else out.stack[slot]
            into[...] = _weighted([state.readout(code, 1.0) for state in states], weights)
            if out.mean is not None:
                into = out.mean[0] if code is None else out.mean[1][slot]
                into[...] = _weighted([state.readout(code, 0.0) for state in states], weights)
        return out

    # -- forgetting (see `decay.py`) -------------------------------------------------------------------------

    def to_deviations(self, codes: Array) -> None:
        """U and the L of these classes become their deviations from the start."""
        slots = np.unique(self.allocate(codes))
        self._deviating = slots[slots >= 0].tolist()
        self.shared -= self.start
        for slot in self._deviating:
            self._catch_up(slot)
            self.stack[slot] -= self.start

    def from_deviations(self, factor: float) -> None:
        """Undo `to_deviations` with deviations times `factor`, which the other classes will decay by when next read."""
        self.pending[: self.n_slots] *= factor
        self.pending[self._deviating] = 1.0
        for matrix in (self.shared, *(self.stack[slot] for slot in self._deviating)):
            matrix *= matrix.dtype.type(factor)
            matrix += self.start

    def decay(self, factor: float) -> None:
        """Deviations from the start times `factor`."""
        self.to_deviations(np.empty(0, np.int32))
        self.from_deviations(factor)

    def catch_up(self) -> None:
        """Apply what decay is pending."""
        for slot in np.flatnonzero(self.pending[: self.n_slots] != 1.0).tolist():
            self._catch_up(slot)

    def _catch_up(self, slot: int) -> None:
        if self.pending[slot] != 1.0:
            matrix = self.stack[slot]
            matrix -= self.start
            matrix *= matrix.dtype.type(self.pending[slot])
            matrix += self.start
            self.pending[slot] = 1.0

    # -- learning --------------------------------------------------------------------------------------------

    def shared_values(self, pairs: "AnyPairs") -> Array:
        """<U, phi_r> of each pair."""
        return pairs.forms([(self.shared, slice(0, len(pairs)))], self.symmetric)

    def start_values(self, pairs: "AnyPairs") -> Array:
        """<Theta0, phi_r> of each pair."""
        return pairs.forms([(self.start, slice(0, len(pairs)))], self.symmetric)

    def local_values(self, pairs: "AnyPairs", segments: Segments) -> Array:
        """<L_c(r), phi_r> of pairs sorted by class; 0 for pairs without one, which come first."""
        out = np.zeros(len(pairs))
        parts = [(self._form(code), part) for code, part in segments if code >= 0]
        if parts:
            with self._sharing(pairs, len(parts)):
                out[parts[0][1].start : parts[-1][1].stop] = pairs.forms(parts, self.symmetric)
        return out

    def _form(self, code: int) -> Array | None:
        """L of one class; None if it still is the identity."""
        return None if self.slot(code) < 0 and self.plain else self.local(code)

    @cached_property
    def plain(self) -> bool:
        """Whether the start is the identity."""
        return bool(np.count_nonzero(self.start) == len(self.start) and (self.start.diagonal() == 1.0).all())

    def move_shared(self, pairs: "AnyPairs", weight: Array) -> None:
        """U -= sum_r weight_r phi_r."""
        pairs.subtract([(self.shared, slice(0, len(pairs)))], weight, self.symmetric)
        self._stale.add(-1)

    def move_local(self, pairs: "AnyPairs", segments: Segments, weight: Array) -> None:
        """L_c -= sum_r weight_r phi_r over the pairs of class c, for pairs sorted by class."""
        moved = self._moved(segments, weight)
        self._move(self.stack, moved, pairs, weight)

    def _moved(self, segments: Segments, weight: Array) -> Segments:
        """Slots of the classes that a weighted sum of pairs moves, and their pairs."""
        before = np.concatenate([[0], np.cumsum(weight != 0.0)]).tolist()
        moved = [(code, part) for code, part in segments if code >= 0 and before[part.stop] > before[part.start]]
        slots = self.allocate(np.array([code for code, _ in moved], np.int32)).tolist()
        return [(slot, part) for slot, (_, part) in zip(slots, moved, strict=True)]

    def _move(self, stack: Array, moved: Segments, pairs: "AnyPairs", weight: Array) -> None:
        with self._sharing(pairs, len(moved)):
            pairs.subtract([(stack[slot], part) for slot, part in moved], weight, self.symmetric)
        self._stale.update(slot for slot, _ in moved)

    def _sharing(self, pairs: "AnyPairs", n_classes: int) -> AbstractContextManager[None]:
        """Products of one class have the pairs of one class."""
        return sharing(len(pairs) // max(1, n_classes), *self.start.shape)

    def touch(self, slots: Array) -> None:
        """Say that U and the matrices of these slots have moved in their upper triangles, if they are symmetric."""
        self._stale.update((-1, *(np.flatnonzero(np.bincount(slots.ravel() + 1)) - 1).tolist()))

    def symmetrize(self) -> None:
        """Make the matrices that learning touched, and their averages, whole again."""
        if self.symmetric:
            for shared, stack in ((self.shared, self.stack), *((self.mean,) if self.mean and self._averaged else ())):
                for slot in self._stale:
                    mirror_upper(shared if slot < 0 else stack[slot])
        self._stale.clear()
        self._averaged = False

    # -- projection and averaging ----------------------------------------------------------------------------

    def project(self) -> None:
        """P_+ of U and of every L, in place (psd policy `every n`)."""
        self.symmetrize()
        self.shared[...] = project(self.shared)
        for slot in range(self.n_slots):
            self.stack[slot] = project(self.stack[slot])

    def average(self, rate: float) -> None:
        """Move the averaged iterates toward the current ones; the first call with rate 1 starts them."""
        self.average_shared(rate)
        self._average_stack(rate)

    def average_shared(self, rate: float, pairs: "AnyPairs | None" = None, weight: Array | None = None) -> None:
        """The same for U alone, whose average then moves by -sum_r weight_r phi_r if there are pairs.

        So all averages inside a block are taken at once, before its steps (theory 15 V): `weight` is the net step of a
        pair times its share in them, `rate` what the first iterate of the block has in them.
        """
        mean = self._means()[0]
        move_toward(mean.reshape(-1), self.shared.reshape(-1), rate)
        if pairs is not None and weight is not None:
            pairs.subtract([(mean, slice(0, len(pairs)))], weight, self.symmetric)

    def average_local(self, rate: float, pairs: "AnyPairs", segments: Segments, weight: Array) -> None:
        """The same for the L alone."""
        moved = self._moved(segments, weight)
        self._average_stack(rate)
        self._move(self._means()[1], moved, pairs, weight)

    def _average_stack(self, rate: float) -> None:
        self.catch_up()
        move_toward(self._means()[1][: self.n_slots].reshape(-1), self.stack[: self.n_slots].reshape(-1), rate)

    def _means(self) -> tuple[Array, Array]:
        self._averaged = True
        if self.mean is None:
            self.mean = (self.start.copy(), _taller(self.stack[:0], len(self.stack), self.start))
        return self.mean

    def readout(self, code: int | None, blend: float) -> Array:
        """U (code None) or L of a class: the average moved toward the last iterate, which `blend` = 1 is."""
        parts = self.blended(code, blend)
        if len(parts) == 1:
            return parts[0][1]
        (_, mean), (_, last) = parts
        return mean + last.dtype.type(blend) * (last - mean)

    def blended(self, code: int | None, blend: float) -> list[tuple[float, Array]]:
        """The same as a weighted sum."""
        slot = -1 if code is None else self.slot(code)
        if code is not None and slot < 0:
            return [(1.0, self.start)]
        last = self.shared if code is None else self.local(code)
        if self.mean is None or blend == 1.0:
            return [(1.0, last)]
        return [(1.0 - blend, self.mean[0] if code is None else self.mean[1][slot]), (blend, last)]

    def blended_each(self, codes: Array, blend: float) -> list[tuple[float, Array]]:
        """The same of classes that have matrices of their own, as stacks."""
        self.catch_up()
        slots = self.slots[codes]
        if self.mean is None or blend == 1.0:
            return [(1.0, self.stack[slots])]
        return [(1.0 - blend, self.mean[1][slots]), (blend, self.stack[slots])]

    def adopt(self, blend: float) -> None:
        """The average, moved this far toward the last iterates, takes their place."""
        if self.mean is None:
            return
        self.catch_up()
        for last, mean in zip((self.shared, self.stack), self.mean, strict=True):
            move_toward(last.reshape(-1), mean.reshape(-1), 1.0 - blend)
        self.mean = None


class AnyPairs(Protocol):
    """Pairs as matrices ask for them. Parts are matrices with the pairs that each has to do with, in order."""

    def __len__(self) -> int: ...

    def forms(self, parts: Forms, symmetric: bool) -> Array:
        """<A, phi_r> of the pairs of all parts, A the matrix of the part, None: the identity; there are no gaps."""

    def subtract(self, parts: Parts, weight: Array, symmetric: bool) -> None:
        """A -= sum_r weight_r phi_r over the pairs of its part, in place; the upper triangle if A is symmetric."""


@dataclass(frozen=True)
class PairRows:
    """Pairs as rows with phi_r = left_r right_r^T; the same rows twice for a distance."""

    left: Array
    right: Array
    scratch: Scratch

    def __len__(self) -> int:
        return len(self.left)

    def forms(self, parts: Forms, symmetric: bool) -> Array:
        first, last = parts[0][1].start, parts[-1][1].stop
        left = self.left[first:last]
        product = self.scratch.take("product", left.shape, left.dtype)
        if not symmetric or all(matrix is None for matrix, _ in parts):
            for matrix, part in parts:
                into = product[part.start - first : part.stop - first]
                np.copyto(into, self.left[part]) if matrix is None else np.matmul(self.left[part], matrix, out=into)
            return row_products(product, self.right[first:last])
        if left.shape[1] < NARROW:
            return _narrow_forms(parts, left, first)
        np.copyto(product, left)
        trmm = blas.strmm if product.dtype == np.float32 else blas.dtrmm
        diagonals = np.ones((len(parts), left.shape[1]), left.dtype)
        for diagonal, (matrix, part) in zip(diagonals, parts, strict=True):
            if matrix is not None:
                diagonal[:] = matrix.diagonal()
                trmm(1.0, matrix.T, product[part.start - first : part.stop - first].T, lower=1, overwrite_b=1)
        return quadratic_rows(product, left, diagonals, np.array([part.stop - first for _, part in parts]))

    def subtract(self, parts: Parts, weight: Array, symmetric: bool) -> None:
        """Pairs of weight 0 cost nothing."""
        left, single = self.left, self.left.dtype == np.float32
        if not symmetric:
            rows = np.flatnonzero(weight)
            scaled = self.scratch.take("product", (len(rows), left.shape[1]), left.dtype)
            scaled_rows(left, rows, weight[rows].astype(left.dtype), scaled)
            gemm = blas.sgemm if single else blas.dgemm
            other = self.right if len(rows) == len(left) else self.right[rows]
            edges = np.searchsorted(rows, [edge for _, part in parts for edge in (part.start, part.stop)]).tolist()
            for (matrix, _), a, b in zip(parts, edges[::2], edges[1::2], strict=True):
                gemm(-1.0, other[a:b].T, scaled[a:b].T, beta=1.0, c=matrix.T, trans_b=1, overwrite_c=1)
            return
        if left.shape[1] < NARROW:
            for matrix, part in parts:
                subtract_rows(matrix, left[part], weight[part])
            return
        scaled = self.scratch.take("product", left.shape, left.dtype)
        bounds = np.array([(part.start, part.stop) for _, part in parts], np.int64).reshape(-1, 2)
        edges = signed_rows(left, weight, bounds, scaled).tolist()
        syrk = blas.ssyrk if single else blas.dsyrk
        for k, (a, b) in enumerate(pairwise(edges)):
            matrix, sign = parts[k // 2][0], 1.0 if k % 2 else -1.0
            if a < b and len(matrix) < WIDE:
                syrk(sign, scaled[a:b].T, beta=1.0, c=matrix.T, lower=1, overwrite_c=1)
            elif a < b:
                add_upper(matrix, scaled[a:b], scaled[a:b], sign)


def _narrow_forms(parts: Forms, rows: Array, first: int) -> Array:
    """v^T A v of rows, the pairs from number `first` on."""
    out = np.empty(len(rows))
    for matrix, part in parts:
        own = slice(part.start - first, part.stop - first)
        if matrix is None:
            out[own] = row_products(rows[own], rows[own])
        else:
            row_forms(matrix, rows[own], out[own])
    return out


def segments_of(codes: Array) -> Segments:
    """(code, slice) of each run of equal codes."""
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    return [(int(codes[a]), slice(a, b)) for a, b in pairwise(edges) if a < b]


def add_upper(matrix: Array, left: Array, right: Array, sign: float) -> None:
    """The upper triangle of matrix += sign left^T right, by panels of general products."""
    for a in range(0, len(matrix), PANEL):
        panel = slice(a, a + PANEL)
        matrix[panel, a:] += matrix.dtype.type(sign) * (left[:, panel].T @ right[:, a:])


def class_grams(rows: Array, segments: Segments, name: str, scratch: Scratch) -> Array:
    """The Gram matrix of the rows of each class, one after another in one flat array."""
    sizes = [(part.stop - part.start) ** 2 for code, part in segments if code >= 0]
    flat, begin = scratch.take(name, (sum(sizes),), rows.dtype), 0
    for code, part in segments:
        if code >= 0:
            n = part.stop - part.start
            gram(rows[part], flat[begin : begin + n * n].reshape(n, n))
            begin += n * n
    return flat


def gram(rows: Array, out: Array) -> Array:
    """rows rows^T into `out`: by BLAS if it is large enough for threads to share, mirrored."""
    if len(rows) * rows.size < LARGE:
        gram_of(rows, out)
        return out
    syrk = blas.ssyrk if rows.dtype == np.float32 else blas.dsyrk
    syrk(1.0, rows.T, trans=1, beta=0.0, c=out.T, lower=1, overwrite_c=1)
    mirror_upper(out)
    return out


def _weighted(matrices: list[Array], weights: Array) -> Array:
    """sum_k w_k A_k in float64, in the given order."""
    total = np.zeros(matrices[0].shape)
    for matrix, weight in zip(matrices, weights, strict=True):
        total += weight * matrix
    return total


def _wider(stack: Array, start: Array) -> Array:
    old = stack.shape[1]
    out = np.repeat(start[None], len(stack), axis=0)
    out[:, :old, :old] = stack
    return out


def _taller(stack: Array, room: int, start: Array) -> Array:
    out = _on_lines((room, *start.shape), start)
    out[: len(stack)] = stack
    out[len(stack) :] = start
    return out


def _on_lines(shape: tuple[int, ...], like: Array) -> Array:
    """An empty array that begins where a line of memory does: a vector on two lines takes twice as long."""
    size = prod(shape) * like.dtype.itemsize
    flat = np.empty(size + LINE, np.uint8)
    begin = -flat.ctypes.data % LINE
    return flat[begin : begin + size].view(like.dtype).reshape(shape)
