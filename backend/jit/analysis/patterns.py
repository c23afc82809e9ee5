"""Patterns: which values differ from lane to lane by amounts that are known now, though they are not affine.

Programs take a thread's index apart by shifts and masks: `threadIdx.x % 16`, `2 * (x - x % 4) + x % 4`. Such a value is a number that is the same in all lanes of
a warp and not known now, plus an offset for each lane that is. How many of the common number's low bits are zero is known as well, and so what a mask or a shift
does to the sum: with offsets below 2**align nothing is carried between the two.

Owns the analysis: one pass over a function's instructions, for values in warps of which all lanes are active. lowering/families/accesses/patterned.py makes use of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from farlane.backend.jit.analysis.strides import constant, signed_constant, varying_axes
from farlane.backend.jit.ptx.model import LANES, Immediate, Instruction, Special, extends
from farlane.backend.jit.ssa.cfg import Graph
from farlane.backend.jit.ssa.ssa import Value

_WORD = {"u32", "s32", "b32"}
_LONG = {"u64", "s64", "b64"}
_REGISTERS = {"b32", "b64", "u32", "s32", "u64", "s64"}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
_LARGEST = 1 << 40  # of an offset
_ZEROS = (0,) * LANES


@dataclass(frozen=True, slots=True)
class Pattern:
    """A common number plus an offset for each lane, modulo 2**bits.

    Attributes:
        align: the common number is a multiple of 2**align; it is zero where that is `bits`.
        below: where the whole is known to be less than that.
    """

    offsets: tuple[int, ...]
    align: int
    bits: int
    below: int | None = None

    @property
    def known(self) -> bool:
        """Whether nothing is left open."""
        return self.align >= self.bits

    @property
    def uniform(self) -> bool:
        return self.offsets == _ZEROS

    def apart(self) -> Pattern | None:
        """The same with offsets that share no bit with the common number: from 0 to below 2**align."""
        if self.known:
            return Pattern(tuple(item & (1 << self.bits) - 1 for item in self.offsets), self.bits, self.bits)
        moved = min(self.offsets) >> self.align << self.align
        offsets = tuple(item - moved for item in self.offsets)
        return Pattern(offsets, self.align, self.bits) if max(offsets) < 1 << self.align else None


def analyse(graph: Graph, block: tuple[int, int, int]) -> dict[Value, Pattern]:
    """The patterns of a kernel's values. What is read before the text defines it, and what comes from several places, has none."""
    found: dict[Value, Pattern] = {}
    for each in graph.blocks:
        for instruction in each.instructions:
            if len(instruction.destinations) != 1 or instruction.guard is not None:
                continue
            value = instruction.destinations[0]
            if value is None or value.exported:
                continue
            if value.type == "pred" and instruction.base == "setp":
                if (told := _compared(instruction, found, block)) is not None:
                    found[value] = told
                continue
            if value.type not in _REGISTERS:
                continue
            pattern = _result(instruction, found, block)
            if pattern is not None and max(map(abs, pattern.offsets)) < _LARGEST:
                found[value] = pattern
    return found


def _special(name: str, block: tuple[int, int, int]) -> Pattern | None:
    x, y, z = block
    base, _, axis = name.partition(".")
    lane_bits = LANES.bit_length() - 1
    if base == "laneid":
        return Pattern(tuple(range(LANES)), 32, 32)
    if base in ("ctaid", "nctaid", "ntid"):
        return Pattern(_ZEROS, 0, 32)
    if base != "tid" or axis not in ("x", "y", "z"):
        return None
    if axis not in varying_axes(block):
        return Pattern(_ZEROS, 0, 32, {"x": x, "y": y, "z": z}[axis])
    if axis == "x":
        if x % LANES == 0 or y == z == 1:
            return Pattern(tuple(range(LANES)), lane_bits, 32, x)
        return Pattern(tuple(lane % x for lane in range(LANES)), 32, 32) if LANES % x == 0 else None
    rows = LANES // x if LANES % x == 0 else 0
    if axis == "y" and rows and y % rows == 0:
        return Pattern(tuple(lane // x for lane in range(LANES)), rows.bit_length() - 1, 32, y)
    return None


def _operand(operand: Any, bits: int, found: dict[Value, Pattern], block: tuple[int, int, int]) -> Pattern | None:
    if isinstance(operand, Immediate):
        if operand.kind != "i":
            return None
        return Pattern((_number(operand.value & (1 << bits) - 1, bits, True),) * LANES, bits, bits)
    if isinstance(operand, Special):
        return _special(operand.name, block) if bits == 32 else None
    if not isinstance(operand, Value) or operand.exported or operand.type not in _REGISTERS:
        return None
    pattern = found.get(operand)
    if pattern is None:
        return None if operand.varying else Pattern(_ZEROS, 0, bits)
    return pattern if pattern.bits == bits else None


def _result(i: Instruction, found: dict[Value, Pattern], block: tuple[int, int, int]) -> Pattern | None:
    kind = i.modifiers[-1] if i.modifiers else ""
    if kind not in _WORD | _LONG:
        return None
    bits = 32 if kind in _WORD else 64
    count, base = len(i.sources), i.base
    operands = [_operand(item, bits, found, block) for item in i.sources[:2]]
    if not operands or None in operands:
        return None
    first = operands[0]
    assert first is not None
    if count == 1:
        if (base == "mov" and len(i.modifiers) == 1) or (base == "cvta" and "global" in i.modifiers):
            return first
        return _converted(i, first) if base == "cvt" and len(i.modifiers) == 2 else None
    second = operands[1]
    assert second is not None
    if base in ("add", "sub") and len(i.modifiers) == 1 and count == 2:
        if base == "sub" and (number := _part_of(i.sources[1], i.sources[0], found)) is not None:
            return _bitwise("and", first, ~number & (1 << bits) - 1)
        return _sum(first, second, base == "sub")
    if base in ("mul", "mad") and count == (2 if base == "mul" else 3):
        product = _product(i, first, second)
        if base == "mul" or product is None:
            return product
        third = _operand(i.sources[2], product.bits, found, block)
        return None if third is None else _sum(product, third, False)
    number = constant(i.sources[1])
    if len(i.modifiers) != 1 or count != 2:
        return None
    if base in ("and", "or", "xor"):
        known, rest = (number, first) if number is not None else (constant(i.sources[0]), second)
        return _joined(base, first, second) if known is None else _bitwise(base, rest, known & (1 << bits) - 1)
    if base in ("shl", "shr") and number is not None and 0 <= number < bits:
        if base == "shl":
            return Pattern(tuple(item << number for item in first.offsets), min(bits, first.align + number), bits)
        return _shifted_right(first, number, kind.startswith("s"))
    return None


def _compared(i: Instruction, found: dict[Value, Pattern], block: tuple[int, int, int]) -> Pattern | None:
    """The lanes for which a comparison holds, where both sides are known; as numbers of one bit."""
    if len(i.modifiers) != 2 or len(i.sources) != 2 or i.modifiers[0] not in _COMPARISONS:
        return None
    name, kind = i.modifiers
    if kind not in _WORD | _LONG:
        return None
    bits = 32 if kind in _WORD else 64
    sides = [_operand(item, bits, found, block) for item in i.sources]
    if not all(side is not None and side.known for side in sides):
        return None
    signed = kind.startswith("s") and name in ("lt", "le", "gt", "ge")
    x, y = ([_number(item & (1 << bits) - 1, bits, signed) for item in side.offsets] for side in sides if side)
    holds = _COMPARISONS[name]
    return Pattern(tuple(int(holds(a, b)) for a, b in zip(x, y, strict=True)), 1, 1)


def _sum(x: Pattern, y: Pattern, minus: bool) -> Pattern:
    sign = -1 if minus else 1
    offsets = tuple(a + sign * b for a, b in zip(x.offsets, y.offsets, strict=True))
    return Pattern(offsets, min(x.align, y.align), x.bits)


def _root(operand: Any, found: dict[Value, Pattern]) -> Any:
    """What an operand is a copy of, as far as that is known: nvcc adds zeros to what it divides."""
    while isinstance(operand, Value) and isinstance(operand.definition, Instruction):
        definition = operand.definition
        sources = definition.sources
        if definition.guard is not None or definition.modifiers[1:] or definition.modifiers[:1] == ("pred",):
            break
        if definition.base == "add" and len(sources) == 2:
            kept = [item for item in sources if not _is_zero(item, found)]
            if len(kept) != 1:
                break
            operand = kept[0]
        elif definition.base == "mov" and len(sources) == 1:
            operand = sources[0]
        else:
            break
    return operand


def _is_zero(operand: Any, found: dict[Value, Pattern]) -> bool:
    pattern = found.get(operand) if isinstance(operand, Value) else None
    return constant(operand) == 0 or (pattern is not None and pattern.known and pattern.uniform)


def _part_of(operand: Any, whole: Any, found: dict[Value, Pattern]) -> int | None:
    """The mask, where an operand is a masked part of another one: the difference is the rest."""
    definition = operand.definition if isinstance(operand, Value) else None
    if not isinstance(definition, Instruction) or definition.base != "and" or definition.guard is not None:
        return None
    mask, root = constant(definition.sources[1]), _root(definition.sources[0], found)
    same = root is _root(whole, found) if isinstance(root, Value) else root == _root(whole, found)
    return mask if same and isinstance(root, Value | Special) else None


def _zeros(number: int, most: int) -> int:
    """How many of its low bits are zero."""
    return min(most, (number & -number).bit_length() - 1) if number else most


def _times(x: Pattern, factor: int) -> Pattern:
    align = min(x.bits, x.align + _zeros(factor, x.bits))
    return Pattern(tuple(item * factor for item in x.offsets), align, x.bits)


def _product(i: Instruction, x: Pattern, y: Pattern) -> Pattern | None:
    if len(i.modifiers) != 2 or not (i.modifiers[0] == "lo" or extends(i)):
        return None
    for one, other in ((x, i.sources[1]), (y, i.sources[0])):
        factor = signed_constant(other, one.bits)
        if factor is None:
            continue
        if not extends(i):
            return _times(one, factor)
        signed = i.modifiers[-1] == "s32"
        wide = _extended(one, signed)
        return None if wide is None else _times(wide, factor if signed else factor & 0xFFFF_FFFF)
    if x.uniform and y.uniform:
        bits = 64 if extends(i) else x.bits
        return Pattern(_ZEROS, min(bits, x.align + y.align), bits)
    return None


def _bitwise(operation: str, x: Pattern, number: int) -> Pattern | None:
    apart = x.apart()
    if apart is None:
        return None
    compute = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}[operation]
    if apart.known:
        return Pattern(tuple(compute(item, number) for item in apart.offsets), x.bits, x.bits)
    low = (1 << apart.align) - 1
    offsets = tuple(compute(item, number & low) for item in apart.offsets)
    align = _zeros(number & ~low, x.bits) if operation == "and" else apart.align
    return Pattern(offsets, align, x.bits)


def _joined(operation: str, x: Pattern, y: Pattern) -> Pattern | None:
    """Of two numbers whose offsets both lie below the common numbers: `16 * (i / 4) | i % 4`, as compilers spell the sum."""
    one, other = x.apart(), y.apart()
    if one is None or other is None:
        return None
    compute = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}[operation]
    align = min(one.align, other.align)
    if max(*one.offsets, *other.offsets) >= 1 << align:
        return None
    return Pattern(tuple(map(compute, one.offsets, other.offsets)), align, x.bits)


def _shifted_right(x: Pattern, amount: int, signed: bool) -> Pattern | None:
    if x.below is not None and x.below <= 1 << amount:
        return Pattern(_ZEROS, x.bits, x.bits)
    apart = x.apart()
    if apart is None:
        return None
    if apart.known:
        return Pattern(tuple(_number(item, x.bits, signed) >> amount for item in apart.offsets), x.bits, x.bits)
    return Pattern(tuple(item >> amount for item in apart.offsets), max(0, apart.align - amount), x.bits)


def _number(value: int, bits: int, signed: bool) -> int:
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _extended(x: Pattern, signed: bool) -> Pattern | None:
    apart = x.apart()
    if apart is None:
        return None
    if apart.known:
        return Pattern(tuple(_number(item, 32, signed) for item in apart.offsets), 64, 64)
    return Pattern(apart.offsets, apart.align, 64)


def _converted(i: Instruction, x: Pattern) -> Pattern | None:
    target, source = i.modifiers
    if target not in _WORD | _LONG:
        return None
    if extends(i):
        return _extended(x, source == "s32")
    if target in _WORD and x.bits == 64:
        return Pattern(x.offsets, 32 if x.known else min(x.align, 32), 32)
    return x if (target in _WORD) == (x.bits == 32) else None
