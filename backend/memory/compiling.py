"""How Numba compiles the models that become object files (`native`): the units' packages named `compiled`.

No wrappers for Python: what calls this is machine code. No reference counts: nothing is allocated. Nothing is raised: errors are numbers.
Every unit's object is made anew when this file changes.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numba.np import arrayobj

OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
_intrinsic: Any = intrinsic
inner: Any = njit(**OPTIONS)
leaf: Any = njit(forceinline=True, **OPTIONS)


@_intrinsic
def table(context: Any, address: Any, number: Any) -> Any:
    """The array of 64-bit numbers that a row (address, rows, columns) of a table describes."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        rows = builder.inttoptr(arguments[0], ir.PointerType(word))
        first = builder.mul(arguments[1], ir.Constant(word, 3))
        data, lines, columns = (
            builder.load(builder.gep(rows, [builder.add(first, ir.Constant(word, column))])) for column in range(3)
        )
        size = context.get_constant(types.intp, 8)
        array = arrayobj.make_array(signature.return_type)(context, builder)
        arrayobj.populate_array(
            array,
            data=builder.inttoptr(data, array.data.type),
            shape=[lines, columns],
            strides=[builder.mul(columns, size), size],
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    return types.Array(types.int64, 2, "C")(types.int64, types.int64), code
