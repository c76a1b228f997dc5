"""Vector instructions, written for LLVM: loops over tiles of a matrix, some rows by one vector.

The compiler finds vectors in a loop only after it has checked, at run time, that arrays are not near each other in
memory: for few features that takes as long as the sums. Here nothing is checked, and the rounding is the same wherever
arrays are.
"""

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, config

FAST = ("reassoc", "contract", "nsz")
INT, _PLACE = ir.IntType(64), ir.IntType(32)
# Whether code is made for a processor with vectors of 64 bytes.
WIDE_VECTORS = "+avx512f" in (config.CPU_FEATURES or get_host_cpu_features().flatten()).split(",")


def held(context, builder, kinds, values):
    """Arrays as compiled code holds them: their data, and their lengths."""
    from numba.np.arrayobj import make_array  # loads slowly, and wide rows never need it

    arrays = [make_array(kind)(context, builder, value) for kind, value in zip(kinds, values, strict=True)]
    shapes = [cgutils.unpack_tuple(builder, array.shape, kind.ndim) for array, kind in zip(arrays, kinds, strict=True)]
    return [array.data for array in arrays], shapes


class Tiles:
    """Loops over tiles of matrices with d columns, some rows by one vector, and what is done with vectors.

    bytes : of a vector.  whole : whether d numbers are whole vectors; else the last tiles are loaded and stored by
    masks.
    """

    def __init__(self, builder, number, d, bytes, whole=False):
        self.builder, self.number, self.d, self.whole = builder, number, d, whole
        self.size = 8 if isinstance(number, ir.DoubleType) else 4
        self.width = bytes // self.size
        self.vector = ir.VectorType(number, self.width)
        self.zero = ir.Constant(self.vector, None)
        self.full = d if whole else builder.sub(d, builder.srem(d, INT(self.width)))
        self.lanes = ir.Constant(ir.VectorType(INT, self.width), list(range(self.width)))
        self.rest = self.mask_from(self.full)

    def spread(self, x, kind):
        """A vector of equal numbers."""
        undefined, places = ir.Constant(kind, ir.Undefined), ir.VectorType(_PLACE, self.width)
        one = self.builder.insert_element(undefined, x, _PLACE(0))
        return self.builder.shuffle_vector(one, undefined, ir.Constant(places, None))

    def mask_from(self, place):
        """Which numbers of a vector that begins at a place are in the row."""
        return self.builder.icmp_signed("<", self.lanes, self.spread(self.builder.sub(self.d, place), self.lanes.type))

    def entries(self, base, places):
        """The numbers at these places, each as a vector of equal ones."""
        numbers = [self.builder.load(self.builder.gep(base, [place]), align=self.size) for place in places]
        return [self.spread(number, self.vector) for number in numbers]

    def load(self, base, place, mask):
        pointer = self._at(base, place)
        if mask is None:
            return self.builder.load(pointer, align=self.size)
        return self._masked("load", self.vector, [pointer, _PLACE(self.size), mask, self.zero])

    def store(self, value, base, place, mask):
        pointer = self._at(base, place)
        if mask is None:
            self.builder.store(value, pointer, align=self.size)
        else:
            self._masked("store", ir.VoidType(), [value, pointer, _PLACE(self.size), mask])

    def _at(self, base, place):
        return self.builder.bitcast(self.builder.gep(base, [place]), self.vector.as_pointer())

    def _masked(self, what, result, arguments):
        kind = f"v{self.width}f{8 * self.size}"
        return self._call(f"llvm.masked.{what}.{kind}.p0{kind}", result, arguments)

    def _call(self, name, result, arguments):
        function = ir.FunctionType(result, [argument.type for argument in arguments])
        called = cgutils.get_or_insert_function(self.builder.module, function, name)
        return self.builder.call(called, arguments, fastmath=() if isinstance(result, ir.VoidType) else FAST)

    def sum(self, vectors):
        """The sum of all numbers."""
        total, *others = vectors
        for other in others:
            total = self.plus(total, other)
        name = f"llvm.vector.reduce.fadd.v{self.width}f{8 * self.size}"
        return self._call(name, self.number, [ir.Constant(self.number, 0.0), total])

    def plus(self, x, y):
        return self.builder.fadd(x, y, FAST)

    def times(self, x, y):
        return self.builder.fmul(x, y, FAST)

    def add_product(self, total, x, y):
        return self.plus(total, self.times(x, y))

    def least(self, x, y):
        return self.builder.select(self.builder.icmp_signed("<", x, y), x, y)

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
        new = (builder.add(k, INT(step)), *new)
        for phi, first, later in zip((k, *values), (start, *carried), new, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(later, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return values

    def over_rows(self, rows, n_rows, carried):
        """carried = rows(numbers, begin, *carried) for tiles of rows, given by their numbers and where they begin.

        They have n_rows each, and one row each where columns are left over.
        """

        def some(n):
            def body(r, *values):
                numbers = [self.builder.add(r, INT(k)) for k in range(n)]
                return rows(numbers, [self.builder.mul(number, self.d) for number in numbers], *values)

            return body

        carried = self.loop(INT(0), self.full, n_rows, some(n_rows), carried)
        return carried if self.whole else self.loop(self.full, self.d, 1, some(1), carried)

    def over_columns(self, tile, start, carried, n_vectors=1):
        """carried = tile(places, mask, *carried) for the tiles of columns from `start` on.

        Tiles have n_vectors neighboring vectors, which begin at `places`, and no mask; what is left over has one vector
        and a mask each.
        """
        builder, step, whole = self.builder, INT(n_vectors * self.width), self.full
        if n_vectors > 1:
            whole = builder.add(start, builder.mul(builder.sdiv(builder.sub(self.d, start), step), step))

        def wide(s, *values):
            return tile([builder.add(s, INT(k * self.width)) for k in range(n_vectors)], None, *values)

        def rest(s, *values):
            return tile([s], self.mask_from(s), *values)

        carried = self.loop(start, whole, n_vectors * self.width, wide, carried)
        return carried if self.whole else self.loop(whole, self.d, self.width, rest, carried)

    def diagonal(self, r):
        """Where the tile on the diagonal begins in row r."""
        return self.builder.sub(r, self.builder.srem(r, INT(self.width)))
