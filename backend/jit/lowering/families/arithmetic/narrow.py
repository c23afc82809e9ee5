"""16-bit float formats: conversion to and from f32 and f64, without library calls.

f16 and bf16 values are only carried in IR types `half` and `bfloat`; arithmetic happens in f32 or f64. f64 goes to a 16-bit format through
f32 rounded to odd, so that the second rounding decides as if it saw the exact value.
Source: Boldo and Melquiond, "Emulation of FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to Odd".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.ir import Val, floating, integer, integer_of, real

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

SMALL = ("half", "bfloat")


def widen(e: Emitter, value: Val, kind: str = "float") -> Val:
    """Exactly the same number as f32 or f64."""
    b = e.body
    if value.type == "bfloat":
        bits = b.bin("shl", b.cast("zext", b.bitcast(value, "i16"), "i32"), integer(16, "i32"))
        value = b.bitcast(bits, "float")
    elif value.type == "half":
        value = b.cast("fpext", value, "float")
    return value if value.type == kind else b.cast("fpext", value, kind)


def to_odd(e: Emitter, value: Val, error: Val) -> Val:
    """`value` (a nearest result) plus its error, rounded to odd: inexact results get an odd last bit."""
    b = e.body
    kind = integer_of(value.type)
    bits = b.bitcast(value, kind)
    one = integer(1, kind)
    even = b.icmp("eq", b.bin("and", bits, one), integer(0, kind))
    inexact = b.fcmp("one", error, floating(0, error.type))
    same_sign = b.icmp("sge", b.bin("xor", bits, b.bitcast(_match(e, error, value.type), kind)), integer(0, kind))
    stepped = b.bin("add", bits, b.select(same_sign, one, integer(-1, kind)))
    return b.bitcast(b.select(b.bin("and", even, inexact), stepped, bits), value.type)


def _match(e: Emitter, value: Val, kind: str) -> Val:
    """Same sign, in another float type."""
    if value.type == kind:
        return value
    return e.body.call("copysign", kind, [real(1.0, kind), e.body.cast("fptrunc", value, kind)])


def float_to_odd(e: Emitter, value: Val) -> Val:
    """f64 to f32 rounded to odd."""
    b = e.body
    nearest = b.cast("fptrunc", value, "float")
    back = b.cast("fpext", nearest, "double")
    infinite = b.fcmp("oeq", b.call("fabs", "double", [back]), real(float("inf"), "double"))
    exact = b.fcmp("ueq", back, value)
    # An overflow to infinity steps back to the largest number, whose last bit is odd.
    error = b.select(infinite, b.neg(back), b.bin("fsub", value, back))
    error = b.select(exact, floating(0, "double"), error)
    sign = b.select(b.fcmp("olt", error, floating(0, "double")), real(-1.0, "float"), real(1.0, "float"))
    sign = b.select(b.fcmp("oeq", error, floating(0, "double")), floating(0, "float"), sign)
    return to_odd(e, nearest, sign)


def narrow(e: Emitter, value: Val, kind: str) -> Val:
    """f32 or f64 to f16 or bf16, to nearest even."""
    b = e.body
    if value.type == "double":
        value = float_to_odd(e, value)
    if kind == "half":
        return b.cast("fptrunc", value, "half")
    bits = b.bitcast(value, "i32")
    last = b.bin("and", b.bin("lshr", bits, integer(16, "i32")), integer(1, "i32"))
    rounded = b.bin("add", bits, b.bin("add", last, integer(0x7FFF, "i32")))
    nan = b.fcmp("uno", value, value)
    top = b.bin("lshr", b.select(nan, b.bin("or", bits, integer(0x40_0000, "i32")), rounded), integer(16, "i32"))
    return b.bitcast(b.cast("trunc", top, "i16"), "bfloat")
