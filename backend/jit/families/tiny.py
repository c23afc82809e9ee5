"""8-bit float formats and tf32: rounding an f32 to them, and back.

e4m3 has no infinity (its NaN is 0x7f, its largest number 448), e5m2 is the upper byte of an f16. Conversions saturate, as PTX
demands for them. Values of these formats are carried in integers; tf32 is an f32 whose low 13 bits are ignored.
Source: PTX ISA, "Alternate Floating-Point Data Formats", "cvt"; OCP 8-bit Floating Point Specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.families import narrow
from farlane.backend.jit.ir import Val, floating, integer, real

if TYPE_CHECKING:
    from farlane.backend.jit.codegen import FunctionEmitter

# Name -> fraction bits, exponent bias, largest code.
FP8 = {"e4m3": (3, 7, 0x7E), "e5m2": (2, 15, 0x7B)}


def to_fp8(e: FunctionEmitter, value: Val, name: str) -> Val:
    """An f32 to the nearest (even) fp8 as i32; beyond the range the largest number, NaN as 0x7f."""
    b = e.body
    fraction, bias, largest = FP8[name]
    drop = 23 - fraction
    bits = b.bitcast(value, "i32")
    magnitude = b.bin("and", bits, integer(0x7FFF_FFFF, "i32"))
    odd = b.bin("and", b.bin("lshr", magnitude, integer(drop, "i32")), integer(1, "i32"))
    rounded = b.bin("add", magnitude, b.bin("add", odd, integer((1 << drop - 1) - 1, "i32")))
    normal = b.bin("sub", b.bin("lshr", rounded, integer(drop, "i32")), integer((127 - bias) << fraction, "i32"))
    # Below the smallest normal number the code counts multiples of the smallest subnormal one.
    size = b.bitcast(magnitude, "float")
    small = b.fcmp("olt", size, real(2.0 ** (1 - bias), "float"))
    steps = b.call("roundeven", "float", [b.bin("fmul", size, real(2.0 ** (bias - 1 + fraction), "float"))])
    count = b.cast("fptosi", b.select(small, steps, floating(0, "float")), "i32")
    code = b.select(small, count, b.call("smin", "i32", [normal, integer(largest, "i32")]))
    signed = b.bin("or", code, b.bin("and", b.bin("lshr", bits, integer(24, "i32")), integer(0x80, "i32")))
    return b.select(b.fcmp("uno", value, value), integer(0x7F, "i32"), signed)


def from_fp8(e: FunctionEmitter, code: Val, name: str) -> Val:
    """An fp8 (low 8 bits of an i32) as f32, exactly."""
    b = e.body
    code = b.bin("and", code, integer(0xFF, "i32"))
    if name == "e5m2":
        half = b.bitcast(b.cast("trunc", b.bin("shl", code, integer(8, "i32")), "i16"), "half")
        return narrow.widen(e, half)
    magnitude = b.bin("and", code, integer(0x7F, "i32"))
    # The fields in place, then one exact product moves the bias and normalises subnormal numbers.
    placed = b.bitcast(b.bin("shl", magnitude, integer(20, "i32")), "float")
    value = b.bin("fmul", placed, real(2.0**120, "float"))
    nan = b.icmp("eq", magnitude, integer(0x7F, "i32"))
    value = b.select(nan, floating(0x7FC0_0000, "float"), value)
    sign = b.bin("shl", b.bin("and", code, integer(0x80, "i32")), integer(24, "i32"))
    return b.bitcast(b.bin("or", b.bitcast(value, "i32"), sign), "float")


def to_tf32(e: FunctionEmitter, value: Val, mode: str, saturating: bool) -> Val:
    """An f32 rounded to 10 fraction bits, as i32; mode rn, rz or rna (halves away from zero)."""
    b = e.body
    bits = b.bitcast(value, "i32")
    rounded = bits
    if mode == "rna":
        rounded = b.bin("add", bits, integer(0x1000, "i32"))
    elif mode == "rn":
        odd = b.bin("and", b.bin("lshr", bits, integer(13, "i32")), integer(1, "i32"))
        rounded = b.bin("add", bits, b.bin("add", odd, integer(0xFFF, "i32")))
    rounded = b.bin("and", rounded, integer(-0x2000, "i32"))
    magnitude = b.bin("and", rounded, integer(0x7FFF_FFFF, "i32"))
    if saturating:
        over = b.icmp("uge", magnitude, integer(0x7F80_0000, "i32"))
        largest = b.bin("or", b.bin("and", bits, integer(1 << 31, "i32")), integer(0x7F7F_E000, "i32"))
        rounded = b.select(over, largest, rounded)
    return b.select(b.fcmp("uno", value, value), integer(0x7FFF_FFFF, "i32"), rounded)


def round_tf32(e: FunctionEmitter, value: Val) -> Val:
    """What a matrix operation sees of an f32 operand: its low 13 bits are dropped."""
    b = e.body
    return b.bitcast(b.bin("and", b.bitcast(value, "i32"), integer(-0x2000, "i32")), "float")
