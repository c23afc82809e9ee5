"""How Numba compiles the models that become object files (`native`): the units' packages named `compiled`, to LLVM's code, which optimising.py makes objects of.

No wrappers for Python: what calls this is machine code. No reference counts: nothing is allocated. Nothing is raised: errors are numbers. No index is below zero.
Every unit's object is made anew when this file changes.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
from farlane.backend.memory.optimising import TABLE
from llvmlite import ir
from numba import njit, types
from numba.core import config
from numba.extending import intrinsic
from numba.np import arrayobj

OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
_intrinsic: Any = intrinsic


def inner(function: Any) -> Any:
    """A function of compiled code. Numba would make another one of it for each constant that it is called with."""
    made: Any = njit(**OPTIONS)(function)
    of_types = made.get_call_template

    def of_plain_types(arguments: Any, keywords: Any) -> Any:
        return of_types([types.unliteral(argument) for argument in arguments], keywords)

    made.get_call_template = of_plain_types
    return made


leaf: Any = njit(forceinline=True, **OPTIONS)


def portable(package: str) -> tuple[str, bytes]:
    """The name of a unit's entry, and its LLVM code as Numba makes it: nothing is optimised yet (optimising.py)."""
    llvm.add_symbol(TABLE, 1)  # Numba would look for it; what it links is never run
    with _unoptimised(), _indices_from_zero():
        text, symbol = importlib.import_module(f"{package}.run").text()
    return symbol, bytes(llvm.parse_assembly(text).as_bitcode())


@contextlib.contextmanager
def _unoptimised() -> Iterator[None]:
    """Numba leaves what it makes as it is."""
    settings: Any = config
    before, settings.OPT = settings.OPT, type(settings.OPT)(0)
    try:
        yield
    finally:
        settings.OPT = before


@contextlib.contextmanager
def _indices_from_zero() -> Iterator[None]:
    """An index below zero would count from the end, as in Python, and every access would look for one. Compiled code has none."""
    module: Any = arrayobj
    before = module.fix_integer_index

    def plain(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
        return context.cast(builder, index, kind, types.intp)

    module.fix_integer_index = plain
    try:
        yield
    finally:
        module.fix_integer_index = before


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
