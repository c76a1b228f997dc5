"""Memory asked for before it is needed: a loop that meets a row which no cache holds waits for each of its lines."""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

# Bytes of a line.
LINE = 64


def prefetch(matrix, i, j):
    """Have the caches fetch what is near matrix[i, j], without waiting for it."""


@overload(prefetch)
def _compiled_prefetch(matrix, i, j):
    return lambda matrix, i, j: _prefetch(matrix, i, j)


@intrinsic
def _prefetch(context, matrix, i, j):
    def generate(context, builder, signature, arguments):
        from numba.np.arrayobj import make_array  # loads slowly, and dense rows never need it

        kind, (value, *place) = signature.args[0], arguments
        array = make_array(kind)(context, builder, value)
        pointer = cgutils.get_item_pointer(context, builder, kind, array, place)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        called = cgutils.get_or_insert_function(builder.module, function, "llvm.prefetch.p0i8")
        # To be read, soon (into the second cache and beyond), data.
        builder.call(called, [builder.bitcast(pointer, byte), number(0), number(2), number(1)])
        return context.get_dummy_value()

    return types.void(matrix, i, j), generate
