"""Forms and moves of small symmetric matrices, written in vector instructions.

Only tiles on and above the diagonal are read and moved, those on it as a whole.
"""

import numpy as np
from numba.core import types
from numba.extending import intrinsic, overload

from .tiles import INT, Tiles, held

# Bytes of a vector, and the rows of a tile: a vector has as many numbers, or twice as many.
WIDTH, ROWS = 32, 4


def is_ragged(d, dtype):
    """True if rows of d numbers are not whole vectors, else None."""
    return True if d * np.dtype(dtype).itemsize % WIDTH else None


def forms(ragged, first, i, a, second, j, b):
    """(a^T A a, b^T B b), A and B matrices or number i and j of a stack; vectors may be longer than d.

    ragged : None if d numbers are whole vectors (`is_ragged`): then no other case is compiled.
    """
    return tuple(_whole(matrix, k, v) for matrix, k, v in ((first, i, a), (second, j, b)))


def _whole(matrix, k, v):
    M = matrix if matrix.ndim == 2 else matrix[k]
    return v[: len(M)] @ (np.triu(M) + np.triu(M, 1).T) @ v[: len(M)]


def move(ragged, matrix, k, x, a, b=None):
    """M += x (a a^T - b b^T), M the matrix or number k of a stack; without b, x a a^T."""
    M = matrix if matrix.ndim == 2 else matrix[k]
    for v, weight in ((a, x), (b, -x)):
        if v is not None:
            M += weight * v[: len(M), None] * v[: len(M)]


class _Forms(Tiles):
    """What is done with single vectors."""

    def forms(self, sides):
        """v^T M v of pairs (M, v): rows of M times v lane by lane, and one sum over lanes at the end."""

        def rows(numbers, begin, *totals):
            def tile(places, mask, *sums):
                (s,) = places
                loaded = [self.load(v, s, mask) for _, v in sides for _ in begin]
                lines = [self.load(M, self.builder.add(r, s), mask) for M, _ in sides for r in begin]
                return [self.add_product(*each) for each in zip(sums, lines, loaded, strict=True)]

            zeros = [self.zero] * (len(sides) * len(begin))
            if len(numbers) < ROWS:
                sums = tile([self.full], self.rest, *zeros)
            else:  # what is above the diagonal counts twice
                start = self.diagonal(numbers[0])
                once = tile([start], None, *zeros)
                after = self.builder.add(start, INT(self.width))
                sums = self.over_columns(tile, after, zeros)
                sums = [self.plus(self.plus(x, x), y) for x, y in zip(sums, once, strict=True)]
            factors = [x for _, v in sides for x in self.entries(v, numbers)]
            new = list(totals)
            for k, (x, y) in enumerate(zip(factors, sums, strict=True)):
                side, row = divmod(k, len(numbers))
                new[side * ROWS + row] = self.add_product(totals[side * ROWS + row], x, y)
            return new

        totals = self.over_rows(rows, ROWS, [self.zero] * (len(sides) * ROWS))
        return [self.sum(totals[ROWS * k : ROWS * (k + 1)]) for k in range(len(sides))]

    def move(self, matrix, terms):
        """M += sum of x v v^T over terms (x, v)."""

        def rows(numbers, begin):
            scales = [self.spread(x, self.vector) for x, _ in terms]
            factors = [
                [self.times(scale, x) for x in self.entries(v, numbers)]
                for scale, (_, v) in zip(scales, terms, strict=True)
            ]

            def tile(places, mask):
                (s,) = places
                loaded = [self.load(v, s, mask) for _, v in terms]
                for k, r in enumerate(begin):
                    place = self.builder.add(r, s)
                    moved = self.load(matrix, place, mask)
                    for factor, v in zip(factors, loaded, strict=True):
                        moved = self.add_product(moved, factor[k], v)
                    self.store(moved, matrix, place, mask)
                return []

            if len(numbers) < ROWS:
                return tile([self.full], self.rest)
            return self.over_columns(tile, self.diagonal(numbers[0]), [])

        self.over_rows(rows, ROWS, [])


def _tiles(context, builder, ragged, arrays):
    """The data of arrays, given as (kind, value, number in a stack or None), and loops over their tiles."""
    kinds = [kind for kind, _, _ in arrays]
    data, shapes = held(context, builder, kinds, [value for _, value, _ in arrays])
    d = shapes[0][-1]
    for n, (kind, _, k) in enumerate(arrays):
        if kind.ndim == 3:
            place = builder.sext(k, INT) if k.type.width < 64 else k
            data[n] = builder.gep(data[n], [builder.mul(place, builder.mul(d, d))])
    number = context.get_data_type(kinds[0].dtype)
    return data, _Forms(builder, number, d, WIDTH, isinstance(ragged, types.NoneType))


@intrinsic
def _forms(context, ragged, first, i, a, second, j, b):
    def generate(context, builder, signature, arguments):
        _, A, i, v, B, j, w = zip(signature.args, arguments, strict=True)
        arrays = [(*A, i[1]), (*B, j[1]), (*v, None), (*w, None)]
        (A, B, v, w), tiles = _tiles(context, builder, ragged, arrays)
        return context.make_tuple(builder, signature.return_type, tiles.forms([(A, v), (B, w)]))

    return types.UniTuple(a.dtype, 2)(ragged, first, i, a, second, j, b), generate


@intrinsic
def _move(context, ragged, matrix, k, x, a, b):
    def generate(context, builder, signature, arguments):
        _, M, k, x, *vectors = zip(signature.args, arguments, strict=True)
        vectors = [(*v, None) for v in vectors if not isinstance(v[0], types.NoneType)]
        (M, *vectors), tiles = _tiles(context, builder, ragged, [(*M, k[1]), *vectors])
        tiles.move(M, list(zip((x[1], builder.fneg(x[1])), vectors, strict=False)))
        return context.get_dummy_value()

    return types.void(ragged, matrix, k, x, a, b), generate


@overload(forms, inline="always")
def _compiled_forms(ragged, first, i, a, second, j, b):
    return lambda ragged, first, i, a, second, j, b: _forms(ragged, first, i, a, second, j, b)


@overload(move, inline="always")
def _compiled_move(ragged, matrix, k, x, a, b=None):
    return lambda ragged, matrix, k, x, a, b=None: _move(ragged, matrix, k, x, a, b)
