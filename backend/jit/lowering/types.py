"""PTX types, the LLVM types that hold them, and the conversions a register read implies.

Source: PTX ISA, "Types" and "Operand Size Exceeding Instruction-Type Size".
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.backend.jit.lowering.ir import BITS, FLOATS, Builder, Val
from farlane.backend.jit.ptx.declarations import UnsupportedError

REGISTER_LLVM = {
    "pred": "i1",
    "b16": "i16",
    "b32": "i32",
    "b64": "i64",
    "f32": "float",
    "f64": "double",
    "b128": "i128",
}

PTX_LLVM = {
    "pred": "i1", "b8": "i8", "u8": "i8", "s8": "i8", "b16": "i16", "u16": "i16", "s16": "i16", "b32": "i32", "u32": "i32",
    "s32": "i32", "b64": "i64", "u64": "i64", "s64": "i64", "f16": "half", "f32": "float", "f64": "double", "b128": "i128",
    "bf16": "bfloat", "f16x2": "i32", "bf16x2": "i32",
}  # fmt: skip
SIGNED = {"s8", "s16", "s32", "s64"}
_INTEGER_OF = {8: "i8", 16: "i16", 32: "i32", 64: "i64", 128: "i128", 1: "i1"}


def integer_of(kind: str) -> str:
    """The integer type of the same width."""
    return _INTEGER_OF[BITS[kind]]


def convert(b: Builder, value: Val, kind: str, fail: Callable[[str], UnsupportedError]) -> Val:
    """Reads a register as a type of the same or a smaller width."""
    if value.type == kind:
        return value
    have, want = BITS[value.type], BITS[kind]
    if want > have or (1 in (have, want) and have != want):
        raise fail(f"a register of {have} bits is read as {want} bits")
    if value.type in FLOATS:
        value = b.bitcast(value, integer_of(value.type))
    if want < have:
        value = b.cast("trunc", value, _INTEGER_OF[want])
    return b.bitcast(value, kind)


def widen(b: Builder, value: Val, register: str, signed: bool) -> Val:
    """A result as a register type of the same or a larger width."""
    target = REGISTER_LLVM[register]
    if value.type == target:
        return value
    if value.type in FLOATS:
        value = b.bitcast(value, integer_of(value.type))
    if BITS[value.type] != BITS[target]:
        value = b.resize(value, integer_of(target), signed)
    return b.bitcast(value, target)
