"""A branch of a warp group round a few instructions on which its lanes disagree: each warp does them for the lanes that want them, and the warp group goes on.

For kernels with barriers, where a warp group's end costs a switch between warps at every barrier that follows. The tree at the end of a reduction is such a
row of branches; so is what the first warp does with the other warps' sums, in which some lanes do more than others.

Owns which blocks are done that way, and their code. They read and write what they share with other blocks through memory only; nothing that
they compute is read elsewhere, but by phis right behind them. Their affine values are vectors here, but what is read and written at addresses that were affine before is still contiguous, and what a
warp's lanes have in common is a scalar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.analysis import warp_groups
from farlane.backend.jit.analysis.strides import constant, row_length
from farlane.backend.jit.lowering import affine, families, support
from farlane.backend.jit.lowering.emitter import ALL
from farlane.backend.jit.lowering.families.accesses import memory
from farlane.backend.jit.lowering.ir import Val
from farlane.backend.jit.ptx.model import LANES, Address, Instruction, read_by, registers_of
from farlane.backend.jit.ssa.blocks import EXIT
from farlane.backend.jit.ssa.cfg import Graph
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitters.group_codegen import GroupEmitter

# How many there may be: of warps side by side, and where they take turns or it is known now which lanes want them, so that most warps have no code for it.
MOST_INSTRUCTIONS, MOST_INSTRUCTIONS_LOOPED = 12, 48


@dataclass(frozen=True, slots=True)
class Step:
    """A block, and one that some of its lanes do before the next step."""

    block: int
    nested: int | None
    onward: int  # the next step's block, or what is behind them all


@dataclass(frozen=True, slots=True)
class Region:
    """What a branch goes round: blocks to which the only way is from it, one after the other."""

    steps: tuple[Step, ...]
    behind: int

    @property
    def blocks(self) -> list[int]:
        return [index for step in self.steps for index in (step.block, step.nested) if index is not None]

    @property
    def last(self) -> set[int]:
        """From where they lead on."""
        step = self.steps[-1]
        return {step.block} if step.nested is None else {step.block, step.nested}

    def bases(self, graph: Graph) -> set[str]:
        return {item.base for index in self.blocks for item in graph.blocks[index].instructions}


def inner(graph: Graph, index: int, looped: bool) -> Region | None:
    """What the branch at the end of a block goes round, if it is to be done under a guard.

    What is behind it may choose by where lanes come from, if that differs between lanes also for the warp group.
    """
    targets = graph.blocks[index].targets
    most = MOST_INSTRUCTIONS_LOOPED if looped or _known(graph.blocks[index].condition) else MOST_INSTRUCTIONS
    for inside, behind in (targets, targets[::-1]):
        region = _region(graph, index, inside, behind)
        if region is not None and sum(len(graph.blocks[each].instructions) for each in region.blocks) <= most:
            return region
    return None


def _known(condition: Any) -> bool:
    """Whether it compares an affine value with a number."""
    definition = condition.definition if isinstance(condition, Value) else None
    return (
        isinstance(definition, Instruction)
        and definition.base == "setp"
        and len(definition.sources) == 2
        and isinstance(definition.sources[0], Value)
        and definition.sources[0].stride is not None
        and constant(definition.sources[1]) is not None
    )


def _region(graph: Graph, index: int, inside: int, behind: int) -> Region | None:
    if inside <= index or not _chooses_by_lane(graph, index, behind) or not _plain(graph, inside, [index]):
        return None
    steps: list[Step] = []
    current = inside
    while True:
        nested, onward = _onward(graph, current, behind)
        if onward is None:
            return None
        steps.append(Step(current, nested, onward))
        if onward == behind:
            return Region(tuple(steps), behind)
        if not _plain(graph, onward, [current] if nested is None else [current, nested]):
            return None
        current = onward


def _onward(graph: Graph, index: int, behind: int) -> tuple[int | None, int | None]:
    """What lanes do behind a block, before they meet again, and where."""
    block = graph.blocks[index]
    if block.condition is None:
        return None, block.targets[0] if len(block.targets) == 1 else None
    if block.switch or len(block.targets) != 2:
        return None, None
    for nested, onward in (block.targets, block.targets[::-1]):
        if (
            nested not in (EXIT, behind)
            and _plain(graph, nested, [index])
            and graph.blocks[nested].condition is None
            and list(graph.blocks[nested].targets) == [onward]
        ):
            return nested, onward
    return None, None


def _plain(graph: Graph, index: int, predecessors: list[int]) -> bool:
    """Whether these are the only ways to a block, and it can be done for some lanes."""
    if index <= predecessors[-1]:
        return False
    block = graph.blocks[index]
    return (
        sorted(block.predecessors) == predecessors
        and not block.leaves
        and all(warp_groups.differs(phi.value) for phi in block.phis)
        and not any(warp_groups.waits(item) for item in block.instructions)
    )


def _chooses_by_lane(graph: Graph, index: int, behind: int) -> bool:
    phis = graph.blocks[behind].phis if behind != EXIT else []
    return not phis or (behind > index and all(warp_groups.differs(phi.value) for phi in phis))


def guards(graph: Graph, index: int, looped: bool) -> bool:
    """Whether the branch at the end of a block, in a kernel with barriers, is done under a guard whatever lanes say, so that no warp group ends there."""
    region = inner(graph, index, looped)
    return region is not None and cheap(graph, region)


def cheap(graph: Graph, region: Region) -> bool:
    """Whether the way for all lanes is not worth its code: masks cost next to nothing beside accesses of shared memory."""
    instructions = [item for index in region.blocks for item in graph.blocks[index].instructions]
    return all("shared" in item.modifiers for item in instructions if item.base in ("ld", "st"))


def emit(e: GroupEmitter, region: Region, bits: Val) -> None:
    """The instructions of a region for some lanes of the warp that is being emitted, if there are any."""
    b = e.body
    past = support.branch_to_some(e, bits)
    values, forms = dict(e.local), dict(e.forms)
    inside = set(region.blocks)
    one_row = row_length(e.kernel.block) == LANES
    for value in _read(e.graph, region):
        if value.block in inside:
            continue
        if one_row and value.stride == 0 and (form := e.affine(value)) is not None:
            e.local[value] = affine.row_bases(e, form)[0]  # the same in all lanes of this warp
        else:
            e.value(value)  # as a vector, while it still has a form
    e.mask, e.mask_bits = b.mask(bits), bits
    for step in region.steps:
        _instructions(e, step.block, inside)
        _edge(e, step.block, step.onward)
        if step.nested is not None:
            _nested(e, step.block, step.nested, step.onward, inside)
    e.mask, e.mask_bits = None, ALL
    _restore(e, values)
    e.forms = forms
    b.branch(past)
    b.block(past)


def _restore(e: GroupEmitter, values: dict[Value, Val]) -> None:
    """What was computed for some lanes is not known behind it."""
    e.local.clear()
    e.local.update(values)


def _nested(e: GroupEmitter, index: int, nested: int, onward: int, inside: set[int]) -> None:
    """A block for those of the active lanes that its predecessor's condition sends there."""
    b, block, mask, active = e.body, e.graph.blocks[index], e.mask, e.mask_bits
    bits = b.bits(e.read(block.condition, "i1"))
    if (block.targets[0] == nested) == block.negated:
        bits = b.invert(bits)
    bits = b.bin("and", bits, active)
    past, values = support.branch_to_some(e, bits), dict(e.local)
    e.mask, e.mask_bits = b.mask(bits), bits
    _instructions(e, nested, inside)
    _edge(e, nested, onward)
    e.mask, e.mask_bits = mask, active
    _restore(e, values)
    b.branch(past)
    b.block(past)


def _read(graph: Graph, region: Region) -> list[Value]:
    """What a region reads."""
    found: list[Any] = []
    for step in region.steps:
        for index in (step.block, step.nested):
            if index is None:
                continue
            block = graph.blocks[index]
            found += [value for instruction in block.instructions for value in read_by(instruction)]
            found += registers_of(block.condition)
            found += [phi.operands[index] for phi in _phis(graph, step.onward)]
    return [value for value in found if isinstance(value, Value)]


def _phis(graph: Graph, index: int) -> list[Any]:
    return graph.blocks[index].phis if index != EXIT else []


def _instructions(e: GroupEmitter, index: int, inside: set[int]) -> None:
    for instruction in e.graph.blocks[index].instructions:
        # A latch of its own: what the way for all lanes checks is whole rows, from which a latch's count has something taken off.
        e.line, e.access, e.contiguous = instruction.line, ~id(instruction), _contiguous(e, instruction, inside)
        families.emit(e, instruction)
    e.contiguous = False


def _edge(e: GroupEmitter, index: int, onward: int) -> None:
    """What phis take over for the active lanes."""
    moves = [(e.value_slot(phi.value), e.body.splat(e.value(phi.operands[index]))) for phi in _phis(e.graph, onward)]
    for slot, value in moves:
        e.blend(slot, value, e.mask)


def _contiguous(e: GroupEmitter, instruction: Instruction, inside: set[int]) -> bool:
    """Whether its lanes access neighbouring elements. An extension within them may have wrapped: then its value is not what it is known as."""
    operand = instruction.sources[0] if instruction.base in ("ld", "st") else None
    if not isinstance(operand, Address) or not isinstance(operand.base, Value) or row_length(e.kernel.block) != LANES:
        return False
    base = operand.base
    plain = not any(item in ("v2", "v4", "v8") for item in instruction.modifiers)
    return (
        plain and e.is_affine(base) and base.block not in inside and base.stride == memory.access_bytes(e, instruction)
    )
