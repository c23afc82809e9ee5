"""Video instructions: scalar (vadd, vshl, ...) and on packed bytes and half-words (vadd4, vabsdiff2, vset4, ...).

Every operation is exact in a wider type, then cut to its lane: saturated with .sat, wrapped without. .add sums the lanes onto the third
operand. Without .add the third operand would fill lanes that a mask leaves out; masks are refused. Fields of operands: ptx/operands.py.
Source: PTX ISA, "Video Instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.base import check, handles, write
from farlane.backend.jit.lowering.ir import BITS, Val, integer
from farlane.backend.jit.ptx.model import Instruction

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_TYPES = {"u32", "s32"}
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
_ARITHMETIC = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")
_SECOND = {"add", "min", "max"}


def _compute(e: Emitter, operation: str, x: Val, y: Val) -> Val:
    """One lane, exactly: x and y are of a type wide enough for any result."""
    b = e.body
    zero, one = integer(0, x.type), integer(1, x.type)
    if operation in ("vmin", "vmax"):
        return b.call("s" + operation[1:], x.type, [x, y])
    if operation == "vadd":
        return b.bin("add", x, y)
    if operation == "vavrg":
        # Half away from zero.
        total = b.bin("add", x, y)
        up = b.select(b.icmp("sge", total, zero), one, zero)
        return b.bin("ashr", b.bin("add", total, up), one)
    difference = b.bin("sub", x, y)
    if operation == "vsub":
        return difference
    return b.select(b.icmp("slt", difference, zero), b.neg(difference), difference)


def _clamp(e: Emitter, value: Val, bits: int, signed: bool) -> Val:
    b = e.body
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    value = b.call("smax", value.type, [value, integer(low, value.type)])
    return b.call("smin", value.type, [value, integer(high, value.type)])


def _lane(e: Emitter, value: Val, index: int, bits: int, signed: bool) -> Val:
    """Field `index` of a word, extended to i32."""
    b = e.body
    left = b.bin("shl", value, integer(32 - bits * (index + 1), "i32"))
    return b.bin("ashr" if signed else "lshr", left, integer(32 - bits, "i32"))


def packed(e: Emitter, i: Instruction) -> None:
    """vop{2,4}.dtype.atype.btype{.sat|.add} and vset{2,4}.atype.btype.cmp{.add}."""
    operation, count = i.base[:-1], int(i.base[-1])
    check(e, i, _TYPES | {"sat", "add"} | (_COMPARISONS if operation == "vset" else set()), 3)
    types = [item for item in i.modifiers if item in _TYPES]
    if len(types) != (2 if operation == "vset" else 3) or {"sat", "add"} <= set(i.modifiers):
        raise e.fail(f"unsupported {i.text}")
    b = e.body
    bits = 32 // count
    x, y, c = (e.read(source, "i32") for source in i.sources)
    added = "add" in i.modifiers
    result = c if added else integer(0, "i32")
    for index in range(count):
        a = _lane(e, x, index, bits, types[-2] == "s32")
        d = _lane(e, y, index, bits, types[-1] == "s32")
        if operation == "vset":
            comparison = next(item for item in i.modifiers if item in _COMPARISONS)
            # Lanes are extended exactly, so a signed comparison is right for both types.
            predicate = comparison if comparison in ("eq", "ne") else "s" + comparison
            value = b.cast("zext", b.icmp(predicate, a, d), "i32")
        else:
            value = _compute(e, operation, a, d)
            if "sat" in i.modifiers:
                value = _clamp(e, value, bits, types[0] == "s32")
        if added:
            result = b.bin("add", result, value)
        else:
            field = b.bin("and", value, integer((1 << bits) - 1, "i32"))
            result = b.bin("or", result, b.bin("shl", field, integer(index * bits, "i32")))
    write(e, i, result)


handles(*(f"{name}{count}" for name in (*_ARITHMETIC, "vset") for count in (2, 4)))(packed)


@handles("vmad")
def multiply(e: Emitter, i: Instruction) -> None:
    """vmad.dtype.atype.btype d, a, b, c: the low word, which is the same for all types."""
    check(e, i, _TYPES, 3)
    b = e.body
    x, y, c = (e.read(source, "i32") for source in i.sources)
    write(e, i, b.bin("add", b.bin("mul", x, y), c))


def _operands(e: Emitter, i: Instruction, count: int) -> tuple[list[str], str, Val, Val]:
    """The types, of which there must be so many and the last two are the operands'; the second operation; the operands' exact values."""
    types = [item for item in i.modifiers if item in _TYPES]
    second = next((item for item in i.modifiers if item in _SECOND), "")
    if len(types) != count or len(i.sources) != (3 if second else 2):
        raise e.fail(f"unsupported {i.text}")
    x, y = (
        e.body.resize(e.read(source, "i32"), "i64", name == "s32")
        for source, name in zip(i.sources, types[-2:], strict=False)
    )
    return types, second, x, y


@handles("vset")
def compare(e: Emitter, i: Instruction) -> None:
    """vset.atype.btype.cmp{.op2} d, a, b{, c}: whether a comparison of exact values holds."""
    check(e, i, _TYPES | _COMPARISONS | _SECOND)
    _, second, x, y = _operands(e, i, 2)
    b = e.body
    comparison = next(item for item in i.modifiers if item in _COMPARISONS)
    holds = b.icmp(comparison if comparison in ("eq", "ne") else "s" + comparison, x, y)
    write(e, i, _combined(e, i, b.cast("zext", holds, "i32"), second, False))


def _combined(e: Emitter, i: Instruction, result: Val, second: str, signed: bool) -> Val:
    """The second operation, with the third operand."""
    b = e.body
    if second == "add":
        return b.bin("add", result, e.read(i.sources[2], "i32"))
    if second:
        return b.call(("s" if signed else "u") + second, "i32", [result, e.read(i.sources[2], "i32")])
    return result


@handles("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr")
def scalar(e: Emitter, i: Instruction) -> None:
    """vop.dtype.atype.btype{.sat}{.op2} d, a, b{, c}."""
    check(e, i, _TYPES | _SECOND | {"sat", "clamp", "wrap"})
    types, second, x, y = _operands(e, i, 3)
    b = e.body
    if i.base in ("vshl", "vshr"):
        limit = integer(32, "i64")
        amount = b.bin("and", y, integer(31, "i64")) if "wrap" in i.modifiers else b.call("umin", "i64", [y, limit])
        if i.base == "vshl" and "sat" in i.modifiers:
            value = b.call("sshl.sat", "i64", [x, amount])  # 32 bits moved by 32 have no place for a sign
        else:
            value = b.bin("shl" if i.base == "vshl" else "ashr", x, amount)
    else:
        value = _compute(e, i.base, x, y)
    if "sat" in i.modifiers:
        value = _clamp(e, value, 32, types[0] == "s32")
    result = b.cast("trunc", value, "i32")
    assert BITS[result.type] == 32
    write(e, i, _combined(e, i, result, second, types[0] == "s32"))
