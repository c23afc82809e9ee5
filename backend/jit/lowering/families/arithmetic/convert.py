"""cvt: integer and float conversions with rounding and saturation, packed and 8-bit float forms.

Float to integer saturates; NaN becomes 0, or the top bit where 64 bits are involved. Clamping (.sat, .relu) happens before a 16-bit result is rounded, which is the same. Directed float roundings go through the exact error, as in floating.py.
Source: PTX ISA, "cvt".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.arithmetic import tiny
from farlane.backend.jit.lowering.families.arithmetic.narrow import SMALL, narrow, to_odd, widen
from farlane.backend.jit.lowering.families.arithmetic.rounding import directed
from farlane.backend.jit.lowering.families.base import (
    ROUNDINGS,
    check,
    clamp_negative,
    flush,
    halves,
    handles,
    pack,
    saturate,
    write,
)
from farlane.backend.jit.lowering.ir import BITS, FLOATS, PTX_LLVM, SIGNED, Val, floating, integer, real
from farlane.backend.jit.ptx.model import Instruction

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_TO_INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_TYPES = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f16x2", "bf16x2"}


_PACKED_BITS = {f"{sign}{bits}": bits for sign in "us" for bits in (2, 4, 8, 16)}
_SMALL_PAIRS = {f"{name}x2": name for name in (*tiny.FORMATS, tiny.SCALE)}


@handles("cvt")
def cvt(e: Emitter, i: Instruction) -> None:
    if len(i.modifiers) < 2:
        raise e.fail(f"malformed {i.text}")
    target, source = i.modifiers[-2:]
    if "pack" in i.modifiers:
        _pack_integers(e, i)
        return
    if target in _SMALL_PAIRS or source in _SMALL_PAIRS:
        _small_pair(e, i, target, source)
        return
    if target == "tf32":
        _tf32(e, i)
        return
    check(e, i, _TYPES | ROUNDINGS | set(_TO_INTEGRAL) | {"ftz", "sat", "relu", "satfinite"})
    if target not in _TYPES or source not in _TYPES:
        raise e.fail(f"unsupported {i.text}")
    if target in ("f16x2", "bf16x2"):
        _packed(e, i, target)
        return
    value = e.read(i.sources[0], PTX_LLVM[source])
    if "ftz" in i.modifiers and source == "f32":
        value = flush(e, value)
    from_float, to_float = PTX_LLVM[source] in FLOATS, PTX_LLVM[target] in FLOATS
    if not (from_float and PTX_LLVM[target] in SMALL) and {"relu", "satfinite"} & set(i.modifiers):
        raise e.fail(f"unsupported {i.text}")
    if from_float and to_float:
        result = _float_to_float(e, i, value, target)
    elif from_float:
        result = _float_to_integer(e, i, value, target)
    elif to_float:
        result = _integer_to_float(e, i, value, source, target)
    else:
        result = _integer_to_integer(e, i, value, source, target)
    if to_float and PTX_LLVM[target] not in SMALL:
        if "ftz" in i.modifiers and target == "f32":
            result = flush(e, result)
        if "sat" in i.modifiers:
            result = saturate(e, result)
    write(e, i, result, target)


def _clamped(e: Emitter, i: Instruction, value: Val) -> Val:
    if "sat" in i.modifiers:
        value = saturate(e, value)
    return clamp_negative(e, value) if "relu" in i.modifiers else value


def _rounded_small(e: Emitter, i: Instruction, value: Val, kind: str, mode: str) -> Val:
    """An f32 or f64 to f16 or bf16 under the instruction's clamps."""
    b = e.body
    result = small_float(e, _clamped(e, i, value), kind, mode)
    if "satfinite" not in i.modifiers:
        return result
    bits = b.bitcast(result, "i16")
    infinity = 0x7C00 if kind == "half" else 0x7F80
    magnitude = b.bin("and", bits, integer(0x7FFF, "i16"))
    return b.bitcast(
        b.select(b.icmp("eq", magnitude, integer(infinity, "i16")), b.bin("sub", bits, integer(1, "i16")), bits), kind
    )


def _small_pair(e: Emitter, i: Instruction, target: str, source: str) -> None:
    """Two values between formats of 8, 6 or 4 bits and f32, f16 or bf16; of two operands the first one is the upper value."""
    check(e, i, {"rn", "rz", "rp", "satfinite", "relu", target, source})
    b = e.body
    mode = _mode(i)
    wide = {"f16x2": "half", "bf16x2": "bfloat"}
    name = _SMALL_PAIRS.get(target) or _SMALL_PAIRS[source]
    scales = name == tiny.SCALE
    # 4-bit values share a byte, others have one each.
    step = 4 if name == "e2m1" else 8
    if target in _SMALL_PAIRS and (source == "f32" or source in wide):
        if ("satfinite" not in i.modifiers and not scales) or mode not in (("rz", "rp") if scales else ("rn", "rz")):
            raise e.fail(f"unsupported {i.text}")
        if source == "f32":
            high, low = (e.read(item, "float") for item in i.sources)
        else:
            low, high = (widen(e, item) for item in halves(e, i.sources[0], wide[source]))
        if scales:
            codes = [tiny.to_scale(e, item, mode, "satfinite" in i.modifiers) for item in (low, high)]
        else:
            codes = [tiny.to_small(e, _clamped(e, i, item), name, mode) for item in (low, high)]
        both = b.bin("or", codes[0], b.bin("shl", codes[1], integer(step, "i32")))
        write(e, i, b.cast("trunc", both, "i16"))
    elif target in wide and mode == "rn" and "satfinite" not in i.modifiers and (not scales or target == "bf16x2"):
        both = b.cast("zext", e.read(i.sources[0], "i16"), "i32")
        codes = [both, b.bin("lshr", both, integer(step, "i32"))]
        values = [tiny.from_scale(e, code) if scales else tiny.from_small(e, code, name) for code in codes]
        write(e, i, pack(e, *(narrow(e, _clamped(e, i, value), wide[target]) for value in values)))
    else:
        raise e.fail(f"unsupported {i.text}")


def _tf32(e: Emitter, i: Instruction) -> None:
    check(e, i, {"rn", "rz", "rna", "relu", "satfinite", "tf32", "f32"}, 1)
    mode = next((item for item in i.modifiers if item in ("rn", "rz", "rna")), "")
    if not mode or i.modifiers[-1] != "f32":
        raise e.fail(f"unsupported {i.text}")
    value = _clamped(e, i, e.read(i.sources[0], "float"))
    write(e, i, tiny.to_tf32(e, value, mode, "satfinite" in i.modifiers))


def _pack_integers(e: Emitter, i: Instruction) -> None:
    """cvt.pack.sat: two saturated integers side by side, the first one above; the third operand is shifted in above both."""
    check(e, i, {"pack", "sat", "s32", "b32", *_PACKED_BITS})
    b = e.body
    name = i.modifiers[2] if len(i.modifiers) > 3 else ""
    bits = _PACKED_BITS.get(name, 0)
    if i.modifiers[3:] != (("s32", "b32") if bits < 16 else ("s32",)) or len(i.sources) != (3 if bits < 16 else 2):
        raise e.fail(f"unsupported {i.text}")
    fields = []
    for source in i.sources[:2]:
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if name[0] == "s" else (0, (1 << bits) - 1)
        value = b.call("smax", "i32", [e.read(source, "i32"), integer(low, "i32")])
        value = b.call("smin", "i32", [value, integer(high, "i32")])
        fields.append(b.bin("and", value, integer((1 << bits) - 1, "i32")))
    result = b.bin("or", b.bin("shl", fields[0], integer(bits, "i32")), fields[1])
    if bits < 16:
        result = b.bin("or", result, b.bin("shl", e.read(i.sources[2], "i32"), integer(2 * bits, "i32")))
    write(e, i, result)


def _mode(i: Instruction) -> str:
    return next((item for item in i.modifiers if item in ROUNDINGS), "rn")


def _float_to_float(e: Emitter, i: Instruction, value: Val, target: str) -> Val:
    b = e.body
    kind = PTX_LLVM[target]
    integral = next((item for item in i.modifiers if item in _TO_INTEGRAL), None)
    source = value.type
    if source in SMALL:
        value = widen(e, value)
    if integral:
        value = b.call(_TO_INTEGRAL[integral], value.type, [value])
    if kind in SMALL:
        return _rounded_small(e, i, value, kind, "rn" if kind == source else _mode(i))
    return float_to(e, value, kind, _mode(i))


def float_to(e: Emitter, value: Val, kind: str, mode: str) -> Val:
    """f32 and f64 to each other, in any rounding."""
    b = e.body
    if value.type == kind:
        return value
    if kind == "double":
        return b.cast("fpext", value, kind)
    nearest = b.cast("fptrunc", value, kind)
    if mode == "rn":
        return nearest
    return directed(e, nearest, _difference(e, value, b.cast("fpext", nearest, value.type)), mode)


def _difference(e: Emitter, exact: Val, rounded: Val) -> Val:
    """exact - rounded with the right sign, also when rounding overflowed to infinity."""
    b = e.body
    infinite = b.fcmp("oeq", b.call("fabs", rounded.type, [rounded]), real(float("inf"), rounded.type))
    also = b.fcmp("oeq", exact, rounded)
    overflow = b.bin("and", infinite, b.invert(also))
    difference = b.bin("fsub", exact, rounded)
    signed = b.call("copysign", rounded.type, [real(1.0, rounded.type), b.neg(rounded)])
    return b.select(overflow, signed, b.select(also, floating(0, rounded.type), difference))


def small_float(e: Emitter, value: Val, kind: str, mode: str) -> Val:
    """f32 or f64 to f16 or bf16, in any rounding."""
    b = e.body
    nearest = narrow(e, value, kind)
    if mode == "rn":
        return nearest
    error = _difference(e, value, widen(e, nearest, value.type))
    zero = floating(0, error.type)
    bits = b.bitcast(nearest, "i16")
    negative = b.icmp("slt", bits, integer(0, "i16"))
    below, above = b.fcmp("olt", error, zero), b.fcmp("ogt", error, zero)
    if mode == "rz":
        toward = b.select(negative, above, below)
        return b.bitcast(b.select(toward, b.bin("sub", bits, integer(1, "i16")), bits), nearest.type)
    if mode == "rm":
        step, away = below, negative
    else:
        step, away = above, b.invert(negative)
    is_zero = b.icmp("eq", b.bin("shl", bits, integer(1, "i16")), integer(0, "i16"))
    stepped = b.bin("add", bits, b.select(away, integer(1, "i16"), integer(-1, "i16")))
    tiny = integer(0x8001 if mode == "rm" else 1, "i16")
    return b.bitcast(b.select(step, b.select(is_zero, tiny, stepped), bits), nearest.type)


def _float_to_integer(e: Emitter, i: Instruction, value: Val, target: str) -> Val:
    b = e.body
    if value.type in SMALL:
        value = widen(e, value)
    integral = next((item for item in i.modifiers if item in _TO_INTEGRAL), None)
    if integral is None:
        raise e.fail(f"{i.text} needs an integer rounding")
    if integral != "rzi":
        value = b.call(_TO_INTEGRAL[integral], value.type, [value])
    kind = PTX_LLVM[target]
    result = to_integer(e, value, kind, target in SIGNED)
    if value.type == "double" or BITS[kind] == 64:
        result = b.select(b.fcmp("uno", value, value), integer(1 << BITS[kind] - 1, kind), result)
    return result


def to_integer(e: Emitter, value: Val, kind: str, signed: bool) -> Val:
    """Truncation with saturation; NaN becomes 0."""
    b = e.body
    operation = "fptosi.sat" if signed else "fptoui.sat"
    suffix = {"float": "f32", "double": "f64"}[value.type]
    if value.vec:
        full = f"@llvm.{operation}.v32{kind}.v32{suffix}"
        b.intrinsics[full] = f"declare <32 x {kind}> {full}(<32 x {value.type}>)"
        return b.op(f"call <32 x {kind}> {full}({value})", kind, True)
    full = f"@llvm.{operation}.{kind}.{suffix}"
    b.intrinsics[full] = f"declare {kind} {full}({value.type})"
    return b.op(f"call {kind} {full}({value})", kind, False)


def _integer_to_float(e: Emitter, i: Instruction, value: Val, source: str, target: str) -> Val:
    b = e.body
    signed = source in SIGNED
    operation = "sitofp" if signed else "uitofp"
    kind = PTX_LLVM[target]
    mode = _mode(i)
    bits = BITS[value.type]
    if kind in SMALL:
        # Beyond 53 bits a first rounding to odd keeps what the second one needs.
        return _rounded_small(e, i, _to_double(e, value, operation), kind, mode)
    nearest = b.cast(operation, value, kind)
    if mode == "rn" or (kind == "double" and bits <= 32) or bits <= 16:
        return nearest
    return directed(e, nearest, _lost(e, value, nearest, signed), mode)


def _lost(e: Emitter, value: Val, nearest: Val, signed: bool) -> Val:
    """The sign (-1, 0 or 1) of an integer minus the float it was rounded to."""
    b = e.body
    kind = nearest.type
    back = to_integer(e, nearest, value.type, signed)
    greater = b.icmp("sgt" if signed else "ugt", value, back)
    less = b.icmp("slt" if signed else "ult", value, back)
    # Rounded up to the first number that does not fit, so that the way back saturated.
    limit = real(2.0 ** (BITS[value.type] - signed), kind)
    less = b.bin("or", less, b.fcmp("oge", nearest, limit))
    return b.select(less, real(-1.0, kind), b.select(greater, real(1.0, kind), floating(0, kind)))


def _to_double(e: Emitter, value: Val, operation: str) -> Val:
    """An integer as f64; beyond 53 bits rounded to odd."""
    b = e.body
    result = b.cast(operation, value, "double")
    if BITS[value.type] <= 32:
        return result
    return to_odd(e, result, _lost(e, value, result, operation == "sitofp"))


def _integer_to_integer(e: Emitter, i: Instruction, value: Val, source: str, target: str) -> Val:
    b = e.body
    kind = PTX_LLVM[target]
    signed = source in SIGNED
    if "sat" not in i.modifiers:
        return b.resize(value, kind, signed)
    wide = "i128" if 64 in (BITS[kind], BITS[value.type]) else "i64"
    exact = b.resize(value, wide, signed)
    bits = BITS[kind]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if target in SIGNED else (0, (1 << bits) - 1)
    exact = b.select(b.icmp("slt", exact, integer(low, wide)), integer(low, wide), exact)
    exact = b.select(b.icmp("sgt", exact, integer(high, wide)), integer(high, wide), exact)
    return b.resize(exact, kind)


def _packed(e: Emitter, i: Instruction, target: str) -> None:
    """cvt.rn.f16x2.f32 d, a, b: a is the upper half."""
    if i.modifiers[-1] != "f32" or len(i.sources) != 2 or {"sat", "ftz"} & set(i.modifiers):
        raise e.fail(f"unsupported {i.text}")
    kind = PTX_LLVM[target[:-2]]
    high, low = (_rounded_small(e, i, e.read(source, "float"), kind, _mode(i)) for source in i.sources)
    write(e, i, pack(e, low, high))
