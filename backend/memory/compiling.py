"""How Numba compiles the functions of the models' units: the packages named `compiled` (native.py compiles their entries).

No reference counts: nothing is allocated. Nothing is raised: errors are numbers. No index is below zero (native.py).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numba.np import arrayobj

OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_intrinsic: Any = intrinsic


def _function(function: Any, inline: bool) -> Any:
    """A function of compiled code. Numba would make another one of it for each constant that it is called with."""
    made: Any = njit(forceinline=inline, **OPTIONS)(function)
    of_types = made.get_call_template

    def of_plain_types(arguments: Any, keywords: Any) -> Any:
        return of_types([types.unliteral(argument) for argument in arguments], keywords)

    made.get_call_template = of_plain_types
    return made


def inner(function: Any) -> Any:
    """A function that is called. Numba would otherwise inline it if the first caller that it compiles is inlined."""
    return _function(function, inline=False)


def inlined(function: Any) -> Any:
    """A function that is inlined, which saves the call and the look at whether it failed.

    Numba's functions are visible from outside, so LLVM inlines not even those with one caller by itself.
    """
    return _function(function, inline=True)


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
