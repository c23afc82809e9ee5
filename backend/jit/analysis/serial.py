"""Loops that lanes leave at different iterations and that read here and there, run for one lane after the other.

A loop over a row of one's own (a matrix in compressed rows, the edges of a graph) has as many iterations as the warp's longest row, and gathers in each of
them. Run for one lane at a time it is the loop that a C compiler would make: no mask, no gather, as many iterations as the lane has. What a processor
does about misses and branches by itself works across iterations and lanes, since no address waits for what an earlier iteration read.

Owns which regions of a kernel get such code beside their vectors' (`regions`), and what either way is thought to cost. serial_codegen.py makes the code, and decides when
the kernel runs by what the vectors' code has met: whether lanes were active, and read beside each other.

Only loads and arithmetic: what lanes of a warp do to memory keeps its order. Blocks of a region lie together in the order of blocks, and are entered at the first one.
"""

from __future__ import annotations

from dataclasses import dataclass

from farlane.backend.jit.analysis import warp_groups
from farlane.backend.jit.analysis.divergence import Divergence
from farlane.backend.jit.ptx.instructions import Trait, having
from farlane.backend.jit.ptx.model import LANES, Address, Instruction, read_by, registers_of
from farlane.backend.jit.ssa.blocks import EXIT, Block
from farlane.backend.jit.ssa.cfg import Graph
from farlane.backend.jit.ssa.ssa import Value

MOST_INSTRUCTIONS, MOST_BLOCKS = 120, 16
_OTHERS = {"st", "bar", "barrier", "shfl", "?pick"}
# Costs in tenths of a cycle. A vector of 32 lanes is two registers of words.
# Of one lane: an instruction, a load with its check, leaving a loop unforeseen.
ALONE, ALONE_LOAD, ALONE_LOOP = 3, 15, 200
# Of all lanes: an instruction on words, a load at addresses that turn out to be beside each other.
VECTOR, VECTOR_LOAD = 15, 140
SCATTERED, SCATTERED_ZEN = 700, 1500  # what it costs more when they turn out not to be
_FLOATS = {"f16", "bf16", "f32", "f64"}
_SLOW = having(Trait.SLOW)
ALONE_SLOW, VECTOR_SLOW = 120, 600
DIVISION = 100  # of integers: processors have none of vectors


@dataclass(frozen=True)
class Region:
    """Blocks from `start` up to `end`, not included."""

    start: int
    end: int

    def __contains__(self, block: int) -> bool:
        return self.start <= block < self.end


def regions(graph: Graph, parting: Divergence, always: bool = False) -> list[Region]:
    """The regions of a kernel's graph, in order. `always`: whether or not they may ever be worth it."""
    if parting.conservative or parting.waiting:
        return []
    accepted = [_accepts(block) for block in graph.blocks]

    def wanted(header: int) -> bool:
        members = graph.loops[header]
        return (
            header in parting.loops and all(accepted[index] for index in members) and (always or _pays(graph, members))
        )

    headers = [header for header in sorted(graph.loops) if wanted(header)]
    outer = [one for one in headers if not any(one in graph.loops[other] for other in headers if other != one)]
    found: list[Region] = []
    for header in outer:
        region = _covering(graph, accepted, header, header)
        if region is None:
            continue
        if found:
            # One after the other, with what lies between them: a lane that is through the first goes on with the second.
            joined = _covering(graph, accepted, found[-1].start, header)
            if joined is not None:
                found[-1] = joined
                continue
        found.append(region)
    return found


def _accepts(block: Block) -> bool:
    return (
        not block.switch
        and not block.leaves
        and all(warp_groups.accepts(item) and item.base not in _OTHERS for item in block.instructions)
    )


def _covering(graph: Graph, accepted: list[bool], first: int, last: int) -> Region | None:
    """The smallest region that holds block `first` and the loop of `last`."""
    start, end = first, max(graph.loops.get(last, {last})) + 1
    while True:
        outside = [
            source
            for index in range(start + 1, end)
            for source in graph.blocks[index].predecessors
            if not start <= source < end
        ]
        if not outside:
            break
        start, end = min(start, *outside), max(end, *(source + 1 for source in outside))
    blocks = range(start, end)
    inside = {header for header in graph.loops if header in blocks}
    around = set(graph.loops_around(start)) - inside
    if (
        len(blocks) > MOST_BLOCKS
        or not all(accepted[index] for index in blocks)
        or sum(len(graph.blocks[index].instructions) for index in blocks) > MOST_INSTRUCTIONS
        # The same loops lie round all of it, and those that begin here end here.
        or any(set(graph.loops_around(index)) - inside != around for index in blocks)
        or any(max(graph.loops[header]) >= end for header in inside)
        or any(target != EXIT and target < start for index in blocks for target in graph.blocks[index].targets)
        or start == 0
    ):
        return None
    return Region(start, end)


def _pays(graph: Graph, members: set[int]) -> bool:
    """Whether it reads at addresses that differ between lanes in no known way, and neither these nor how it goes on wait for what it read before."""
    blocks = [graph.blocks[index] for index in members]
    loads = [
        item for block in blocks for item in block.instructions if item.base == "ld" and "param" not in item.modifiers
    ]
    if not any(_apart(item) for item in loads):
        return False
    read = _following(blocks, {value for item in loads for value in item.destinations if value is not None})
    inner = [block for block in blocks if block.condition is not None and _reads(block.condition, read)]
    if any(target not in members for block in inner for target in block.targets):
        return False
    carried = {
        phi.value
        for index in members
        for phi in graph.blocks[index].phis
        if (index in graph.loops and phi.value in read) or (index not in graph.loops and inner)
    }
    late = _following(blocks, carried)
    return not any(_reads(source, late) for item in loads for source in item.sources)


def _apart(i: Instruction) -> bool:
    operand = i.sources[0]
    base = operand.base if isinstance(operand, Address) else None
    return isinstance(base, Value) and base.varying and base.stride is None


def _reads(operand: object, values: set[Value]) -> bool:
    return any(value in values for value in registers_of(operand))


def _following(blocks: list[Block], values: set[Value]) -> set[Value]:
    """These and what is computed from them in these blocks."""
    found = set(values)
    changed = True
    while changed:
        before = len(found)
        for block in blocks:
            for phi in block.phis:
                if any(value in found for value in phi.operands.values()):
                    found.add(phi.value)
            for item in block.instructions:
                if any(value in found for value in read_by(item)):
                    found.update(value for value in item.destinations if value is not None)
        changed = len(found) != before
    return found


def live_in(graph: Graph, region: Region) -> list[Value]:
    """What the region reads of what was computed before it, the first block's phis among it."""
    found = {phi.value for phi in graph.blocks[region.start].phis}
    for index in range(region.start, region.end):
        block = graph.blocks[index]
        for item in block.instructions:
            found.update(value for value in read_by(item) if value.block not in region)
        found.update(value for value in registers_of(block.condition) if value.block not in region)
        for target in block.successors:
            for phi in graph.blocks[target].phis:
                if phi.operands[index].block not in region:
                    found.add(phi.operands[index])
    return sorted((value for value in found if value.definition is not None), key=lambda value: value.number)


def live_out(graph: Graph, region: Region) -> list[Value]:
    """What the region computes and later blocks read, phis of these apart."""
    found: set[Value] = set()
    for index, block in enumerate(graph.blocks):
        if index in region:
            continue
        for item in block.instructions:
            found.update(value for value in read_by(item) if value.block in region)
        found.update(value for value in registers_of(block.condition) if value.block in region)
        for phi in block.phis:
            found.update(
                value for source, value in phi.operands.items() if source not in region and value.block in region
            )
    return sorted((value for value in found if value.definition is not None), key=lambda value: value.number)


def costs(block: Block) -> tuple[int, int]:
    """(of all lanes' vectors, of one lane by itself), without what scattered reads add."""
    vector = alone = 0
    for item in block.instructions:
        if item.base == "ld" and "param" not in item.modifiers:
            vector, alone = vector + VECTOR_LOAD, alone + ALONE_LOAD
            continue
        if item.base in ("div", "rem") and not _FLOATS & set(item.modifiers):
            vector, alone = vector + LANES * DIVISION, alone + DIVISION
            continue
        if item.base in _SLOW:
            vector, alone = vector + VECTOR_SLOW, alone + ALONE_SLOW
            continue
        alone += ALONE
        if any(value is not None and value.varying for value in item.destinations):
            wide = any(value is not None and value.type in ("b64", "u64", "s64", "f64") for value in item.destinations)
            vector += VECTOR * (2 if wide else 1)
    return vector, alone
