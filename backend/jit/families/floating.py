"""Float arithmetic: add, sub, mul, fma, mad, div, rcp, sqrt, rsqrt, min, max, abs, neg, copysign, approximations.

Round-to-nearest operations are IEEE operations of LLVM, never contracted or reassociated. Directed roundings of f32 sums and products
(expf uses one) go through f64 and the exact sign of the error; the others set the CPU's rounding mode in a helper. The approximate instructions are at
least as accurate as PTX asks.
Source: PTX ISA, "Floating Point Instructions", "Half Precision Floating Point Instructions"; Knuth, TAOCP 2, 4.2.2 (two-sum).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from farlane.backend.jit import approximations
from farlane.backend.jit.families import integer as integers
from farlane.backend.jit.families import narrow
from farlane.backend.jit.families.base import (
    HANDLERS,
    ROUNDINGS,
    check,
    clamp_negative,
    finish_float,
    flush,
    halves,
    handles,
    pack,
    read_float,
    saturate,
    type_of,
    write,
)
from farlane.backend.jit.ir import LANES, Val, floating, integer, real
from farlane.backend.jit.model import Instruction
from farlane.backend.jit.types import integer_of

if TYPE_CHECKING:
    from farlane.backend.jit.codegen import FunctionEmitter

FLOAT_TYPES = {"f32", "f64", "f16", "bf16", "f16x2", "bf16x2", "f32x2"}
_PACKED = {"f16x2": "half", "bf16x2": "bfloat"}
_COMMON = FLOAT_TYPES | ROUNDINGS | {"ftz", "sat"}


def _is_float(i: Instruction) -> bool:
    return bool(i.modifiers) and i.modifiers[-1] in FLOAT_TYPES


def rounding(i: Instruction) -> str:
    found = [modifier for modifier in i.modifiers if modifier in ROUNDINGS]
    return found[0] if found else "rn"


def _elementwise(e: FunctionEmitter, i: Instruction, compute: Callable[..., Val]) -> None:
    """Runs `compute` on the operands as f32 or f64; per element for packed types."""
    name = i.modifiers[-1]
    if name in _PACKED:
        pairs = [halves(e, source, _PACKED[name]) for source in i.sources]
        results = [_small(e, i, compute, [pair[half] for pair in pairs]) for half in range(2)]
        write(e, i, pack(e, *results))
    elif name == "f32x2":
        write(e, i, _pair(e, i, compute))
    else:
        _, kind = type_of(e, i)
        if kind in narrow.SMALL:
            write(e, i, _small(e, i, compute, [e.read(source, kind) for source in i.sources]))
        else:
            finish_float(e, i, compute(*(read_float(e, i, source, kind) for source in i.sources)))


def _small(e: FunctionEmitter, i: Instruction, compute: Callable[..., Val], operands: list[Val]) -> Val:
    """f16 and bf16: f32 has enough digits that rounding twice is harmless, except for fma (see _fma)."""
    if rounding(i) != "rn":
        raise e.fail(f"unsupported {i.text}")
    if "ftz" in i.modifiers:
        operands = [flush(e, value) for value in operands]
    result = compute(*(narrow.widen(e, value) for value in operands))
    if "sat" in i.modifiers:
        result = saturate(e, result)
    if "relu" in i.modifiers:
        result = clamp_negative(e, result)
    result = narrow.narrow(e, result, operands[0].type)
    return flush(e, result) if "ftz" in i.modifiers else result


def _pair(e: FunctionEmitter, i: Instruction, compute: Callable[..., Val]) -> Val:
    """Two f32 in one 64-bit register."""
    b = e.body
    whole = integer(0, "i64")
    sources = [e.read(source, "i64") for source in i.sources]
    for shift in (0, 32):
        operands = [
            b.bitcast(b.cast("trunc", b.bin("lshr", value, integer(shift, "i64")), "i32"), "float") for value in sources
        ]
        if "ftz" in i.modifiers:
            operands = [flush(e, value) for value in operands]
        result = compute(*operands)
        if "ftz" in i.modifiers:
            result = flush(e, result)
        bits = b.cast("zext", b.bitcast(result, "i32"), "i64")
        whole = b.bin("or", whole, b.bin("shl", bits, integer(shift, "i64")))
    return whole


def _either(base: str, integer_handler: Callable[[FunctionEmitter, Instruction], None]) -> Callable[[Any], Any]:
    """Registers a float handler that leaves integer types to another."""

    def decorate(
        handler: Callable[[FunctionEmitter, Instruction], None],
    ) -> Callable[[FunctionEmitter, Instruction], None]:
        def choose(e: FunctionEmitter, i: Instruction) -> None:
            (handler if _is_float(i) else integer_handler)(e, i)

        HANDLERS[base] = choose
        return handler

    return decorate


# Directed rounding ---------------------------------------------------------------------------------------------------
def two_sum(e: FunctionEmitter, x: Val, y: Val) -> tuple[Val, Val]:
    """Sum and its exact error."""
    b = e.body
    s = b.bin("fadd", x, y)
    t = b.bin("fsub", s, x)
    return s, b.bin("fadd", b.bin("fsub", x, b.bin("fsub", s, t)), b.bin("fsub", y, t))


def directed(e: FunctionEmitter, result: Val, error: Val, mode: str) -> Val:
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


def _neighbour(e: FunctionEmitter, value: Val, up: bool) -> Val:
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


def _round_to_float(e: FunctionEmitter, s: Val, error: Val, mode: str) -> Val:
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


def _zero_sum(e: FunctionEmitter, result: Val, x: Val, y: Val, mode: str) -> Val:
    """x + y = 0 exactly with x, y of opposite sign gives -0 in .rm."""
    if mode != "rm":
        return result
    b = e.body
    kind = integer_of(result.type)
    sign = integer(1 << (31 if kind == "i32" else 63), kind)
    either = b.bin("or", b.bitcast(x, integer_of(x.type)), b.bitcast(y, integer_of(y.type)))
    negative = b.icmp("slt", either, integer(0, either.type))
    zero = b.icmp("eq", b.bin("shl", b.bitcast(result, kind), integer(1, kind)), integer(0, kind))
    return b.select(b.bin("and", zero, negative), b.bitcast(sign, result.type), result)


def fma_rounded(e: FunctionEmitter, x: Val, y: Val, z: Val, mode: str) -> Val:
    """x * y + z in one of the four roundings."""
    b = e.body
    if mode == "rn":
        return b.call("fma", x.type, [x, y, z])
    if x.type == "double":
        return _hardware(e, "fma", [x, y, z], mode)
    product = b.bin("fmul", b.cast("fpext", x, "double"), b.cast("fpext", y, "double"))
    return _sum_to_float(e, product, b.cast("fpext", z, "double"), mode)


def add_rounded(e: FunctionEmitter, x: Val, y: Val, mode: str) -> Val:
    b = e.body
    if mode == "rn":
        return b.bin("fadd", x, y)
    if x.type == "double":
        return _hardware(e, "fadd", [x, y], mode)
    return _sum_to_float(e, b.cast("fpext", x, "double"), b.cast("fpext", y, "double"), mode)


def _sum_to_float(e: FunctionEmitter, x: Val, y: Val, mode: str) -> Val:
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


def _multiply_rounded(e: FunctionEmitter, x: Val, y: Val, mode: str) -> Val:
    b = e.body
    if mode == "rn":
        return b.bin("fmul", x, y)
    if x.type == "double":
        return _hardware(e, "fmul", [x, y], mode)
    product = b.bin("fmul", b.cast("fpext", x, "double"), b.cast("fpext", y, "double"))
    return _round_to_float(e, product, floating(0, "double"), mode)


def _divide_rounded(e: FunctionEmitter, x: Val, y: Val, mode: str) -> Val:
    return e.body.bin("fdiv", x, y) if mode == "rn" else _hardware(e, "fdiv", [x, y], mode)


def _sqrt_rounded(e: FunctionEmitter, x: Val, mode: str) -> Val:
    return e.body.call("sqrt", x.type, [x]) if mode == "rn" else _hardware(e, "sqrt", [x], mode)


def _hardware(e: FunctionEmitter, operation: str, operands: list[Val], mode: str) -> Val:
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


# Instructions --------------------------------------------------------------------------------------------------------
@_either("add", integers.add_sub)
def _add(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, _COMMON, 2)
    _elementwise(e, i, lambda x, y: add_rounded(e, x, y, rounding(i)))


@_either("sub", integers.add_sub)
def _sub(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, _COMMON, 2)
    mode = rounding(i)

    def compute(x: Val, y: Val) -> Val:
        return e.body.bin("fsub", x, y) if mode == "rn" else add_rounded(e, x, e.body.neg(y), mode)

    _elementwise(e, i, compute)


@_either("mul", integers.multiply)
def _mul(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, _COMMON, 2)
    _elementwise(e, i, lambda x, y: _multiply_rounded(e, x, y, rounding(i)))


@_either("mad", integers.multiply)
def _mad(e: FunctionEmitter, i: Instruction) -> None:
    _fma(e, i)


@handles("fma")
def _fma(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, _COMMON | {"relu"}, 3)
    if i.modifiers[-1] in ("f32", "f64", "f32x2"):
        _elementwise(e, i, lambda x, y, z: fma_rounded(e, x, y, z, rounding(i)))
    else:
        _elementwise(e, i, lambda x, y, z: _fma_to_odd(e, x, y, z))


def _fma_to_odd(e: FunctionEmitter, x: Val, y: Val, z: Val) -> Val:
    """x * y + z of 16-bit operands in f64, rounded to odd: the product is exact, the sum keeps a trace of what it lost."""
    b = e.body
    product = b.bin("fmul", b.cast("fpext", x, "double"), b.cast("fpext", y, "double"))
    s, error = two_sum(e, product, b.cast("fpext", z, "double"))
    return narrow.to_odd(e, s, error)


@_either("div", integers.divide)
def _div(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, {"f32", "f64", "ftz", "approx", "full"} | ROUNDINGS, 2)
    _elementwise(e, i, lambda x, y: _divide_rounded(e, x, y, rounding(i)))


@handles("rcp")
def _rcp(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, {"f32", "f64", "ftz", "approx"} | ROUNDINGS, 1)
    _elementwise(e, i, lambda x: _divide_rounded(e, real(1.0, x.type), x, rounding(i)))


@handles("sqrt")
def _sqrt(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, {"f32", "f64", "ftz", "approx"} | ROUNDINGS, 1)
    _elementwise(e, i, lambda x: _sqrt_rounded(e, x, rounding(i)))


@handles("rsqrt")
def _rsqrt(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, {"f32", "f64", "ftz", "approx"}, 1)
    _elementwise(e, i, lambda x: e.body.bin("fdiv", real(1.0, x.type), e.body.call("sqrt", x.type, [x])))


def _extreme(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, _COMMON | {"NaN", "abs", "xorsign"}, 2)
    if ("abs" in i.modifiers) != ("xorsign" in i.modifiers):
        raise e.fail(f"unsupported {i.text}")
    b = e.body
    operation = ("minimum" if i.base == "min" else "maximum") + ("" if "NaN" in i.modifiers else "num")

    def compute(x: Val, y: Val) -> Val:
        if "xorsign" not in i.modifiers:
            return b.call(operation, x.type, [x, y])
        # The sign is the product's, the rest comes from the magnitudes.
        kind = integer_of(x.type)
        signs = b.bitcast(b.bin("xor", b.bitcast(x, kind), b.bitcast(y, kind)), x.type)
        result = b.call(operation, x.type, [b.call("fabs", x.type, [x]), b.call("fabs", y.type, [y])])
        return b.call("copysign", x.type, [result, signs])

    _elementwise(e, i, compute)


_either("min", integers.min_max)(_extreme)
_either("max", integers.min_max)(_extreme)


@_either("abs", integers.abs_neg)
def _abs(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, _COMMON, 1)
    _elementwise(e, i, lambda x: e.body.call("fabs", x.type, [x]))


@_either("neg", integers.abs_neg)
def _neg(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, _COMMON, 1)
    _elementwise(e, i, lambda x: e.body.neg(x))


@handles("copysign")
def _copysign(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, {"f32", "f64"}, 2)
    _, kind = type_of(e, i)
    # PTX: the sign of the first operand, the magnitude of the second.
    sign, magnitude = e.read(i.sources[0], kind), e.read(i.sources[1], kind)
    write(e, i, e.body.call("copysign", kind, [magnitude, sign]))


@handles("testp")
def _testp(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, {"finite", "infinite", "number", "notanumber", "normal", "subnormal", "f32", "f64"}, 1)
    classes = {"finite": 504, "infinite": 516, "number": 1020, "notanumber": 3, "normal": 264, "subnormal": 144}
    _, kind = type_of(e, i)
    value = e.read(i.sources[0], kind)
    b = e.body
    shown = value.spelled_type
    full = f"@llvm.is.fpclass.{'v32' if value.vec else ''}{'f32' if kind == 'float' else 'f64'}"
    result = "<32 x i1>" if value.vec else "i1"
    e.kernel.declare(f"declare {result} {full}({shown}, i32 immarg)")
    write(e, i, b.op(f"call {result} {full}({value}, i32 {classes[i.modifiers[0]]})", "i1", value.vec))


@handles("ex2", "lg2", "sin", "cos", "tanh")
def _approximation(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, {"approx", "ftz", "f32", "f16", "f16x2", "bf16", "bf16x2"}, 1)
    function = approximations.FUNCTIONS[i.base]
    _elementwise(e, i, lambda x: function(e.body, x))
