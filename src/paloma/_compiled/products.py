"""Products of a symmetric matrix with many rows, for matrices that fit into caches.

BLAS brings matrices into an order of its own before it multiplies, which pays for hundreds of rows; a class has few
pairs in a block. Here sums of eight rows by one vector stay in registers, and matrices are read where they are. Only
what is on and above the diagonal is read and moved.
"""

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from .jit import compiled
from .tiles import INT, Tiles, held

# Bytes of a vector (a line of memory), and the rows of a tile.
WIDTH, ROWS = 64, 8


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


def form_rows(matrix, rows, out):
    """v^T M v of each row v; there is at least one."""
    whole = np.triu(matrix) + np.triu(matrix, 1).T
    out[:] = ((rows @ whole) * rows).sum(axis=1)


def move_rows(matrix, rows, index, scaled):
    """M -= sum_k v u^T over the rows v of these numbers, u their multiples in `scaled`."""
    matrix -= rows[index].T @ scaled[: len(index)]


class _Products(Tiles):
    """What is done with many rows."""

    def form_rows(self, matrix, rows, n, out):
        def tile(r):
            numbers = [self.builder.add(r, INT(k)) for k in range(ROWS)]
            last = self.builder.sub(n, INT(1))  # stands in for rows beyond the end
            numbers = [self.builder.select(self.builder.icmp_signed("<", k, n), k, last) for k in numbers]
            lines = [self.builder.mul(number, self.d) for number in numbers]

            def columns(s, masked, *totals):
                def product(j, *sums):
                    of_matrix = self.load(matrix, self.builder.add(self.builder.mul(j, self.d), s), masked)
                    factors = self.entries(rows, [self.builder.add(line, j) for line in lines])
                    return [self.add_product(x, y, of_matrix) for x, y in zip(sums, factors, strict=True)]

                above = self.loop(INT(0), s, 1, product, [self.zero] * ROWS)  # counts twice
                end = self.d if masked else self.builder.add(s, INT(self.width))
                sums = self.loop(s, end, 1, product, [self.plus(x, x) for x in above])
                own = [self.load(rows, self.builder.add(line, s), masked) for line in lines]
                return [self.add_product(*each) for each in zip(totals, sums, own, strict=True)]

            totals = self.over_columns(columns, INT(0), [self.zero] * ROWS)
            for number, total in zip(numbers, totals, strict=True):
                value = self.sum([total])
                if self.size == 4:
                    value = self.builder.fpext(value, ir.DoubleType())
                self.builder.store(value, self.builder.gep(out, [number]))
            return []

        self.loop(INT(0), n, ROWS, tile, [])

    def move_rows(self, matrix, rows, index, n, scaled):
        def tile(numbers, begin):
            def columns(s, masked):
                def product(k, *sums):
                    line = self.builder.mul(self.builder.load(self.builder.gep(index, [k])), self.d)
                    weighted = self.load(scaled, self.builder.add(self.builder.mul(k, self.d), s), masked)
                    factors = self.entries(rows, [self.builder.add(line, number) for number in numbers])
                    return [self.add_product(x, y, weighted) for x, y in zip(sums, factors, strict=True)]

                sums = self.loop(INT(0), n, 1, product, [self.zero] * len(numbers))
                for total, r in zip(sums, begin, strict=True):
                    place = self.builder.add(r, s)
                    moved = self.builder.fsub(self.load(matrix, place, masked), total)
                    self.store(moved, matrix, place, masked)
                return []

            if len(numbers) < ROWS:
                return columns(self.full, True)
            return self.over_columns(columns, self.diagonal(numbers[0]), [])

        self.over_rows(tile, ROWS, [])


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


@overload(form_rows)
def _compiled_form_rows(matrix, rows, out):
    return lambda matrix, rows, out: _form_rows(matrix, rows, out)


@overload(move_rows)
def _compiled_move_rows(matrix, rows, index, scaled):
    return lambda matrix, rows, index, scaled: _move_rows(matrix, rows, index, scaled)
