"""Operations on bits that Numba does not have, and the arrays of a model's state. Errors are a number (layout.V_ERROR)."""

from __future__ import annotations

import operator
from typing import Any

from farlane.backend.memory.tlb import layout
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_builtin, lower_getattr_generic, models, register_model
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


LANES = 8


def _word(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The address of a word of an array whose words lie side by side."""
    array = arrayobj.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


@_intrinsic
def equal(context: Any, words: Any, place: Any, value: Any) -> Any:
    """Which of the LANES words from a place on are the value, a bit for each."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, vector = ir.IntType(64), ir.VectorType(ir.IntType(64), LANES)
        first = builder.bitcast(_word(context, builder, signature, arguments), ir.PointerType(vector))
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[2], ir.Constant(ir.IntType(32), 0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        values = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), everywhere)
        found = builder.icmp_signed("==", builder.load(first, align=8), values)
        return builder.zext(builder.bitcast(found, ir.IntType(LANES)), word)

    return types.int64(words, types.int64, types.int64), code


@_intrinsic
def ahead(context: Any, words: Any, place: Any) -> Any:
    """Asks for a word that will be read soon. It need not be within the array."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, byte = ir.IntType(32), ir.PointerType(ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        where = builder.bitcast(_word(context, builder, signature, arguments), byte)
        builder.call(fetch, [where, *(ir.Constant(number, value) for value in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(words, types.int64), code


class Table(types.Type):
    """The address of the table of a model's arrays; each is an attribute, named as in layout.State."""

    def __init__(self) -> None:
        super().__init__(name="Table")


@register_model(Table)
class _TableModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.IntType(64))


class Fixed(types.Array):
    """The parameters: words that do not change while code runs, so that LLVM need not read them again behind each store."""


register_model(Fixed)(models.ArrayModel)


def _unchanging(builder: Any, place: Any) -> Any:
    word = builder.load(place)
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


@lower_builtin(operator.getitem, Fixed, types.Integer)
def _parameter(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _unchanging(builder, _word(context, builder, signature, arguments))


def _kind(name: str) -> Any:
    kind = Fixed if name == "parameters" else types.Array
    return kind(types.int64, layout.DIMENSIONS.get(name, 2), "C")


@infer_getattr
class _TableAttributes(AttributeTemplate):
    key = Table

    def generic_resolve(self, typ: Any, attr: str) -> Any:  # type: ignore[override]
        return _kind(attr) if attr in layout.State._fields else None


@lower_getattr_generic(Table)
def _array(context: Any, builder: Any, table: Any, address: Any, name: str) -> Any:
    """Addresses and lengths are read from the table, which does not change while code runs."""
    word, kind = ir.IntType(64), _kind(name)
    first = layout.COLUMNS * layout.State._fields.index(name)
    rows = builder.inttoptr(address, ir.PointerType(word))
    columns = (ir.Constant(word, first + column) for column in range(1 + kind.ndim))
    row = [_unchanging(builder, builder.gep(rows, [column])) for column in columns]
    if name in layout.LAST:
        row[-1] = context.get_constant(types.intp, layout.LAST[name])
    size = context.get_constant(types.intp, 8)
    strides = [size]
    for length in reversed(row[2:]):
        strides.insert(0, builder.mul(strides[0], length))
    array = arrayobj.make_array(kind)(context, builder)
    data = builder.inttoptr(row[0], array.data.type)
    arrayobj.populate_array(array, data=data, shape=row[1:], strides=strides, itemsize=size, meminfo=None)
    return array._getvalue()


@_intrinsic
def state(context: Any, address: Any) -> Any:
    """The arrays of the table at an address. Functions are given the address: that many arrays as arguments would be copied at each call."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    return Table()(types.int64), code
