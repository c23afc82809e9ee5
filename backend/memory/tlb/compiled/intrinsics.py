"""Operations on bits that Numba does not have, and the arrays of a model's state. Errors are a number (layout.V_ERROR)."""

from __future__ import annotations

from typing import Any

from farlane.backend.memory.tlb import layout
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np import arrayobj

_intrinsic: Any = intrinsic


@_intrinsic
def lowest(context: Any, bits: Any) -> Any:
    """The number of the lowest bit that is set."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), code


@_intrinsic
def ones(context: Any, bits: Any) -> Any:
    """How many bits are set."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), code


@_intrinsic
def state(context: Any, address: Any) -> Any:
    """The arrays of the table at an address, as layout.State. Functions are given the address: 23 arrays as arguments would be copied at each call."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table = builder.inttoptr(arguments[0], ir.PointerType(ir.IntType(64)))
        size = context.get_constant(types.intp, 8)
        arrays = []
        for number, kind in enumerate(signature.return_type.types):
            row = [
                builder.load(builder.gep(table, [ir.Constant(ir.IntType(64), layout.COLUMNS * number + column)]))
                for column in range(1 + kind.ndim)
            ]
            strides = [size]
            for length in reversed(row[2:]):
                strides.insert(0, builder.mul(strides[0], length))
            array = arrayobj.make_array(kind)(context, builder)
            data = builder.inttoptr(row[0], array.data.type)
            arrayobj.populate_array(array, data=data, shape=row[1:], strides=strides, itemsize=size, meminfo=None)
            arrays.append(array._getvalue())
        return context.make_tuple(builder, signature.return_type, arrays)

    kinds = [types.Array(types.int64, layout.DIMENSIONS.get(name, 2), "C") for name in layout.State._fields]
    return types.NamedTuple(kinds, layout.State)(types.int64), code
