"""Affine values in the full version of a kernel: scalar arithmetic in place of vectors.

An `Affine` stands for base + stride * (position in the row) + step * (row), exactly, modulo the width. It is turned into a vector only
where an instruction outside of `compute` reads it. Extending one to 64 bits is guarded: should a lane wrap, the warp leaves the full
version for the masked one, which knows no affine values, and does not come back (Emitter.leave_full).

Source: facts page "Value classes" and "Guard to add".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.analysis.strides import row_length, signed_constant
from farlane.backend.jit.lowering.ir import BITS, PTX_LLVM, Val, integer, lanes
from farlane.backend.jit.lowering.specials import first_tid, special
from farlane.backend.jit.ptx.model import LANES, Instruction, Special, extends
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter


@dataclass(frozen=True, slots=True)
class Affine:
    base: Val
    stride: int
    step: Val | None = None  # None: the same in every row

    @property
    def type(self) -> str:
        return self.base.type


def rows(e: Emitter) -> int:
    """How many a warp has."""
    return LANES // row_length(e.kernel.block)


def row_base(e: Emitter, value: Affine, row: int) -> Val:
    """The value in the first lane of a row of the warp, or of the warp group."""
    b = e.body
    if value.step is None or row == 0:
        return value.base
    ahead = value.step if row == 1 else b.bin("mul", value.step, integer(row, value.type))
    return b.bin("add", value.base, ahead)


def row_bases(e: Emitter, value: Affine) -> list[Val]:
    """The value in each row's first lane; in a warp group, those of the warp that is being emitted."""
    count = rows(e)
    if not isinstance(e.instance, Val):
        return [row_base(e, value, e.instance * count + row) for row in range(count)]
    if value.step is None:
        return [value.base] * count
    b = e.body
    first = b.resize(b.bin("mul", e.instance, integer(count, "i32")), value.type)
    start = Affine(b.bin("add", value.base, b.bin("mul", value.step, first)), value.stride, value.step)
    return [row_base(e, start, row) for row in range(count)]


def materialise(e: Emitter, value: Affine) -> Val:
    """One element per lane."""
    b = e.body
    row = row_length(e.kernel.block)
    if value.step is None:
        spread = b.splat(value.base)
    else:
        vector = "poison"
        for index, base in enumerate(row_bases(e, value)):
            vector = b.op(
                f"insertelement <{LANES} x {value.type}> {vector}, {base}, i32 {index}", value.type, True
            ).name
        order = ", ".join(f"i32 {lane // row}" for lane in range(LANES))
        shown = f"<{LANES} x {value.type}>"
        spread = b.op(f"shufflevector {shown} {vector}, {shown} poison, <{LANES} x i32> <{order}>", value.type, True)
    if not value.stride:
        return spread
    return b.bin("add", spread, lanes([lane % row * value.stride for lane in range(LANES)], value.type))


def operand(e: Emitter, source: Any, kind: str) -> Affine:
    """A uniform or affine operand."""
    if isinstance(source, Value):
        known = e.affine(source)
        if known is not None:
            if known.type == kind:
                return known
            assert BITS[known.type] > BITS[kind]
            step = None if known.step is None else e.body.cast("trunc", known.step, kind)
            return Affine(e.body.cast("trunc", known.base, kind), known.stride, step)
    if isinstance(source, Special):
        found = affine_special(e, source.name)
        if found is not None:
            return found
    value = e.read(source, kind)
    assert not value.vec
    return Affine(value, 0)


def affine_special(e: Emitter, name: str) -> Affine | None:
    """%tid and %laneid where they are affine, and in a warp group what is each warp's own."""
    base, _, axis = name.partition(".")
    row = row_length(e.kernel.block)
    one = integer(1, "i32")
    if base == "laneid":
        return Affine(integer(0, "i32"), 1, integer(row, "i32") if row < LANES else None)
    if base != "tid":
        return None
    if e.group is None:
        if not special(e, name).vec:
            return None
        step = None if axis == "x" else one
    elif axis == "x" or axis in e.group.steps:
        step = integer(e.group.steps[axis], "i32") if axis in e.group.steps else None
    else:
        return None
    first = e.once(f"first.{axis}", lambda p: first_tid(e, p, axis))
    return Affine(first, 1 if axis == "x" else 0, step)


def compute(e: Emitter, i: Instruction) -> Affine:
    """The result of an instruction that the analysis found affine."""
    b = e.body
    kind = PTX_LLVM[i.modifiers[-1]]
    if i.base in ("mov", "cvta"):
        return operand(e, i.sources[0], kind)
    if i.base == "neg":
        return _scale(e, operand(e, i.sources[0], kind), integer(-1, kind), -1)
    if i.base == "shl":
        amount = e.constant(i.sources[1])
        assert amount is not None
        return _scale(e, operand(e, i.sources[0], kind), integer(1 << amount, kind), 1 << amount)
    if i.base == "cvt":
        value = operand(e, i.sources[0], kind)
        target = PTX_LLVM[i.modifiers[0]]
        if BITS[target] > BITS[kind]:
            return extend(e, value, i.modifiers[-1] == "s32")
        if BITS[target] < BITS[kind]:
            step = None if value.step is None else b.cast("trunc", value.step, target)
            return Affine(b.cast("trunc", value.base, target), value.stride, step)
        return value
    if i.base == "selp":
        return _select(e, e.read(i.sources[2], "i1"), operand(e, i.sources[0], kind), operand(e, i.sources[1], kind))
    first, second = operand(e, i.sources[0], kind), operand(e, i.sources[1], kind)
    if i.base in ("add", "sub"):
        return add(e, first, second, i.base)
    if extends(i):
        signed = i.modifiers[-1] == "s32"
        first, second = extend(e, first, signed), extend(e, second, signed)
        kind = "i64"
    result = _multiply(e, i, first, second)
    return result if i.base == "mul" else add(e, result, operand(e, i.sources[2], kind), "add")


def add(e: Emitter, x: Affine, y: Affine, operation: str) -> Affine:
    b = e.body
    if y.step is None:
        step = x.step
    else:
        step = b.bin(operation, x.step or integer(0, x.type), y.step)
    stride = x.stride + y.stride if operation == "add" else x.stride - y.stride
    return Affine(b.bin(operation, x.base, y.base), stride, step)


def _multiply(e: Emitter, i: Instruction, x: Affine, y: Affine) -> Affine:
    uniform = 1 if y.stride == 0 and y.step is None else 0
    value, factor = (x, y) if uniform else (y, x)
    known = signed_constant(i.sources[uniform], 64 if "64" in i.modifiers[-1] else 32)
    if i.modifiers[-1] == "u32" and extends(i) and known is not None:
        known &= 0xFFFF_FFFF
    return _scale(e, value, factor.base, known)


def _scale(e: Emitter, value: Affine, factor: Val, known: int | None) -> Affine:
    """`known`: the factor, where it is known now, which it must be if the value has a stride."""
    b = e.body
    if known is None:
        assert not value.stride
        known = 0
    step = None if value.step is None else b.bin("mul", value.step, factor)
    return Affine(b.bin("mul", value.base, factor), value.stride * known, step)


def _select(e: Emitter, condition: Val, x: Affine, y: Affine) -> Affine:
    b = e.body
    zero = integer(0, x.type)
    step = None if x.step is None and y.step is None else b.select(condition, x.step or zero, y.step or zero)
    return Affine(b.select(condition, x.base, y.base), x.stride, step)


def extend(e: Emitter, value: Affine, signed: bool) -> Affine:
    """A 32-bit value as 64 bits; leaves the full version when a lane wraps."""
    base = e.body.resize(value.base, "i64", signed)
    step = None if value.step is None else e.body.resize(value.step, "i64", True)
    if value.stride == 0 and step is None:
        return Affine(base, 0)
    e.leave_full(extremes(e, value, signed)[2])
    return Affine(base, value.stride, step)


def extremes(e: Emitter, value: Affine, signed: bool) -> tuple[Val, Val, Val]:
    """The least and the greatest of a 32-bit value's lanes, as 64 bits, and whether a lane wraps, so that they are not."""
    b = e.body
    base = b.resize(value.base, "i64", signed)
    step = None if value.step is None else b.resize(value.step, "i64", True)
    row = row_length(e.kernel.block)
    across = value.stride * (row - 1)
    low = b.bin("add", base, integer(min(0, across), "i64"))
    high = b.bin("add", base, integer(max(0, across), "i64"))
    if step is not None:
        down = b.bin("mul", step, integer(rows(e) * e.warps - 1, "i64"))
        zero = integer(0, "i64")
        low = b.bin("add", low, b.call("smin", "i64", [down, zero]))
        high = b.bin("add", high, b.call("smax", "i64", [down, zero]))
    limits = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)
    wraps = b.bin("or", b.icmp("slt", low, integer(limits[0], "i64")), b.icmp("sgt", high, integer(limits[1], "i64")))
    return low, high, wraps
