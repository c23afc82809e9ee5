"""Integer arithmetic: add, sub, mul, mad, div, rem, min, max, abs, neg, carry chains, sad, dot products, 16-bit pairs.

Division by zero gives all ones and its remainder the dividend; the most negative number divided by -1 wraps (PTX leaves both open).
32-bit division goes through f64, which is exact for it and vectorises.
Source: PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision Integer Arithmetic Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.base import check, halves, handles, pack, type_of, write
from farlane.backend.jit.lowering.ir import BITS, PTX_LLVM, SIGNED, Val, integer
from farlane.backend.jit.ptx.model import Instruction

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

TYPES = {"u16", "s16", "u32", "s32", "u64", "s64", "b32", "b64", "b16"}
_PAIRS = {"u16x2", "s16x2"}
_WIDER = {"i8": "i16", "i16": "i32", "i32": "i64", "i64": "i128"}
_CARRY = "%carry"


def _by_halves(e: Emitter, i: Instruction, compute: Callable[[Val, Val], Val]) -> None:
    """Two 16-bit integers in one register."""
    x, y = (halves(e, source, "i16") for source in i.sources)
    write(e, i, pack(e, compute(x[0], y[0]), compute(x[1], y[1])))


def _inverted(e: Emitter, flag: Val) -> Val:
    return e.body.bin("xor", flag, integer(1, "i1"))


def _carry_in(e: Emitter, kind: str, borrow: bool = False) -> Val:
    flag = e.body.load("i1", True, e.slot(_CARRY, "i1", True))
    return e.body.cast("zext", _inverted(e, flag) if borrow else flag, kind)


def _carry_out(e: Emitter, carry: Val) -> None:
    b = e.body
    slot = e.slot(_CARRY, "i1", True)
    carry = b.splat(carry)
    if e.mask is not None:
        carry = b.select(e.mask, carry, b.load("i1", True, slot))
    b.store(carry, slot)


def add_sub(e: Emitter, i: Instruction) -> None:
    """add, sub, addc, subc on integers."""
    check(e, i, TYPES | _PAIRS | {"cc", "sat"}, 2)
    b = e.body
    if i.modifiers[-1] in _PAIRS:
        _by_halves(e, i, lambda x, y: b.bin(i.base, x, y))
        return
    name, kind = type_of(e, i)
    x, y = e.read(i.sources[0], kind), e.read(i.sources[1], kind)
    subtract = i.base.startswith("sub")
    if "sat" in i.modifiers:
        write(e, i, b.call("ssub.sat" if subtract else "sadd.sat", kind, [x, y]), name)
        return
    operation = "sub" if subtract else "add"
    result = b.bin(operation, x, y)
    if "cc" not in i.modifiers and not i.base.endswith("c"):
        write(e, i, result, name)
        return
    # GPUs subtract by adding the complement, and CC holds what that addition carries: no borrow. The manual leaves it open what an
    # addition reads there; nvcc's division of 128-bit integers relies on it.
    carry = b.icmp("ult", x, y) if subtract else b.icmp("ult", result, x)
    if i.base.endswith("c"):
        incoming = _carry_in(e, kind, subtract)
        total = b.bin(operation, result, incoming)
        more = b.icmp("ult", result, incoming) if subtract else b.icmp("ult", total, result)
        carry, result = b.bin("or", carry, more), total
    if "cc" in i.modifiers:
        _carry_out(e, _inverted(e, carry) if subtract else carry)
    write(e, i, result, name)


handles("addc", "subc")(add_sub)


def high(e: Emitter, x: Val, y: Val, signed: bool) -> Val:
    """The upper half of a product."""
    b = e.body
    kind = x.type
    if kind == "i64" and (x.vec or y.vec):
        return _high64(e, x, y, signed)
    wide = _WIDER[kind]
    product = b.bin("mul", b.resize(x, wide, signed), b.resize(y, wide, signed))
    return b.cast("trunc", b.bin("lshr", product, integer(BITS[kind], wide)), kind)


def _high64(e: Emitter, x: Val, y: Val, signed: bool) -> Val:
    """Schoolbook on 32-bit halves: vectors of i128 would be scalarised."""
    b = e.body
    low = integer(0xFFFF_FFFF, "i64")
    half = integer(32, "i64")
    x0, x1 = b.bin("and", x, low), b.bin("lshr", x, half)
    y0, y1 = b.bin("and", y, low), b.bin("lshr", y, half)
    p00, p01, p10, p11 = b.bin("mul", x0, y0), b.bin("mul", x0, y1), b.bin("mul", x1, y0), b.bin("mul", x1, y1)
    middle = b.bin("add", b.bin("add", b.bin("lshr", p00, half), b.bin("and", p01, low)), b.bin("and", p10, low))
    upper = b.bin("add", b.bin("add", p11, b.bin("lshr", p01, half)), b.bin("lshr", p10, half))
    result = b.bin("add", upper, b.bin("lshr", middle, half))
    if signed:
        zero = integer(0, "i64")
        result = b.bin("sub", result, b.select(b.icmp("slt", x, zero), y, zero))
        result = b.bin("sub", result, b.select(b.icmp("slt", y, zero), x, zero))
    return result


def multiply(e: Emitter, i: Instruction) -> None:
    """mul.{lo,hi,wide}, mad, madc on integers."""
    check(e, i, TYPES | {"lo", "hi", "wide", "cc", "sat"})
    name, kind = type_of(e, i)
    if "sat" in i.modifiers and (i.base != "mad" or i.modifiers != ("hi", "sat", "s32")):
        raise e.fail(f"unsupported {i.text}")
    b = e.body
    signed = name in SIGNED
    x, y = e.read(i.sources[0], kind), e.read(i.sources[1], kind)
    if "wide" in i.modifiers:
        kind = _WIDER[kind]
        result = b.bin("mul", b.resize(x, kind, signed), b.resize(y, kind, signed))
    elif "hi" in i.modifiers:
        result = high(e, x, y, signed)
    else:
        result = b.bin("mul", x, y)
    if i.base != "mul":
        addend = e.read(i.sources[2], kind)
        if "sat" in i.modifiers:
            write(e, i, b.call("sadd.sat", kind, [result, addend]), name)
            return
        total = b.bin("add", result, addend)
        if "cc" not in i.modifiers and i.base == "mad":
            write(e, i, total, name)
            return
        carry = b.icmp("ult", total, result)
        if i.base == "madc":
            incoming = _carry_in(e, kind)
            result = b.bin("add", total, incoming)
            carry = b.bin("or", carry, b.icmp("ult", result, total))
        else:
            result = total
        if "cc" in i.modifiers:
            _carry_out(e, carry)
    write(e, i, result, name)


handles("madc")(multiply)


@handles("mul24", "mad24")
def multiply24(e: Emitter, i: Instruction) -> None:
    check(e, i, {"lo", "hi", "sat", "u32", "s32"})
    name, kind = type_of(e, i)
    if "sat" in i.modifiers and i.text != "mad24.hi.sat.s32":
        raise e.fail(f"unsupported {i.text}")
    b = e.body
    signed = name in SIGNED

    def narrow(value: Val) -> Val:
        shifted = b.bin("shl", value, integer(8, "i32"))
        return b.resize(b.bin("ashr" if signed else "lshr", shifted, integer(8, "i32")), "i64", signed)

    product = b.bin("mul", narrow(e.read(i.sources[0], kind)), narrow(e.read(i.sources[1], kind)))
    if "hi" in i.modifiers:
        product = b.bin("lshr", product, integer(16, "i64"))
    result = b.cast("trunc", product, "i32")
    if i.base == "mad24":
        addend = e.read(i.sources[2], kind)
        saturating = "sat" in i.modifiers
        result = b.call("sadd.sat", kind, [result, addend]) if saturating else b.bin("add", result, addend)
    write(e, i, result, name)


def divide(e: Emitter, i: Instruction) -> None:
    """div and rem on integers."""
    check(e, i, TYPES, 2)
    name, kind = type_of(e, i)
    b = e.body
    x, y = e.read(i.sources[0], kind), e.read(i.sources[1], kind)
    signed = name in SIGNED
    zero = b.icmp("eq", y, integer(0, kind))
    quotient = _quotient32(e, x, y, signed) if BITS[kind] <= 32 and (x.vec or y.vec) else _quotient(e, x, y, signed)
    quotient = b.select(zero, integer(-1, kind), quotient)
    if i.base == "div":
        write(e, i, quotient, name)
        return
    remainder = b.bin("sub", x, b.bin("mul", quotient, y))
    write(e, i, b.select(zero, x, remainder), name)


handles("rem")(divide)


def _quotient32(e: Emitter, x: Val, y: Val, signed: bool) -> Val:
    """Truncated quotient through f64: 2^32 / y is far enough from the next integer that rounding never reaches it."""
    b = e.body
    to_float = "sitofp" if signed else "uitofp"
    y = b.select(b.icmp("eq", y, integer(0, y.type)), integer(1, y.type), y)
    quotient = b.bin("fdiv", b.cast(to_float, x, "double"), b.cast(to_float, y, "double"))
    # -2^31 / -1 does not fit s32: convert through i64.
    return b.cast("trunc", b.cast("fptosi", quotient, "i64"), x.type)


def _quotient(e: Emitter, x: Val, y: Val, signed: bool) -> Val:
    b = e.body
    one = integer(1, y.type)
    bad = b.icmp("eq", y, integer(0, y.type))
    if not signed:
        return b.bin("udiv", x, b.select(bad, one, y))
    minus = b.icmp("eq", y, integer(-1, y.type))
    safe = b.select(b.bin("or", bad, minus), one, y)
    return b.select(minus, b.neg(x), b.bin("sdiv", x, safe))


def min_max(e: Emitter, i: Instruction) -> None:
    """min and max on integers."""
    check(e, i, TYPES | _PAIRS | {"relu"}, 2)
    b = e.body
    # .relu stands before or after the type.
    name = next((item for item in reversed(i.modifiers) if item != "relu"), "")
    signed = name in SIGNED | {"s16x2"}
    if name not in TYPES | _PAIRS or ("relu" in i.modifiers and name not in ("s32", "s16x2")):
        raise e.fail(f"unsupported {i.text}")

    def compute(x: Val, y: Val) -> Val:
        result = b.call(("s" if signed else "u") + i.base, x.type, [x, y])
        return b.call("smax", x.type, [result, integer(0, x.type)]) if "relu" in i.modifiers else result

    if name in _PAIRS:
        _by_halves(e, i, compute)
        return
    kind = PTX_LLVM[name]
    write(e, i, compute(e.read(i.sources[0], kind), e.read(i.sources[1], kind)), name)


def abs_neg(e: Emitter, i: Instruction) -> None:
    """abs and neg on integers."""
    check(e, i, TYPES, 1)
    name, kind = type_of(e, i)
    value = e.read(i.sources[0], kind)
    negative = e.body.neg(value)
    if i.base == "abs":
        negative = e.body.select(e.body.icmp("slt", value, integer(0, kind)), negative, value)
    write(e, i, negative, name)


@handles("sad")
def sum_of_absolute_difference(e: Emitter, i: Instruction) -> None:
    check(e, i, TYPES, 3)
    name, kind = type_of(e, i)
    b = e.body
    x, y = e.read(i.sources[0], kind), e.read(i.sources[1], kind)
    less = b.icmp("slt" if name in SIGNED else "ult", x, y)
    difference = b.select(less, b.bin("sub", y, x), b.bin("sub", x, y))
    write(e, i, b.bin("add", difference, e.read(i.sources[2], kind)), name)


@handles("dp4a", "dp2a")
def dot_product(e: Emitter, i: Instruction) -> None:
    check(e, i, {"u32", "s32", "lo", "hi"}, 3)
    b = e.body
    first, second = [modifier for modifier in i.modifiers if modifier in ("u32", "s32")]
    x, y, total = (e.read(source, "i32") for source in i.sources)

    def part(value: Val, shift: int, bits: int, signed: bool) -> Val:
        left = b.bin("shl", value, integer(32 - bits - shift, "i32"))
        return b.bin("ashr" if signed else "lshr", left, integer(32 - bits, "i32"))

    wide = 8 if i.base == "dp4a" else 16
    start = 16 if "hi" in i.modifiers else 0
    for index in range(32 // wide):
        a = part(x, index * wide, wide, first == "s32")
        c = part(y, start + index * 8, 8, second == "s32")
        total = b.bin("add", total, b.bin("mul", a, c))
    write(e, i, total, first)
