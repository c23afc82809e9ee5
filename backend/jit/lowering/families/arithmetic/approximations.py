"""The approximate functions of the hardware, f32, scalar or one per lane: ex2, lg2, sin, cos, tanh.

Polynomials fitted by least squares at Chebyshev nodes, evaluated with fused multiply-add, so results are the same on every host.
Errors measured by tests/unit/jit/lowering/arithmetic/test_approximations.py: ex2 and lg2 within 2^-22 relative (lg2 absolute near 1), sin and cos
within 2^-21 absolute on [-pi, pi], tanh within 2^-11 relative; the bounds of the PTX manual are 2^-22, 2^-22, 2^-20.9 and 2^-11.
Source: PTX ISA, "Floating Point Instructions: ex2, lg2, sin, cos, tanh".
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.backend.jit.lowering.ir import Builder, Val, integer, real

_EX2 = (
    1.000000000592021, 0.6931472056005112, 0.24022646608713882, 0.05550328997517822, 0.009618519534350866,
    0.0013399860363030316, 0.00015337576834180815,
)  # fmt: skip
_LG2 = (
    1.4426950409152455, -0.7213473515646468, 0.48089821265206345, -0.3606966287136123, 0.28856889614312053,
    -0.23961904443630674, 0.20457529224102985, -0.19102498060009318, 0.18631209594266482, -0.11020159641329388,
)  # fmt: skip
_SIN = (
    6.283185307072581, -41.3417021169963, 81.60522630620056, -76.70428132120826, 42.009805720565225, -14.394135319979195,
)  # fmt: skip
_INFINITY = float("inf")


def _horner(b: Builder, x: Val, coefficients: tuple[float, ...]) -> Val:
    result = real(coefficients[-1], x.type)
    for coefficient in reversed(coefficients[:-1]):
        result = b.call("fma", x.type, [x, result, real(coefficient, x.type)])
    return result


def ex2(b: Builder, x: Val) -> Val:
    """2^x: integer part to the exponent (in two steps, so that subnormal results round once), fraction by polynomial."""
    # Comparisons are false for NaN, which then stays NaN through the polynomial.
    x = b.select(b.fcmp("ogt", x, real(130.0, "float")), real(130.0, "float"), x)
    x = b.select(b.fcmp("olt", x, real(-152.0, "float")), real(-152.0, "float"), x)
    whole = b.call("roundeven", "float", [x])
    fraction = b.bin("fsub", x, whole)
    power = _horner(b, fraction, _EX2)
    nan = b.fcmp("uno", x, x)
    exponent = b.cast("fptosi", b.select(nan, real(0.0, "float"), whole), "i32")
    half = b.bin("ashr", exponent, integer(1, "i32"))
    rest = b.bin("sub", exponent, half)
    for part in (half, rest):
        scale = b.bitcast(b.bin("shl", b.bin("add", part, integer(127, "i32")), integer(23, "i32")), "float")
        power = b.bin("fmul", power, scale)
    return power


def lg2(b: Builder, x: Val) -> Val:
    """log2(x): exponent plus polynomial of the mantissa in [sqrt(1/2), sqrt(2))."""
    small = b.fcmp("olt", x, real(2.0**-126, "float"))
    scaled = b.select(small, b.bin("fmul", x, real(2.0**32, "float")), x)
    bits = b.bitcast(scaled, "i32")
    # Subtracting the bits of sqrt(1/2) puts the exponent's step there.
    shifted = b.bin("sub", bits, integer(0x3F35_04F3, "i32"))
    exponent = b.bin("ashr", shifted, integer(23, "i32"))
    mantissa = b.bitcast(b.bin("sub", bits, b.bin("shl", exponent, integer(23, "i32"))), "float")
    t = b.bin("fsub", mantissa, real(1.0, "float"))
    exponent = b.bin("sub", exponent, b.select(small, integer(32, "i32"), integer(0, "i32")))
    result = b.call("fma", "float", [t, _horner(b, t, _LG2), b.cast("sitofp", exponent, "float")])
    zero = b.fcmp("oeq", x, real(0.0, "float"))
    result = b.select(zero, real(-_INFINITY, "float"), result)
    infinite = b.fcmp("oeq", x, real(_INFINITY, "float"))
    result = b.select(infinite, x, result)
    bad = b.fcmp("ult", x, real(0.0, "float"))  # negative or NaN; -0 compares equal to 0
    return b.select(bad, real(float("nan"), "float"), result)


def _turns(b: Builder, x: Val, shift: float) -> Val:
    """sin(x + 2 pi shift): the angle in turns, reduced in f64 to [-1/4, 1/4] by symmetry."""
    turns = b.bin("fmul", b.cast("fpext", x, "double"), real(0.15915494309189535, "double"))
    if shift:
        turns = b.bin("fadd", turns, real(shift, "double"))
    turns = b.bin("fsub", turns, b.call("roundeven", "double", [turns]))
    magnitude = b.call("fabs", "double", [turns])
    folded = b.bin("fsub", real(0.5, "double"), magnitude)
    smaller = b.select(b.fcmp("olt", folded, magnitude), folded, magnitude)
    r = b.cast("fptrunc", b.call("copysign", "double", [smaller, turns]), "float")
    return b.bin("fmul", r, _horner(b, b.bin("fmul", r, r), _SIN))


def sin(b: Builder, x: Val) -> Val:
    result = _turns(b, x, 0.0)
    # sin(-0) = -0, and tiny arguments keep their sign.
    return b.select(b.fcmp("oeq", x, real(0.0, "float")), x, result)


def cos(b: Builder, x: Val) -> Val:
    return _turns(b, x, 0.25)


def tanh(b: Builder, x: Val) -> Val:
    """1 - 2 / (e^2|x| + 1) with the sign of x; x - x^3 / 3 near zero."""
    magnitude = b.call("fabs", "float", [x])
    power = ex2(b, b.bin("fmul", magnitude, real(2.8853900817779268, "float")))
    quotient = b.bin("fdiv", real(2.0, "float"), b.bin("fadd", power, real(1.0, "float")))
    large = b.call("copysign", "float", [b.bin("fsub", real(1.0, "float"), quotient), x])
    cube = b.bin("fmul", b.bin("fmul", x, x), x)
    small = b.call("fma", "float", [cube, real(-1.0 / 3.0, "float"), x])
    return b.select(b.fcmp("olt", magnitude, real(0.04, "float")), small, large)


FUNCTIONS: dict[str, Callable[[Builder, Val], Val]] = {"ex2": ex2, "lg2": lg2, "sin": sin, "cos": cos, "tanh": tanh}
