"""Affine values: which varying values are base + stride * (position in the row) + step * (row), with the stride known now.

A row is the lanes of a warp that share threadIdx.y and z (`row_length`). The stride is a compile-time integer, base and step are scalars
at run time. Arithmetic is exact modulo the width; a 32-bit value keeps its form when it is extended to 64 bits only if no lane wraps,
which affine.py checks at run time.

Owns the transfer functions of the analysis in divergence.py. None stands for "varying, no form".
Source: facts page "Value classes".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.ptx.model import LANES, Immediate, Instruction, Special, Symbol, extends
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.ssa.cfg import Graph

LIMIT = 1 << 24
_WORD = {"u32", "s32", "b32"}
_LONG = {"u64", "s64", "b64"}
_OPERANDS = {"mov": 1, "cvta": 1, "neg": 1, "cvt": 1, "add": 2, "sub": 2, "shl": 2, "mul": 2, "mad": 3, "selp": 3}
UNIFORM = -1 << 62  # the class of uniform values; any other int is a stride


def varying_axes(block: tuple[int, int, int]) -> set[str]:
    """The axes along which the lanes of one warp differ."""
    x, y, z = block
    axes = set()
    if x > 1:
        axes.add("x")
    if x % LANES and y > 1:
        axes.add("y")
    if (x * y) % LANES and z > 1:
        axes.add("z")
    return axes


def row_length(block: tuple[int, int, int]) -> int:
    """Lanes per row: the block's x extent when rows tile a warp evenly, else the whole warp."""
    x, y, z = block
    if x in (8, 16) and (z == 1 or (x * y) % LANES == 0):
        return x
    return LANES


def special_stride(name: str, block: tuple[int, int, int]) -> int | None:
    """The class of a special register."""
    base, _, axis = name.partition(".")
    row = row_length(block)
    if base == "laneid":
        return 1
    if base.startswith("lanemask"):
        return None
    if base != "tid" or axis not in varying_axes(block):
        return UNIFORM
    x, y, z = block
    if axis == "x":
        return 1 if x % LANES == 0 or row == x or y == z == 1 else None
    return 0 if axis == "y" and row == x else None


def constant(operand: Any, depth: int = 8) -> int | None:
    """The operand's value when it is known now (through moves of constants)."""
    while depth and isinstance(operand, Value) and isinstance(operand.definition, Instruction):
        definition = operand.definition
        if definition.base != "mov" or len(definition.sources) != 1 or len(definition.destinations) != 1:
            return None
        operand, depth = definition.sources[0], depth - 1
    return operand.value if isinstance(operand, Immediate) and operand.kind == "i" else None


def signed_constant(operand: Any, bits: int) -> int | None:
    value = constant(operand)
    if value is None:
        return None
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def transfer(instruction: Instruction, classes: list[int | None]) -> int | None:
    """The class of the result from the operands' classes, at least one of which is not UNIFORM."""
    base, modifiers = instruction.base, instruction.modifiers
    if None in classes or len(instruction.destinations) != 1 or _OPERANDS.get(base) != len(classes) or not modifiers:
        return None
    if instruction.destinations[0] is None or instruction.destinations[0].type in ("f32", "f64"):
        return None  # its bits are those of an integer, but it is read and kept as what it is declared
    strides = [0 if item in (None, UNIFORM) else item for item in classes]
    kind = modifiers[-1]
    if kind not in _WORD | _LONG:
        return None
    bits = 32 if kind in _WORD else 64
    result: int | None = None
    if base == "mov" or (base == "cvta" and "global" in modifiers):
        result = strides[0]
    elif base in ("add", "sub") and len(modifiers) == 1:
        result = strides[0] + (strides[1] if base == "add" else -strides[1])
    elif base == "neg":
        result = -strides[0]
    elif base == "shl":
        amount = constant(instruction.sources[1])
        result = strides[0] << amount if classes[1] == UNIFORM and amount is not None and amount < 24 else None
    elif base in ("mul", "mad"):
        result = _product(instruction, classes, strides, bits)
    elif (base == "cvt" and len(modifiers) == 2 and modifiers[0] in _WORD | _LONG) or (
        base == "selp" and classes[2] == UNIFORM and strides[0] == strides[1]
    ):
        result = strides[0]
    return result if result is not None and abs(result) < LIMIT else None


def _product(instruction: Instruction, classes: list[int | None], strides: list[int], bits: int) -> int | None:
    modifiers = instruction.modifiers
    if not (modifiers[0] == "lo" or extends(instruction)) or len(modifiers) != 2:
        return None
    product: int | None = None
    for one, other in ((0, 1), (1, 0)):
        if classes[other] == UNIFORM:
            factor = signed_constant(instruction.sources[other], bits)
            if factor is not None and extends(instruction) and modifiers[-1] == "u32":
                factor &= 0xFFFF_FFFF
            if factor is not None:
                product = strides[one] * factor
            elif strides[one] == 0:
                product = 0
            break
    if product is None or instruction.base == "mul":
        return product
    return product + strides[2]


def stepping_specials(row: int) -> set[str]:
    """The special registers that differ from row to row of a warp."""
    return {"laneid", "tid.y", "tid.z"} if row < LANES else set()


def stepping(graph: Graph, affine: Callable[[Value], bool], specials: set[str]) -> set[Value]:
    """The affine values that may differ from row to row: what follows from some special registers.

    The others have no step. That must not be found out at run time, where every access would look at each row.
    """
    found: set[Value] = set()
    if not specials:
        return found

    def steps(operand: object) -> bool:
        if isinstance(operand, Special):
            return operand.name in specials
        return operand in found if isinstance(operand, Value) else not isinstance(operand, Immediate | Symbol)

    changed = True
    while changed:
        before = len(found)
        for block in graph.blocks:
            for phi in block.phis:
                if affine(phi.value) and any(steps(operand) for operand in phi.operands.values()):
                    found.add(phi.value)
            for instruction in block.instructions:
                if any(steps(operand) for operand in instruction.sources):
                    found.update(item for item in instruction.destinations if item is not None and affine(item))
        changed = len(found) != before
    return found
