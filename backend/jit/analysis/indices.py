"""What programs compute from %tid.x to learn a thread's lane and its warp: `threadIdx.x % 32`, `threadIdx.x / 32`, and how compilers spell them.

The rows of a warp begin at multiples of 32 where the block's x extent is one, or the block has one dimension. There, x & 31 is %laneid, which is affine, and
what shifts or masks the lane away follows from the first lane's x, which is uniform. For signed operands nvcc divides by way of x >> 31, which is zero.
In a team whose warps follow each other along x, the first lane's x and the warp's number grow from warp to warp by amounts known now, as affine values without a stride do.

Owns these rewritings of instructions; they leave the values and their order as they are. Not for teams along y, whose rows have no x of their own.
"""

from __future__ import annotations

from typing import Any

from farlane.backend.jit.analysis.strides import FIRST, ROW, constant
from farlane.backend.jit.ptx.model import LANES, Instruction, Special
from farlane.backend.jit.ssa.cfg import Graph
from farlane.backend.jit.ssa.ssa import Value

_WORDS = {"u32", "s32", "b32"}
_LANE_BITS = LANES.bit_length() - 1
_INDEX_BITS = 10  # no block has more threads than 1024


def simplify(graph: Graph, block: tuple[int, int, int], team: bool = False) -> None:
    """Rewrites a kernel's instructions in place, or those of its code for a team along x."""
    x, y, z = block
    if x % LANES and (y > 1 or z > 1):
        return
    zeros: set[Value] = set()
    firsts: set[Value] = set()
    for each in graph.blocks:
        for instruction in each.instructions:
            if len(instruction.destinations) == 1 and instruction.modifiers and instruction.modifiers[-1] in _WORDS:
                _simplify(instruction, zeros, firsts, team)


def _simplify(i: Instruction, zeros: set[Value], firsts: set[Value], team: bool) -> None:
    """`zeros`, `firsts`: the values that are known to be zero, and the first lane's index."""
    if len(i.sources) != 2 or len(i.modifiers) != 1 or i.guard is not None:
        return
    first, second = i.sources
    number = constant(second)
    destination = i.destinations[0]
    if i.base == "add":
        for one, other in ((first, second), (second, first)):
            if _is_index(one) and other in zeros:
                i.base, i.sources = "mov", [Special("tid.x")]
                return
    elif i.base == "sub" and _is_index(first) and second in firsts:
        i.base, i.modifiers, i.sources = "mov", ("u32",), [Special("laneid")]
    elif number is None:
        return
    elif i.base == "shr" and first in zeros:
        zeros.add(destination)
    elif not _is_index(first):
        return
    elif i.base == "shr" and number >= _LANE_BITS:
        if number >= _INDEX_BITS:
            zeros.add(destination)
        if team and number == _LANE_BITS:
            i.base, i.modifiers, i.sources = "mov", ("u32",), [Special(ROW)]
        else:
            i.sources = [Special(FIRST), second]
    elif i.base == "and":
        whole = (1 << _INDEX_BITS) - LANES
        if number & ((1 << _INDEX_BITS) - 1) == whole:
            i.base, i.modifiers, i.sources = "mov", ("u32",), [Special(FIRST)]
            firsts.add(destination)
        elif number & (LANES - 1) == 0:
            i.sources = [Special(FIRST), second]
        elif number & 0xFFFF_FFFF == LANES - 1:
            i.base, i.modifiers, i.sources = "mov", ("u32",), [Special("laneid")]


def _is_index(operand: Any) -> bool:
    while isinstance(operand, Value):
        definition = operand.definition
        if not isinstance(definition, Instruction) or definition.base != "mov" or definition.guard is not None:
            return False
        if definition.modifiers[-1:] not in {("u32",), ("s32",), ("b32",)} or len(definition.sources) != 1:
            return False
        operand = definition.sources[0]
    return isinstance(operand, Special) and operand.name == "tid.x"
