"""Loops with several entries are given one, by copies of the blocks between the others and it.

Compilers leave the exit test out where a loop is entered and the test is known (jump threading): what was one loop with
a head is a cycle that is entered behind the test as well. Of its entries one is made the head, and what stands between
the others and it is copied for those who come from outside: ways through the function stay the same, one by one. Copied
is little, and nothing that may call CUDA, so a call stands in the graph once. Instructions of copies have addresses
`COPIED` above their originals', so that values which arise there are others.

For predictions: permissions see the graph as it is.

Source: Aho, Lam, Sethi, Ullman, Compilers, 9.7.6 (node splitting).
"""

from __future__ import annotations

from collections.abc import Iterable

from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.graph import structure as structures
from farlane.analyzer.graph.control_flow import UNRESOLVED, Block, ControlFlow, Edge
from farlane.analyzer.graph.program import Program
from farlane.analyzer.graph.reach import circles, reached
from farlane.analyzer.graph.structure import Structure

COPIED = 1 << 48  # no address is as large
MAXIMUM_COPIED = 400  # instructions, for one entry
MAXIMUM_ROUNDS = 8


def build(program: Program, start: int) -> Structure:
    """A function's graph with its structure, in which loops have one entry as far as copies help; each is made once.

    Raises:
        AnalysisError: as `structure.build` does.
    """
    known = program.split.get(start)
    if known is None:
        known = program.split[start] = split(program, structures.build(program, start))
    assert isinstance(known, Structure)
    return known


def split(program: Program, structure: Structure) -> Structure:
    """The structure itself when no loop has several entries, or nothing can be done."""
    for _ in range(MAXIMUM_ROUNDS):
        if not structure.tangles:
            break
        flow = next((flow for tangle in structure.tangles if (flow := _untangled(program, structure, tangle))), None)
        if flow is None:
            break
        structure = Structure(flow)
    return structure


def _untangled(program: Program, structure: Structure, tangle: frozenset[int]) -> ControlFlow | None:
    """The graph in which a cycle with several entries has one; None: too much would have to be copied."""
    members = _whole(structure, tangle)
    entries = [block for block in members if any(source not in members for source in structure.predecessors[block])]
    inside = {
        block: [edge.target for edge in structure.flow.blocks[block].edges if edge.target in members]
        for block in members
    }
    chosen: tuple[int, set[int]] | None = None
    for header in entries:
        copied = reached([entry for entry in entries if entry != header], inside, header)
        size = sum(len(structure.flow.blocks[block].instructions) for block in copied)
        if size <= MAXIMUM_COPIED and (chosen is None or size < chosen[0]) and _plain(program, structure.flow, copied):
            chosen = size, copied
    if chosen is None:
        return None
    return _copied(structure.flow, members, chosen[1])


def _whole(structure: Structure, tangle: frozenset[int]) -> set[int]:
    """All blocks of a cycle: with those of the loops inside it."""
    around = {
        (latch, loop.header)
        for loop in structure.loops.values()
        if tangle <= loop.blocks
        for latch in loop.latches
        if structure.dominates(loop.header, latch)
    }
    onward = {
        block.start: [edge.target for edge in block.edges if (block.start, edge.target) not in around]
        for block in structure.flow.blocks.values()
    }
    return set(circles(onward)[min(tangle)])


def _plain(program: Program, flow: ControlFlow, blocks: Iterable[int]) -> bool:
    """Whether nothing in some blocks may call CUDA."""
    for start in blocks:
        block = flow.blocks[start]
        if block.end == UNRESOLVED:
            return False
        for instruction in block.instructions:
            callee = flow.calls.get(instruction.address)
            if callee is None:
                if instruction.mnemonic == "call":
                    return False
            elif callee.address is None:
                if not callee.name or is_cuda(callee.name):
                    return False
            elif program.owner.get(callee.address, callee.address) in program.cuda:
                return False
    return True


def _copied(flow: ControlFlow, members: set[int], copied: set[int]) -> ControlFlow:
    """The graph with copies of some blocks of a cycle, for all who come from outside and not to its head."""
    calls = dict(flow.calls)
    top = COPIED
    while any(start + top in flow.blocks for start in copied):
        top += COPIED
    blocks = {
        start: block if start in members else _leading(block, copied, top) for start, block in flow.blocks.items()
    }
    for start in sorted(copied):
        block = flow.blocks[start]
        instructions = tuple(each._replace(address=each.address + top) for each in block.instructions)
        for each in block.instructions:
            if each.address in flow.calls:
                calls[each.address + top] = flow.calls[each.address]
        blocks[start + top] = _leading(Block(start + top, instructions, block.edges, block.end), copied, top)
    return ControlFlow(flow.name, flow.entry, _reached(flow.entry, blocks), calls, flow.unresolved)


def _leading(block: Block, copied: set[int], top: int) -> Block:
    """A block whose edges lead to copies."""
    if not any(edge.target in copied for edge in block.edges):
        return block
    edges = tuple(Edge(edge.target + top, edge.kind) if edge.target in copied else edge for edge in block.edges)
    return Block(block.start, block.instructions, edges, block.end)


def _reached(entry: int, blocks: dict[int, Block]) -> dict[int, Block]:
    onward = {block.start: [edge.target for edge in block.edges] for block in blocks.values()}
    found = reached([entry], onward)
    return {start: block for start, block in blocks.items() if start in found}
