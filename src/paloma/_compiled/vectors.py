"""Forms and moves of small symmetric matrices, written in vector instructions.

The compiler finds vectors in a loop only after it has checked, at run time, that arrays are not near each other in
memory: for 16 features that takes as long as the sums. Here loops run over tiles, four rows by one vector, wherever the
arrays are. Only tiles on and above the diagonal are read and moved, those on it as a whole.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

# Bytes of a vector, and the rows of a tile: a vector has as many numbers, or twice as many.
WIDTH, ROWS = 32, 4
_FAST = ("reassoc", "contract", "nsz")
_INT, _PLACE = ir.IntType(64), ir.IntType(32)


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


class _Tiles:
    """Loops over the tiles of matrices of one size, and what is done with them."""

    def __init__(self, builder, number, d, whole):
        self.builder, self.number, self.d, self.whole = builder, number, d, whole
        self.size = 8 if isinstance(number, ir.DoubleType) else 4
        self.width = WIDTH // self.size
        self.vector = ir.VectorType(number, self.width)
        self.zero = ir.Constant(self.vector, None)
        self.full = d if whole else builder.sub(d, builder.srem(d, _INT(self.width)))
        lanes = ir.Constant(ir.VectorType(_INT, self.width), list(range(self.width)))
        self.mask = builder.icmp_signed("<", lanes, self.spread(builder.sub(d, self.full), lanes.type))

    def spread(self, x, kind):
        """A vector of equal numbers."""
        undefined, places = ir.Constant(kind, ir.Undefined), ir.VectorType(_PLACE, self.width)
        one = self.builder.insert_element(undefined, x, _PLACE(0))
        return self.builder.shuffle_vector(one, undefined, ir.Constant(places, None))

    def entries(self, base, places):
        """The numbers at these places, each as a vector of equal ones."""
        numbers = [self.builder.load(self.builder.gep(base, [place]), align=self.size) for place in places]
        return [self.spread(number, self.vector) for number in numbers]

    def load(self, base, place, masked):
        pointer = self._at(base, place)
        if not masked:
            return self.builder.load(pointer, align=self.size)
        return self._masked("load", self.vector, [pointer, _PLACE(self.size), self.mask, self.zero])

    def store(self, value, base, place, masked):
        pointer = self._at(base, place)
        if masked:
            self._masked("store", ir.VoidType(), [value, pointer, _PLACE(self.size), self.mask])
        else:
            self.builder.store(value, pointer, align=self.size)

    def _at(self, base, place):
        return self.builder.bitcast(self.builder.gep(base, [place]), self.vector.as_pointer())

    def _masked(self, what, result, arguments):
        kind = f"v{self.width}f{8 * self.size}"
        return self._call(f"llvm.masked.{what}.{kind}.p0{kind}", result, arguments)

    def _call(self, name, result, arguments):
        function = ir.FunctionType(result, [argument.type for argument in arguments])
        called = cgutils.get_or_insert_function(self.builder.module, function, name)
        return self.builder.call(called, arguments, fastmath=() if isinstance(result, ir.VoidType) else _FAST)

    def sum(self, vectors):
        """The sum of all numbers."""
        total, *others = vectors
        for other in others:
            total = self.plus(total, other)
        name = f"llvm.vector.reduce.fadd.v{self.width}f{8 * self.size}"
        return self._call(name, self.number, [ir.Constant(self.number, 0.0), total])

    def plus(self, x, y):
        return self.builder.fadd(x, y, _FAST)

    def add_product(self, total, x, y):
        return self.plus(total, self.builder.fmul(x, y, _FAST))

    def loop(self, start, stop, step, body, carried):
        """for k in range(start, stop, step): carried = body(k, *carried)."""
        builder, before = self.builder, self.builder.block
        head, inside, after = (builder.append_basic_block(name) for name in ("head", "inside", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        k, *values = (builder.phi(value.type) for value in (start, *carried))
        builder.cbranch(builder.icmp_signed("<", k, stop), inside, after)
        builder.position_at_end(inside)
        new = body(k, *values)
        new = (builder.add(k, _INT(step)), *new)
        for phi, first, later in zip((k, *values), (start, *carried), new, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(later, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return values

    def over_rows(self, rows, carried):
        """carried = rows(numbers, begin, *carried) for tiles of rows, given by their numbers and where they begin."""

        def some(n):
            def body(r, *values):
                numbers = [self.builder.add(r, _INT(k)) for k in range(n)]
                return rows(numbers, [self.builder.mul(number, self.d) for number in numbers], *values)

            return body

        carried = self.loop(_INT(0), self.full, ROWS, some(ROWS), carried)
        return carried if self.whole else self.loop(self.full, self.d, 1, some(1), carried)

    def over_columns(self, tile, start, carried):
        """carried = tile(s, masked, *carried) for the tiles of columns from `start` on; the last one may be masked."""
        carried = self.loop(start, self.full, self.width, lambda s, *values: tile(s, False, *values), carried)
        if self.whole:
            return carried
        return self.loop(self.full, self.d, self.width, lambda s, *values: tile(s, True, *values), carried)

    def diagonal(self, r):
        """Where the tile on the diagonal begins in row r."""
        return self.builder.sub(r, self.builder.srem(r, _INT(self.width)))

    def forms(self, sides):
        """v^T M v of pairs (M, v): rows of M times v lane by lane, and one sum over lanes at the end."""

        def rows(numbers, begin, *totals):
            def tile(s, masked, *sums):
                loaded = [self.load(v, s, masked) for _, v in sides for _ in begin]
                lines = [self.load(M, self.builder.add(r, s), masked) for M, _ in sides for r in begin]
                return [self.add_product(*each) for each in zip(sums, lines, loaded, strict=True)]

            zeros = [self.zero] * (len(sides) * len(begin))
            if len(numbers) < ROWS:
                sums = tile(self.full, True, *zeros)
            else:  # what is above the diagonal counts twice
                start = self.diagonal(numbers[0])
                once = tile(start, False, *zeros)
                after = self.builder.add(start, _INT(self.width))
                sums = self.over_columns(tile, after, zeros)
                sums = [self.plus(self.plus(x, x), y) for x, y in zip(sums, once, strict=True)]
            factors = [x for _, v in sides for x in self.entries(v, numbers)]
            new = list(totals)
            for k, (x, y) in enumerate(zip(factors, sums, strict=True)):
                side, row = divmod(k, len(numbers))
                new[side * ROWS + row] = self.add_product(totals[side * ROWS + row], x, y)
            return new

        totals = self.over_rows(rows, [self.zero] * (len(sides) * ROWS))
        return [self.sum(totals[ROWS * k : ROWS * (k + 1)]) for k in range(len(sides))]

    def move(self, matrix, terms):
        """M += sum of x v v^T over terms (x, v)."""

        def rows(numbers, begin):
            scales = [self.spread(x, self.vector) for x, _ in terms]
            factors = [
                [self.builder.fmul(scale, x, _FAST) for x in self.entries(v, numbers)]
                for scale, (_, v) in zip(scales, terms, strict=True)
            ]

            def tile(s, masked):
                loaded = [self.load(v, s, masked) for _, v in terms]
                for k, r in enumerate(begin):
                    place = self.builder.add(r, s)
                    moved = self.load(matrix, place, masked)
                    for factor, v in zip(factors, loaded, strict=True):
                        moved = self.add_product(moved, factor[k], v)
                    self.store(moved, matrix, place, masked)
                return []

            if len(numbers) < ROWS:
                return tile(self.full, True)
            return self.over_columns(tile, self.diagonal(numbers[0]), [])

        self.over_rows(rows, [])


def _tiles(context, builder, ragged, arrays):
    """The data of arrays, given as (kind, value, number in a stack or None), and loops over their tiles."""
    from numba.np.arrayobj import make_array  # loads slowly, and wide rows never need it

    held = [make_array(kind)(context, builder, value) for kind, value, _ in arrays]
    d, data = cgutils.unpack_tuple(builder, held[0].shape, arrays[0][0].ndim)[-1], [array.data for array in held]
    for n, (kind, _, k) in enumerate(arrays):
        if kind.ndim == 3:
            place = builder.sext(k, _INT) if k.type.width < 64 else k
            data[n] = builder.gep(data[n], [builder.mul(place, builder.mul(d, d))])
    whole = isinstance(ragged, types.NoneType)
    return data, _Tiles(builder, context.get_data_type(arrays[0][0].dtype), d, whole)


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
