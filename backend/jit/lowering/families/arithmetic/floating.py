"""Float arithmetic: add, sub, mul, fma, mad, div, rcp, sqrt, rsqrt, min, max, abs, neg, copysign, approximations.

Nothing is contracted or reassociated. The approximate instructions are at least as accurate as PTX asks.
Source: PTX ISA, "Floating Point Instructions", "Half Precision Floating Point Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.lowering.families.arithmetic import approximations, narrow
from farlane.backend.jit.lowering.families.arithmetic import integer as integers
from farlane.backend.jit.lowering.families.arithmetic.rounding import (
    add_rounded,
    divide_rounded,
    fma_rounded,
    multiply_rounded,
    sqrt_rounded,
    two_sum,
)
from farlane.backend.jit.lowering.families.base import (
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
from farlane.backend.jit.lowering.families.tensors.tensor_pieces import OUTSIDE
from farlane.backend.jit.lowering.ir import Val, integer, integer_of, real
from farlane.backend.jit.ptx.model import Instruction

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

FLOAT_TYPES = {"f32", "f64", "f16", "bf16", "f16x2", "bf16x2", "f32x2"}
_PACKED = {"f16x2": "half", "bf16x2": "bfloat"}
_MIXED = {"add", "sub", "fma"}
_COMMON = FLOAT_TYPES | ROUNDINGS | {"ftz", "sat"}


def _is_float(i: Instruction) -> bool:
    return bool(i.modifiers) and i.modifiers[-1] in FLOAT_TYPES


def _is_mixed(i: Instruction) -> bool:
    """.f32.f16 and .f32.bf16: what is added to has 32 bits."""
    return i.modifiers[-2:] in (("f32", "f16"), ("f32", "bf16"))


def _mixed(e: Emitter, i: Instruction, compute: Callable[..., Val]) -> None:
    """The last operand is an f32, the others are widened."""
    kind = "half" if i.modifiers[-1] == "f16" else "bfloat"
    values = [narrow.widen(e, e.read(source, kind)) for source in i.sources[:-1]]
    finish_float(e, i, compute(*values, e.read(i.sources[-1], "float")))


def rounding(i: Instruction) -> str:
    found = [modifier for modifier in i.modifiers if modifier in ROUNDINGS]
    return found[0] if found else "rn"


def _elementwise(e: Emitter, i: Instruction, compute: Callable[..., Val]) -> None:
    """Runs `compute` on the operands as f32 or f64; per element for packed types."""
    name = i.modifiers[-1]
    if _is_mixed(i):
        if i.base not in _MIXED or "ftz" in i.modifiers:
            raise e.fail(f"unsupported {i.text}")
        _mixed(e, i, compute)
    elif sum(item in FLOAT_TYPES for item in i.modifiers) != 1:
        raise e.fail(f"unsupported {i.text}")
    elif name in _PACKED:
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


def _small(e: Emitter, i: Instruction, compute: Callable[..., Val], operands: list[Val]) -> Val:
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
    if "oob" in i.modifiers:
        result = _without_outside(e, operands[:2], result)
    return flush(e, result) if "ftz" in i.modifiers else result


def _without_outside(e: Emitter, factors: list[Val], result: Val) -> Val:
    """.oob: 0 where a factor is what a tensor copy gave for an element outside of its tensor."""
    b = e.body
    bits = b.bitcast(result, "i16")
    for factor in factors:
        size = b.bin("and", b.bitcast(factor, "i16"), integer(0x7FFF, "i16"))
        bits = b.select(b.icmp("eq", size, integer(OUTSIDE, "i16")), integer(0, "i16"), bits)
    return b.bitcast(bits, result.type)


def _pair(e: Emitter, i: Instruction, compute: Callable[..., Val]) -> Val:
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


def _either(base: str, integer_handler: Callable[[Emitter, Instruction], None]) -> Callable[[Any], Any]:
    """Registers a float handler that leaves integer types to another."""

    def decorate(
        handler: Callable[[Emitter, Instruction], None],
    ) -> Callable[[Emitter, Instruction], None]:
        def choose(e: Emitter, i: Instruction) -> None:
            (handler if _is_float(i) else integer_handler)(e, i)

        HANDLERS[base] = choose
        return handler

    return decorate


# Instructions --------------------------------------------------------------------------------------------------------
@_either("add", integers.add_sub)
def _add(e: Emitter, i: Instruction) -> None:
    check(e, i, _COMMON, 2)
    _elementwise(e, i, lambda x, y: add_rounded(e, x, y, rounding(i)))


@_either("sub", integers.add_sub)
def _sub(e: Emitter, i: Instruction) -> None:
    check(e, i, _COMMON, 2)
    mode = rounding(i)

    def compute(x: Val, y: Val) -> Val:
        return e.body.bin("fsub", x, y) if mode == "rn" else add_rounded(e, x, e.body.neg(y), mode)

    _elementwise(e, i, compute)


@_either("mul", integers.multiply)
def _mul(e: Emitter, i: Instruction) -> None:
    check(e, i, _COMMON, 2)
    _elementwise(e, i, lambda x, y: multiply_rounded(e, x, y, rounding(i)))


@_either("mad", integers.multiply)
def _mad(e: Emitter, i: Instruction) -> None:
    _fma(e, i)


@handles("fma")
def _fma(e: Emitter, i: Instruction) -> None:
    check(e, i, _COMMON | {"relu", "oob"}, 3)
    if "oob" in i.modifiers and (_is_mixed(i) or i.modifiers[-1] not in ("f16", "f16x2", "bf16", "bf16x2")):
        raise e.fail(f"unsupported {i.text}")
    if _is_mixed(i) or i.modifiers[-1] in ("f32", "f64", "f32x2"):
        _elementwise(e, i, lambda x, y, z: fma_rounded(e, x, y, z, rounding(i)))
    else:
        wide = "float" if i.modifiers[-1] in ("f16", "f16x2") else "double"
        _elementwise(e, i, lambda x, y, z: _fma_to_odd(e, x, y, z, wide))


def _fma_to_odd(e: Emitter, x: Val, y: Val, z: Val, wide: str) -> Val:
    """x * y + z of 16-bit operands, rounded to odd: the product is exact, the sum keeps a trace of what it lost.

    In f32 for f16, whose products have 22 bits and lie between 2^-48 and 2^32; in f64 for bf16, whose exponents are those of f32.
    """
    b = e.body
    x, y, z = (value if wide == "float" else b.cast("fpext", value, wide) for value in (x, y, z))
    s, error = two_sum(e, b.bin("fmul", x, y), z)
    return narrow.to_odd(e, s, error)


@_either("div", integers.divide)
def _div(e: Emitter, i: Instruction) -> None:
    check(e, i, {"f32", "f64", "ftz", "approx", "full"} | ROUNDINGS, 2)
    _elementwise(e, i, lambda x, y: divide_rounded(e, x, y, rounding(i)))


@handles("rcp")
def _rcp(e: Emitter, i: Instruction) -> None:
    check(e, i, {"f32", "f64", "ftz", "approx"} | ROUNDINGS, 1)
    _elementwise(e, i, lambda x: divide_rounded(e, real(1.0, x.type), x, rounding(i)))


@handles("sqrt")
def _sqrt(e: Emitter, i: Instruction) -> None:
    check(e, i, {"f32", "f64", "ftz", "approx"} | ROUNDINGS, 1)
    _elementwise(e, i, lambda x: sqrt_rounded(e, x, rounding(i)))


@handles("rsqrt")
def _rsqrt(e: Emitter, i: Instruction) -> None:
    check(e, i, {"f32", "f64", "ftz", "approx"}, 1)
    _elementwise(e, i, lambda x: e.body.bin("fdiv", real(1.0, x.type), e.body.call("sqrt", x.type, [x])))


def _extreme(e: Emitter, i: Instruction) -> None:
    check(e, i, _COMMON | {"NaN", "abs", "xorsign"})
    several = len(i.sources) == 3 and i.modifiers[-1] == "f32"  # of three numbers .abs stands alone
    if ("abs" in i.modifiers) != ("xorsign" in i.modifiers) and not several:
        raise e.fail(f"unsupported {i.text}")
    if (len(i.sources) != 2 and not several) or (several and "xorsign" in i.modifiers):
        raise e.fail(f"{i.text} needs 2 sources, has {len(i.sources)}")
    b = e.body
    operation = ("minimum" if i.base == "min" else "maximum") + ("" if "NaN" in i.modifiers else "num")

    def of_three(*values: Val) -> Val:
        sizes = [b.call("fabs", value.type, [value]) for value in values] if "abs" in i.modifiers else list(values)
        return b.call(operation, "float", [b.call(operation, "float", sizes[:2]), sizes[2]])

    if several:
        _elementwise(e, i, of_three)
        return

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
def _abs(e: Emitter, i: Instruction) -> None:
    check(e, i, _COMMON, 1)
    _elementwise(e, i, lambda x: e.body.call("fabs", x.type, [x]))


@_either("neg", integers.abs_neg)
def _neg(e: Emitter, i: Instruction) -> None:
    check(e, i, _COMMON, 1)
    _elementwise(e, i, lambda x: e.body.neg(x))


@handles("copysign")
def _copysign(e: Emitter, i: Instruction) -> None:
    check(e, i, {"f32", "f64"}, 2)
    _, kind = type_of(e, i)
    # PTX: the sign of the first operand, the magnitude of the second.
    sign, magnitude = e.read(i.sources[0], kind), e.read(i.sources[1], kind)
    write(e, i, e.body.call("copysign", kind, [magnitude, sign]))


@handles("testp")
def _testp(e: Emitter, i: Instruction) -> None:
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
def _approximation(e: Emitter, i: Instruction) -> None:
    check(e, i, {"approx", "ftz", "f32", "f16", "f16x2", "bf16", "bf16x2"}, 1)
    function = approximations.FUNCTIONS[i.base]
    _elementwise(e, i, lambda x: function(e.body, x))
