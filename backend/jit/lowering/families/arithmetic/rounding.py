"""Sums, products, quotients and roots in the four rounding modes.

To nearest they are IEEE operations of LLVM. Directed roundings of f32 sums and products (expf uses one) go through f64 and the exact sign of the
error; the others set the CPU's rounding mode in a helper.
Source: PTX ISA, "Rounding Modifiers"; Knuth, TAOCP 2, 4.2.2 (two-sum).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.ir import Val, floating, integer, integer_of, real
from farlane.backend.jit.ptx.model import LANES

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter


def two_sum(e: Emitter, x: Val, y: Val) -> tuple[Val, Val]:
    """Sum and its exact error."""
    b = e.body
    s = b.bin("fadd", x, y)
    t = b.bin("fsub", s, x)
    return s, b.bin("fadd", b.bin("fsub", x, b.bin("fsub", s, t)), b.bin("fsub", y, t))


def directed(e: Emitter, result: Val, error: Val, mode: str) -> Val:
    """Moves a nearest result one step when the exact value (result + error) lies on the wrong side."""
    b = e.body
    kind = integer_of(result.type)
    zero = floating(0, error.type)
    below, above = b.fcmp("olt", error, zero), b.fcmp("ogt", error, zero)
    negative = b.icmp("slt", b.bitcast(result, kind), integer(0, kind))
    if mode == "rm":
        down, up = below, None
    elif mode == "rp":
        down, up = None, above
    else:
        # Toward zero: a positive result steps down, a negative one up. An exact zero has no error.
        down = b.bin("and", below, b.invert(negative))
        up = b.bin("and", above, negative)
    for step, towards_infinity in ((down, False), (up, True)):
        if step is not None:
            result = b.select(step, _neighbour(e, result, towards_infinity), result)
    return result


def _neighbour(e: Emitter, value: Val, up: bool) -> Val:
    """The next float up or down."""
    b = e.body
    kind = integer_of(value.type)
    bits = b.bitcast(value, kind)
    negative = b.icmp("slt", bits, integer(0, kind))
    away = b.invert(negative) if up else negative
    stepped = b.bin("add", bits, b.select(away, integer(1, kind), integer(-1, kind)))
    magnitude = b.bin("shl", bits, integer(1, kind))
    tiny = integer(1, kind) if up else integer((1 << (31 if kind == "i32" else 63)) | 1, kind)
    return b.bitcast(b.select(b.icmp("eq", magnitude, integer(0, kind)), tiny, stepped), value.type)


def _round_to_float(e: Emitter, s: Val, error: Val, mode: str) -> Val:
    """An f64 value plus a tiny f64 error, rounded to f32 in a direction."""
    b = e.body
    nearest = b.cast("fptrunc", s, "float")
    back = b.cast("fpext", nearest, "double")
    difference = b.bin("fsub", s, back)
    size = b.call("fabs", "double", [back])
    infinite = b.fcmp("oeq", size, real(float("inf"), "double"))
    exact = b.fcmp("oeq", s, back)
    # Rounding overflowed to an infinity that lies beyond the exact value.
    beyond = b.neg(b.call("copysign", "double", [real(1.0, "double"), back]))
    total = b.select(exact, error, b.select(infinite, beyond, difference))
    total = b.select(b.bin("and", exact, infinite), floating(0, "double"), total)
    return directed(e, nearest, total, mode)


def fma_rounded(e: Emitter, x: Val, y: Val, z: Val, mode: str) -> Val:
    """x * y + z in one of the four roundings."""
    b = e.body
    if mode == "rn":
        return b.call("fma", x.type, [x, y, z])
    if x.type == "double":
        return _hardware(e, "fma", [x, y, z], mode)
    product = b.bin("fmul", b.cast("fpext", x, "double"), b.cast("fpext", y, "double"))
    return _sum_to_float(e, product, b.cast("fpext", z, "double"), mode)


def add_rounded(e: Emitter, x: Val, y: Val, mode: str) -> Val:
    b = e.body
    if mode == "rn":
        return b.bin("fadd", x, y)
    if x.type == "double":
        return _hardware(e, "fadd", [x, y], mode)
    return _sum_to_float(e, b.cast("fpext", x, "double"), b.cast("fpext", y, "double"), mode)


def _sum_to_float(e: Emitter, x: Val, y: Val, mode: str) -> Val:
    """The sum of two f64 rounded once to f32."""
    b = e.body
    s, error = two_sum(e, x, y)
    result = _round_to_float(e, s, error, mode)
    if mode != "rm":
        return result
    # An exact zero from terms of opposite sign is -0 when rounding down.
    either = b.bin("or", b.bitcast(x, "i64"), b.bitcast(y, "i64"))
    negative = b.icmp("slt", either, integer(0, "i64"))
    zero = b.fcmp("oeq", s, floating(0, "double"))
    return b.select(b.bin("and", zero, negative), real(-0.0, "float"), result)


def multiply_rounded(e: Emitter, x: Val, y: Val, mode: str) -> Val:
    b = e.body
    if mode == "rn":
        return b.bin("fmul", x, y)
    if x.type == "double":
        return _hardware(e, "fmul", [x, y], mode)
    product = b.bin("fmul", b.cast("fpext", x, "double"), b.cast("fpext", y, "double"))
    return _round_to_float(e, product, floating(0, "double"), mode)


def divide_rounded(e: Emitter, x: Val, y: Val, mode: str) -> Val:
    return e.body.bin("fdiv", x, y) if mode == "rn" else _hardware(e, "fdiv", [x, y], mode)


def sqrt_rounded(e: Emitter, x: Val, mode: str) -> Val:
    return e.body.call("sqrt", x.type, [x]) if mode == "rn" else _hardware(e, "sqrt", [x], mode)


def _hardware(e: Emitter, operation: str, operands: list[Val], mode: str) -> Val:
    """An operation under the CPU's own rounding mode, in a helper that sets and restores it."""
    b = e.body
    kind = operands[0].type
    name = f"farlane_{operation}_{mode}_{kind}"
    vec = f"<{LANES} x {kind}>"
    if name not in e.kernel.helpers:
        suffix = "f32" if kind == "float" else "f64"
        intrinsic = f"@llvm.experimental.constrained.{operation}.v{LANES}{suffix}"
        types = ", ".join([vec] * len(operands))
        e.kernel.declare(f"declare {vec} {intrinsic}({types}, metadata, metadata)")
        e.kernel.declare("declare void @llvm.set.rounding(i32)")
        number = {"rz": 0, "rp": 2, "rm": 3}[mode]
        arguments = ", ".join(f"{vec} %v{index}" for index in range(len(operands)))
        e.kernel.helpers[name] = "\n".join(
            [
                f"define internal {vec} @{name}({arguments}) noinline strictfp {{",
                f"  call void @llvm.set.rounding(i32 {number}) strictfp",
                f'  %r = call {vec} {intrinsic}({arguments}, metadata !"round.dynamic", '
                'metadata !"fpexcept.ignore") strictfp',
                "  call void @llvm.set.rounding(i32 1) strictfp",
                f"  ret {vec} %r",
                "}",
            ]
        )
    shown = ", ".join(str(b.splat(value)) for value in operands)
    result = b.op(f"call {vec} @{name}({shown})", kind, True)
    return result if any(value.vec for value in operands) else b.lane(result)
