"""Logic, shifts and bit fields.

PTX shift amounts are clamped to the width; LLVM's are undefined beyond it, so every shift is guarded.
Source: PTX ISA, "Logic and Shift Instructions", bit-field instructions of "Integer Arithmetic Instructions", prmt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.base import check, handles, type_of, write
from farlane.backend.jit.lowering.ir import BITS, SIGNED, Val, integer
from farlane.backend.jit.ptx.model import Instruction

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_BITS_TYPES = {"pred", "b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64"}


@handles("and", "or", "xor")
def logic(e: Emitter, i: Instruction) -> None:
    check(e, i, _BITS_TYPES, 2)
    name, kind = type_of(e, i)
    write(e, i, e.body.bin(i.base, e.read(i.sources[0], kind), e.read(i.sources[1], kind)), name)


@handles("not", "cnot")
def invert(e: Emitter, i: Instruction) -> None:
    check(e, i, _BITS_TYPES, 1)
    name, kind = type_of(e, i)
    value = e.read(i.sources[0], kind)
    if i.base == "cnot":
        result = e.body.cast("zext", e.body.icmp("eq", value, integer(0, kind)), kind)
    else:
        result = e.body.invert(value)
    write(e, i, result, name)


def shift_left(e: Emitter, value: Val, amount: Val) -> Val:
    """value << amount, 0 from the width on; `amount` has the value's type and is unsigned."""
    b = e.body
    width = integer(BITS[value.type], value.type)
    inside = b.icmp("ult", amount, width)
    shifted = b.bin("shl", value, b.bin("and", amount, integer(BITS[value.type] - 1, value.type)))
    return b.select(inside, shifted, integer(0, value.type))


def shift_right(e: Emitter, value: Val, amount: Val, signed: bool) -> Val:
    b = e.body
    top = integer(BITS[value.type] - 1, value.type)
    if signed:
        return b.bin("ashr", value, b.call("umin", value.type, [amount, top]))
    inside = b.icmp("ule", amount, top)
    return b.select(inside, b.bin("lshr", value, b.bin("and", amount, top)), integer(0, value.type))


@handles("shl", "shr")
def shift(e: Emitter, i: Instruction) -> None:
    check(e, i, _BITS_TYPES - {"pred"}, 2)
    name, kind = type_of(e, i)
    b = e.body
    value = e.read(i.sources[0], kind)
    amount32 = e.read(i.sources[1], "i32")
    # Clamp before narrowing, so that a large amount does not wrap into a small one.
    clamped = b.call("umin", "i32", [amount32, integer(BITS[kind], "i32")])
    amount = b.resize(clamped, kind)
    if i.base == "shl":
        write(e, i, shift_left(e, value, amount), name)
    else:
        write(e, i, shift_right(e, value, amount, name in SIGNED), name)


@handles("shf")
def funnel_shift(e: Emitter, i: Instruction) -> None:
    check(e, i, {"l", "r", "wrap", "clamp", "b32"}, 3)
    b = e.body
    low, high, amount = (e.read(source, "i32") for source in i.sources)
    wide = b.bin("or", b.bin("shl", b.cast("zext", high, "i64"), integer(32, "i64")), b.cast("zext", low, "i64"))
    if "wrap" in i.modifiers:
        amount = b.bin("and", amount, integer(31, "i32"))
    else:
        amount = b.call("umin", "i32", [amount, integer(32, "i32")])
    amount64 = b.cast("zext", amount, "i64")
    if "l" in i.modifiers:
        result = b.bin("lshr", b.bin("shl", wide, amount64), integer(32, "i64"))
    else:
        result = b.bin("lshr", wide, amount64)
    write(e, i, b.cast("trunc", result, "i32"))


@handles("lop3")
def lop3(e: Emitter, i: Instruction) -> None:
    check(e, i, {"b32", "and", "or"}, 4 if i.modifiers == ("b32",) else 5)
    b = e.body
    table = e.constant(i.sources[3])
    if table is None or not 0 <= table < 256:
        raise e.fail("lop3 with a truth table that is not a constant byte")
    inputs = [e.read(source, "i32") for source in i.sources[:3]]
    result = integer(0, "i32")
    for row in range(8):
        if table >> row & 1:
            term = integer(-1, "i32")
            for position, value in enumerate(inputs):
                term = b.bin("and", term, value if row >> (2 - position) & 1 else b.invert(value))
            result = b.bin("or", result, term)
    write(e, i, result)
    if len(i.sources) == 5:
        # lop3.BoolOp d|p: the predicate is (d != 0) BoolOp q.
        some = b.icmp("ne", result, integer(0, "i32"))
        write(e, i, b.bin(i.modifiers[0], some, e.read(i.sources[4], "i1")), "", 1)


@handles("prmt")
def permute(e: Emitter, i: Instruction) -> None:
    check(e, i, {"b32", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}, 3)
    b = e.body
    x, y, selector = (e.read(source, "i32") for source in i.sources)
    mode = next((item for item in i.modifiers if item != "b32"), "")
    wide = b.bin("or", b.bin("shl", b.cast("zext", y, "i64"), integer(32, "i64")), b.cast("zext", x, "i64"))
    known = e.constant(i.sources[2])
    result = integer(0, "i32")
    for index in range(4):
        if mode:
            choice = _mode_choice(e, mode, b.bin("and", selector, integer(3, "i32")), index)
        elif known is not None:
            choice = integer(known >> (4 * index) & 15, "i32")
        else:
            choice = b.bin("and", b.bin("lshr", selector, integer(4 * index, "i32")), integer(15, "i32"))
        shift_by = b.cast("zext", b.bin("shl", b.bin("and", choice, integer(7, "i32")), integer(3, "i32")), "i64")
        byte = b.bin("and", b.cast("trunc", b.bin("lshr", wide, shift_by), "i32"), integer(255, "i32"))
        sign = b.bin("ashr", b.bin("shl", byte, integer(24, "i32")), integer(31, "i32"))
        replicate = b.icmp("ne", b.bin("and", choice, integer(8, "i32")), integer(0, "i32"))
        byte = b.bin("and", b.select(replicate, sign, byte), integer(255, "i32"))
        result = b.bin("or", result, b.bin("shl", byte, integer(8 * index, "i32")))
    write(e, i, result)


def _mode_choice(e: Emitter, mode: str, amount: Val, index: int) -> Val:
    """The byte that the special modes of prmt select, by the low two bits of the selector."""
    tables = {
        "f4e": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
        "b4e": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
        "rc8": [[0] * 4, [1] * 4, [2] * 4, [3] * 4],
        "ecl": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
        "ecr": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
        "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
    }
    b = e.body
    result = integer(tables[mode][0][index], "i32")
    for value in range(1, 4):
        hit = b.icmp("eq", amount, integer(value, "i32"))
        result = b.select(hit, integer(tables[mode][value][index], "i32"), result)
    return result


@handles("bfe")
def extract(e: Emitter, i: Instruction) -> None:
    check(e, i, {"u32", "s32", "u64", "s64"}, 3)
    name, kind = type_of(e, i)
    b = e.body
    value = e.read(i.sources[0], kind)
    position = b.resize(b.bin("and", e.read(i.sources[1], "i32"), integer(255, "i32")), kind)
    length = b.resize(b.bin("and", e.read(i.sources[2], "i32"), integer(255, "i32")), kind)
    width = BITS[kind]
    signed = name in SIGNED
    # Shift right with the sign (or zeros), then keep `length` bits and extend from the last one that exists.
    shifted = shift_right(e, value, position, signed)
    kept = b.call("umin", kind, [length, integer(width, kind)])
    drop = b.bin("sub", integer(width, kind), kept)
    if signed:
        # Bits beyond the top replicate the sign, which shift_right already did.
        result = shift_right(e, shift_left(e, shifted, drop), drop, True)
    else:
        result = shift_right(e, shift_left(e, shifted, drop), drop, False)
    write(e, i, b.select(b.icmp("eq", length, integer(0, kind)), integer(0, kind), result), name)


@handles("bfi")
def insert(e: Emitter, i: Instruction) -> None:
    check(e, i, {"b32", "b64"}, 4)
    _, kind = type_of(e, i)
    b = e.body
    field, into = e.read(i.sources[0], kind), e.read(i.sources[1], kind)
    position = b.resize(b.bin("and", e.read(i.sources[2], "i32"), integer(255, "i32")), kind)
    length = b.resize(b.bin("and", e.read(i.sources[3], "i32"), integer(255, "i32")), kind)
    ones = b.invert(shift_left(e, integer(-1, kind), length))
    mask = shift_left(e, ones, position)
    result = b.bin("or", b.bin("and", shift_left(e, field, position), mask), b.bin("and", into, b.invert(mask)))
    write(e, i, result)


@handles("bmsk")
def bit_mask(e: Emitter, i: Instruction) -> None:
    check(e, i, {"clamp", "wrap", "b32"}, 2)
    b = e.body
    position, length = e.read(i.sources[0], "i32"), e.read(i.sources[1], "i32")
    if "wrap" in i.modifiers:
        position, length = (b.bin("and", value, integer(31, "i32")) for value in (position, length))
    ones = b.invert(shift_left(e, integer(-1, "i32"), length))
    write(e, i, shift_left(e, ones, position))


@handles("szext")
def sign_or_zero_extend(e: Emitter, i: Instruction) -> None:
    check(e, i, {"clamp", "wrap", "u32", "s32"}, 2)
    name, _ = type_of(e, i)
    b = e.body
    value, count = e.read(i.sources[0], "i32"), e.read(i.sources[1], "i32")
    if "wrap" in i.modifiers:
        count = b.bin("and", count, integer(31, "i32"))
    else:
        count = b.call("umin", "i32", [count, integer(32, "i32")])
    drop = b.bin("sub", integer(32, "i32"), count)
    write(e, i, shift_right(e, shift_left(e, value, drop), drop, name in SIGNED), name)


@handles("clz", "popc")
def count_bits(e: Emitter, i: Instruction) -> None:
    check(e, i, {"b32", "b64"}, 1)
    _, kind = type_of(e, i)
    value = e.read(i.sources[0], kind)
    if i.base == "clz":
        result = e.body.call("ctlz", kind, [value], "i1 false")
    else:
        result = e.body.call("ctpop", kind, [value])
    write(e, i, e.body.resize(result, "i32"))


@handles("brev")
def reverse(e: Emitter, i: Instruction) -> None:
    check(e, i, {"b32", "b64"}, 1)
    _, kind = type_of(e, i)
    write(e, i, e.body.call("bitreverse", kind, [e.read(i.sources[0], kind)]))


@handles("bfind")
def find_leading(e: Emitter, i: Instruction) -> None:
    check(e, i, {"shiftamt", "u32", "s32", "u64", "s64"}, 1)
    name, kind = type_of(e, i)
    b = e.body
    value = e.read(i.sources[0], kind)
    if name in SIGNED:
        value = b.bin("xor", value, b.bin("ashr", value, integer(BITS[kind] - 1, kind)))
    zeros = b.resize(b.call("ctlz", kind, [value], "i1 false"), "i32")
    if "shiftamt" in i.modifiers:
        result = zeros
    else:
        result = b.bin("sub", integer(BITS[kind] - 1, "i32"), zeros)
    none = b.icmp("eq", value, integer(0, kind))
    write(e, i, b.select(none, integer(-1, "i32"), result))


@handles("fns")
def find_nth_set(e: Emitter, i: Instruction) -> None:
    """The position of the |offset|-th set bit from `base` on, upwards or (offset < 0) downwards; the bit at base itself for offset 0."""
    check(e, i, {"b32"}, 3)
    b = e.body
    mask, base, offset = (e.read(source, "i32") for source in i.sources)
    zero, one, none = integer(0, "i32"), integer(1, "i32"), integer(-1, "i32")
    down = b.icmp("slt", offset, zero)
    left = b.bin("sub", b.select(down, b.bin("sub", zero, offset), offset), one)  # set bits still to pass
    step = b.select(down, none, one)
    position, found, at_base = base, none, none
    for distance in range(32):
        inside = b.icmp("ult", position, integer(32, "i32"))
        bit = b.bin("and", b.bin("lshr", mask, b.bin("and", position, integer(31, "i32"))), one)
        hit = b.bin("and", inside, b.icmp("ne", bit, zero))
        if distance == 0:
            at_base = b.select(hit, base, none)
        found = b.select(b.bin("and", hit, b.icmp("eq", left, zero)), position, found)
        left = b.select(hit, b.bin("sub", left, one), left)
        position = b.bin("add", position, step)
    write(e, i, b.select(b.icmp("eq", offset, zero), at_base, found))
