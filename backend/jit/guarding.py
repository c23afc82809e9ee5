"""A branch of a team round a few instructions on which its lanes disagree: each warp does them for the lanes that want them, and the team goes on.

For kernels with barriers, where a team's end costs a switch between warps at every barrier that follows. The tree at the end of a reduction is such a
row of branches.

Owns which blocks are done that way, and their code. They read and write what they share with other blocks through memory only; nothing that
they compute is read elsewhere, but by phis right behind them. Their affine values are vectors here, but what is read and written at addresses that were affine before is still contiguous, and what a
warp's lanes have in common is a scalar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit import affine, families, teams
from farlane.backend.jit.cfg import EXIT, Block, Graph
from farlane.backend.jit.families import memory
from farlane.backend.jit.ir import LANES, Val, integer
from farlane.backend.jit.model import Address, Instruction, read_by
from farlane.backend.jit.ssa import Value
from farlane.backend.jit.strides import row_length
from farlane.backend.jit.values import ALL

if TYPE_CHECKING:
    from farlane.backend.jit.team_codegen import TeamEmitter

MOST_INSTRUCTIONS, MOST_INSTRUCTIONS_LOOPED = 12, 48


def inner(graph: Graph, index: int, looped: bool) -> int | None:
    """The block that the branch at the end of a block goes round, if it is one to be done under a guard.

    What is behind it may choose by where lanes come from, if that differs between lanes also for the team.
    """
    targets = graph.blocks[index].targets
    for inside, behind in (targets, targets[::-1]):
        if inside == EXIT or inside <= index:
            continue
        phis = graph.blocks[behind].phis if behind != EXIT else []
        if phis and (behind <= index or not all(teams.differs(phi.value) for phi in phis)):
            continue
        block = graph.blocks[inside]
        if (
            list(block.predecessors) == [index]
            and block.condition is None
            and list(block.targets) == [behind]
            and not block.leaves
            and not block.phis
            and len(block.instructions) <= (MOST_INSTRUCTIONS_LOOPED if looped else MOST_INSTRUCTIONS)
            and not any(teams.waits(item) for item in block.instructions)
            and inside not in graph.loops
        ):
            return inside
    return None


def guards(graph: Graph, index: int, looped: bool) -> bool:
    """Whether the branch at the end of a block, in a kernel with barriers, is done under a guard whatever lanes say, so that no team ends there."""
    inside = inner(graph, index, looped)
    return inside is not None and cheap(graph.blocks[inside])


def cheap(block: Block) -> bool:
    """Whether the way for all lanes is not worth its code: masks cost next to nothing beside accesses of shared memory."""
    return all("shared" in item.modifiers for item in block.instructions if item.base in ("ld", "st"))


def emit(e: TeamEmitter, inside: int, bits: Val) -> None:
    """The instructions of a block for some lanes of the warp that is being emitted, if there are any."""
    b = e.body
    instructions = e.graph.blocks[inside].instructions
    some, past = b.new_label("some"), b.new_label("past")
    b.branch_if(b.icmp("ne", bits, integer(0, "i32")), some, past)
    b.block(some)
    values, forms = dict(e.local), dict(e.forms)
    one_row = row_length(e.kernel.block) == LANES
    behind = e.graph.blocks[inside].targets[0]
    phis = e.graph.blocks[behind].phis if behind != EXIT else []
    read = [value for instruction in instructions for value in read_by(instruction)]
    for value in [*read, *(phi.operands[inside] for phi in phis)]:
        if not isinstance(value, Value) or value.block == inside:
            continue
        if one_row and value.stride == 0 and (form := e.affine(value)) is not None:
            e.local[value] = affine.row_bases(e, form)[0]  # the same in all lanes of this warp
        else:
            e.value(value)  # as a vector, while it still has a form
    e.mask, e.mask_bits = b.mask(bits), bits
    for instruction in instructions:
        # A latch of its own: what the way for all lanes checks is whole rows, from which a latch's count has something taken off.
        e.line, e.access, e.contiguous = instruction.line, ~id(instruction), _contiguous(e, instruction, inside)
        families.emit(e, instruction)
    e.contiguous = False
    for phi in phis:
        e.blend(e.value_slot(phi.value), b.splat(e.value(phi.operands[inside])), e.mask)
    e.mask, e.mask_bits, e.contiguous = None, ALL, False
    e.local.clear()  # what was computed here is not known behind it
    e.local.update(values)
    e.forms = forms
    b.branch(past)
    b.block(past)


def _contiguous(e: TeamEmitter, instruction: Instruction, inside: int) -> bool:
    """Whether its lanes access neighbouring elements. An extension within the block may have wrapped: then its value is not what it is known as."""
    operand = instruction.sources[0] if instruction.base in ("ld", "st") else None
    if not isinstance(operand, Address) or not isinstance(operand.base, Value) or row_length(e.kernel.block) != LANES:
        return False
    base = operand.base
    plain = not any(item in ("v2", "v4", "v8") for item in instruction.modifiers)
    return plain and e.is_affine(base) and base.block != inside and base.stride == memory.access_bytes(e, instruction)
