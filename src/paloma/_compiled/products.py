"""Products of a symmetric matrix with many rows, for matrices that fit into caches.

BLAS brings matrices into an order of its own before it multiplies, which pays for hundreds of rows; a class has few
pairs in a block. Here sums of some rows by two vectors stay in registers, and matrices are read where they are. Only
what is on and above the diagonal is read and moved.
"""

from functools import partial

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from .jit import compiled
from .tiles import INT, WIDE_VECTORS, Tiles, held

# Bytes of a vector; rows of a tile, which divide the numbers of a vector; rows on each side of a tile of a Gram matrix:
# as many sums as stay in registers.
WIDTH, ROWS, SIDE = (64, 8, 4) if WIDE_VECTORS else (32, 4, 3)
# Vectors of a tile.
VECTORS = 2


@compiled
def row_forms(matrix, rows, out):
    """v^T M v of each row v."""
    form_rows(matrix, rows, out)


@compiled
def subtract_rows(matrix, rows, weight):
    """M -= sum_r weight_r v_r v_r^T on and above the diagonal; rows of weight 0 cost nothing."""
    index, scaled, n = np.empty(rows.shape[0], np.int64), np.empty_like(rows), 0
    for r in range(rows.shape[0]):
        if weight[r] != 0.0:
            index[n], factor = r, rows.dtype.type(weight[r])
            for s in range(rows.shape[1]):
                scaled[n, s] = factor * rows[r, s]
            n += 1
    if n:
        move_rows(matrix, rows, index[:n], scaled)


@compiled
def gram_of(rows, out):
    """The inner products of all rows."""
    if rows.shape[0]:
        gram_rows(rows, out)


def form_rows(matrix, rows, out):
    """v^T M v of each row v; there is at least one."""
    whole = np.triu(matrix) + np.triu(matrix, 1).T
    out[:] = ((rows @ whole) * rows).sum(axis=1)


def move_rows(matrix, rows, index, scaled):
    """M -= sum_k v u^T over the rows v of these numbers, u their multiples in `scaled`."""
    matrix -= rows[index].T @ scaled[: len(index)]


def gram_rows(rows, out):
    """The inner products of all rows; there is at least one."""
    out[:] = rows @ rows.T


class _Products(Tiles):
    """What is done with many rows."""

    def form_rows(self, matrix, rows, n, out):
        def tile(r):
            numbers = self._rows(r, ROWS, n)
            lines = [self.builder.mul(number, self.d) for number in numbers]

            def columns(places, mask, *totals):
                def product(own, j, *sums):
                    of_matrix = [self.load(matrix, self._place(j, s), mask) for s in own]
                    factors = self.entries(rows, [self.builder.add(line, j) for line in lines])
                    return self._plus_products(sums, of_matrix, factors)

                sums = self.loop(INT(0), places[0], 1, partial(product, places), [self.zero] * ROWS * len(places))
                for k, s in enumerate(places):  # what is above the diagonal counts twice
                    end = self.least(self.builder.add(s, INT(self.width)), self.d)
                    sums[k * ROWS : (k + 1) * ROWS] = [self.plus(x, x) for x in sums[k * ROWS : (k + 1) * ROWS]]
                    sums[k * ROWS :] = self.loop(s, end, 1, partial(product, places[k:]), sums[k * ROWS :])
                for k, s in enumerate(places):
                    own = [self.load(rows, self.builder.add(line, s), mask) for line in lines]
                    mine = sums[k * ROWS : (k + 1) * ROWS]
                    totals = [self.add_product(*each) for each in zip(totals, mine, own, strict=True)]
                return totals

            totals = self.over_columns(columns, INT(0), [self.zero] * ROWS, VECTORS)
            for number, total in zip(numbers, totals, strict=True):
                value = self.sum([total])
                if self.size == 4:
                    value = self.builder.fpext(value, ir.DoubleType())
                self.builder.store(value, self.builder.gep(out, [number]))
            return []

        self.loop(INT(0), n, ROWS, tile, [])

    def move_rows(self, matrix, rows, index, n, scaled):
        def tile(numbers, begin):
            def columns(places, mask):
                def product(k, *sums):
                    line = self.builder.mul(self.builder.load(self.builder.gep(index, [k])), self.d)
                    weighted = [self.load(scaled, self._place(k, s), mask) for s in places]
                    factors = self.entries(rows, [self.builder.add(line, number) for number in numbers])
                    return self._plus_products(sums, weighted, factors)

                sums = self.loop(INT(0), n, 1, product, [self.zero] * len(numbers) * len(places))
                for k, total in enumerate(sums):
                    place = self.builder.add(begin[k % len(begin)], places[k // len(begin)])
                    moved = self.builder.fsub(self.load(matrix, place, mask), total)
                    self.store(moved, matrix, place, mask)
                return []

            if len(numbers) < ROWS:
                return columns([self.full], self.rest)
            return self.over_columns(columns, self.diagonal(numbers[0]), [], VECTORS)

        self.over_rows(tile, ROWS, [])

    def gram_rows(self, rows, n, out):
        def across(i):
            left = self._rows(i, SIDE, n)

            def tile(j):
                right = self._rows(j, SIDE, n)

                def columns(places, mask, *sums):
                    (s,) = places
                    x, y = ([self.load(rows, self._place(r, s), mask) for r in side] for side in (left, right))
                    return self._plus_products(sums, y, x)

                sums = self.over_columns(columns, INT(0), [self.zero] * SIDE * SIDE)
                for k, total in enumerate(sums):
                    value, x, y = self.sum([total]), left[k % SIDE], right[k // SIDE]
                    for a, b in ((x, y), (y, x)):
                        place = self.builder.add(self.builder.mul(a, n), b)
                        self.builder.store(value, self.builder.gep(out, [place]))
                return []

            return self.loop(i, n, SIDE, tile, [])

        self.loop(INT(0), n, SIDE, across, [])

    def _rows(self, first, count, n):
        """Numbers of rows from one on; the last row stands in for those beyond the end."""
        last = self.builder.sub(n, INT(1))
        return [self.least(self.builder.add(first, INT(k)), last) for k in range(count)]

    def _place(self, row, column):
        return self.builder.add(self.builder.mul(row, self.d), column)

    def _plus_products(self, sums, vectors, factors):
        """Sums plus products of each vector with each of the factors, vector by vector."""
        pairs = [(vector, factor) for vector in vectors for factor in factors]
        return [self.add_product(total, factor, vector) for total, (vector, factor) in zip(sums, pairs, strict=True)]


@intrinsic
def _form_rows(context, matrix, rows, out):
    def generate(context, builder, signature, arguments):
        (M, V, values), ((_, d), (n, _), _) = held(context, builder, signature.args, arguments)
        number = context.get_data_type(rows.dtype)
        _Products(builder, number, d, WIDTH).form_rows(M, V, n, values)
        return context.get_dummy_value()

    return types.void(matrix, rows, out), generate


@intrinsic
def _move_rows(context, matrix, rows, index, scaled):
    def generate(context, builder, signature, arguments):
        (M, V, numbers, multiples), ((_, d), _, (n,), _) = held(context, builder, signature.args, arguments)
        number = context.get_data_type(rows.dtype)
        _Products(builder, number, d, WIDTH).move_rows(M, V, numbers, n, multiples)
        return context.get_dummy_value()

    return types.void(matrix, rows, index, scaled), generate


@intrinsic
def _gram_rows(context, rows, out):
    def generate(context, builder, signature, arguments):
        (V, products), ((n, d), _) = held(context, builder, signature.args, arguments)
        _Products(builder, context.get_data_type(rows.dtype), d, WIDTH).gram_rows(V, n, products)
        return context.get_dummy_value()

    return types.void(rows, out), generate


@overload(form_rows)
def _compiled_form_rows(matrix, rows, out):
    return lambda matrix, rows, out: _form_rows(matrix, rows, out)


@overload(move_rows)
def _compiled_move_rows(matrix, rows, index, scaled):
    return lambda matrix, rows, index, scaled: _move_rows(matrix, rows, index, scaled)


@overload(gram_rows)
def _compiled_gram_rows(rows, out):
    return lambda rows, out: _gram_rows(rows, out)
