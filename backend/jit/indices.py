"""What programs compute from %tid.x to learn a thread's lane and its warp: `threadIdx.x % 32`, `threadIdx.x / 32`, and how compilers spell them.

The rows of a warp begin at multiples of 32 where the block's x extent is one, or the block has one dimension. There, x & 31 is %laneid, which is affine, and
what shifts or masks the lane away follows from the first lane's x, which is uniform. For signed operands nvcc divides by way of x >> 31, which is zero.

Owns these rewritings of instructions; they leave the values and their order as they are. Not for teams, whose rows are several warps'.
"""

from __future__ import annotations

from typing import Any

from farlane.backend.jit.cfg import Graph
from farlane.backend.jit.ir import LANES
from farlane.backend.jit.model import Instruction, Special
from farlane.backend.jit.specials import FIRST
from farlane.backend.jit.ssa import Value
from farlane.backend.jit.strides import constant

_WORDS = {"u32", "s32", "b32"}
_LANE_BITS = LANES.bit_length() - 1


def simplify(graph: Graph, block: tuple[int, int, int]) -> None:
    """Rewrites a kernel's instructions in place."""
    x, y, z = block
    if x % LANES and (y > 1 or z > 1):
        return
    zeros: set[Value] = set()
    for each in graph.blocks:
        for instruction in each.instructions:
            if len(instruction.destinations) == 1 and instruction.modifiers and instruction.modifiers[-1] in _WORDS:
                _simplify(instruction, zeros)


def _simplify(i: Instruction, zeros: set[Value]) -> None:
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
    elif number is None:
        return
    elif i.base == "shr" and first in zeros:
        zeros.add(destination)
    elif not _is_index(first):
        return
    elif i.base == "shr" and number >= _LANE_BITS:
        i.sources = [Special(FIRST), second]
        if number >= 10:  # no block has more threads than that
            zeros.add(destination)
    elif i.base == "and":
        if number & (LANES - 1) == 0:
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
