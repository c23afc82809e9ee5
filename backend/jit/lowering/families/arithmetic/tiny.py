"""Float formats of 8, 6 and 4 bits, scales and tf32: rounding an f32 to them, and back.

e4m3 has no infinity (its NaN is 0x7f, its largest number 448), e5m2 is the upper byte of an f16; e2m3, e3m2 and e2m1 have neither infinity nor
NaN. Conversions saturate, as PTX demands for them; what a format cannot hold of NaN is its largest number. ue8m0 is a power of two, without a sign. Values of
these formats are carried in integers; tf32 is an f32 whose low 13 bits are ignored.
Source: PTX ISA, "Alternate Floating-Point Data Formats", "cvt"; OCP 8-bit Floating Point and Microscaling Formats Specifications.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.arithmetic import narrow
from farlane.backend.jit.lowering.ir import Val, floating, integer, real

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

# Name -> fraction bits, exponent bias, largest code, what NaN is, the sign's bit.
FORMATS = {
    "e4m3": (3, 7, 0x7E, 0x7F, 7), "e5m2": (2, 15, 0x7B, 0x7F, 7), "e2m3": (3, 1, 0x1F, 0x1F, 5), "e3m2": (2, 3, 0x1F, 0x1F, 5),
    "e2m1": (1, 1, 0x07, 0x07, 3),
}  # fmt: skip
SCALE = "ue8m0"


def to_small(e: Emitter, value: Val, name: str, mode: str = "rn") -> Val:
    """An f32 to the nearest (even) number of a format, or (rz) the next one towards zero, as i32; beyond the range the largest number."""
    b = e.body
    fraction, bias, largest, nan, sign = FORMATS[name]
    drop = 23 - fraction
    bits = b.bitcast(value, "i32")
    magnitude = b.bin("and", bits, integer(0x7FFF_FFFF, "i32"))
    rounded = magnitude
    if mode == "rn":
        odd = b.bin("and", b.bin("lshr", magnitude, integer(drop, "i32")), integer(1, "i32"))
        rounded = b.bin("add", magnitude, b.bin("add", odd, integer((1 << drop - 1) - 1, "i32")))
    normal = b.bin("sub", b.bin("lshr", rounded, integer(drop, "i32")), integer((127 - bias) << fraction, "i32"))
    # Below the smallest normal number the code counts multiples of the smallest subnormal one.
    size = b.bitcast(magnitude, "float")
    small = b.fcmp("olt", size, real(2.0 ** (1 - bias), "float"))
    scaled = b.bin("fmul", size, real(2.0 ** (bias - 1 + fraction), "float"))
    steps = b.call("roundeven" if mode == "rn" else "trunc", "float", [scaled])
    count = b.cast("fptosi", b.select(small, steps, floating(0, "float")), "i32")
    code = b.select(small, count, b.call("smin", "i32", [normal, integer(largest, "i32")]))
    minus = b.bin("and", b.bin("lshr", bits, integer(31 - sign, "i32")), integer(1 << sign, "i32"))
    return b.select(b.fcmp("uno", value, value), integer(nan, "i32"), b.bin("or", code, minus))


def from_small(e: Emitter, code: Val, name: str) -> Val:
    """A number of a format (the low bits of an i32) as f32, exactly."""
    b = e.body
    fraction, bias, _, nan, sign = FORMATS[name]
    if name == "e5m2":
        code = b.bin("and", code, integer(0xFF, "i32"))
        half = b.bitcast(b.cast("trunc", b.bin("shl", code, integer(8, "i32")), "i16"), "half")
        return narrow.widen(e, half)
    magnitude = b.bin("and", code, integer((1 << sign) - 1, "i32"))
    # The fields in place, then one exact product moves the bias and normalises subnormal numbers.
    placed = b.bitcast(b.bin("shl", magnitude, integer(23 - fraction, "i32")), "float")
    value = b.bin("fmul", placed, real(2.0 ** (127 - bias), "float"))
    if name == "e4m3":
        value = b.select(b.icmp("eq", magnitude, integer(nan, "i32")), floating(0x7FC0_0000, "float"), value)
    minus = b.bin("shl", b.bin("and", code, integer(1 << sign, "i32")), integer(31 - sign, "i32"))
    return b.bitcast(b.bin("or", b.bitcast(value, "i32"), minus), "float")


def to_scale(e: Emitter, value: Val, mode: str, saturating: bool) -> Val:
    """The exponent of an f32's magnitude as ue8m0, rounded towards zero (rz) or up (rp); NaN is 0xff."""
    b = e.body
    magnitude = b.bin("and", b.bitcast(value, "i32"), integer(0x7FFF_FFFF, "i32"))
    code = b.bin("lshr", magnitude, integer(23, "i32"))
    if mode == "rp":
        rest = b.icmp("ne", b.bin("and", magnitude, integer(0x7F_FFFF, "i32")), integer(0, "i32"))
        above = b.icmp("ugt", magnitude, integer(0x40_0000, "i32"))  # 2^-127 is the least
        finite = b.icmp("ult", magnitude, integer(0x7F80_0000, "i32"))
        code = b.bin("add", code, b.cast("zext", b.bin("and", rest, b.bin("and", above, finite)), "i32"))
    if not saturating:
        return code
    number = b.icmp("ule", magnitude, integer(0x7F80_0000, "i32"))
    return b.select(number, b.call("umin", "i32", [code, integer(0xFE, "i32")]), code)


def from_scale(e: Emitter, code: Val) -> Val:
    """A ue8m0 (the low 8 bits of an i32) as f32, exactly."""
    b = e.body
    code = b.bin("and", code, integer(0xFF, "i32"))
    bits = b.select(
        b.icmp("eq", code, integer(0, "i32")), integer(0x40_0000, "i32"), b.bin("shl", code, integer(23, "i32"))
    )
    return b.bitcast(b.select(b.icmp("eq", code, integer(0xFF, "i32")), integer(0x7FFF_FFFF, "i32"), bits), "float")


def to_tf32(e: Emitter, value: Val, mode: str, saturating: bool) -> Val:
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
