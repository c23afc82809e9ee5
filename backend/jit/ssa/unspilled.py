"""A graph as it would be if all local variables were registers: for questions about what depends on what, not for code.

Code that was not optimised keeps a function's variables in one array of local memory. Where an address of it goes elsewhere, promotion.py leaves the whole array there,
since PTX does not say where its objects end; and then what a loop's end depends on goes through memory. Whether a loop waits (spins.py) is
a question of what the program means, and an answer that is wrong costs time or lets the other threads run in vain: here a place is taken to be
written by the accesses that name it alone. Addresses are followed through places that are written once, as references are that functions were given.

Order: cfg -> this, with a graph that is not in SSA form yet, and stays as it is.
"""

from __future__ import annotations

from farlane.backend.jit.ptx.model import Address, Body, Instruction, Register, Storage, Symbol
from farlane.backend.jit.ssa import promotion
from farlane.backend.jit.ssa.blocks import Block
from farlane.backend.jit.ssa.cfg import Graph
from farlane.backend.jit.ssa.promotion import Access, Known

_MOST_ROUNDS = 8  # of addresses that are kept where other addresses lead


def unspilled(graph: Graph, storage: dict[str, Storage]) -> Graph | None:
    """A copy of the graph, block by block, whose accesses to known places of local memory are moves. None where there are none."""
    arrays = {name: item for name, item in storage.items() if item.space in ("local", "param")}
    if not arrays:
        return None
    code = Body(instructions=[_as_local(item, arrays) for block in graph.blocks for item in block.instructions])
    accesses = _accesses(code, arrays)
    if not accesses:
        return None
    slots = {name: promotion.divide(code, accesses, name) for name in arrays}
    blocks = []
    at = 0
    for block in graph.blocks:
        instructions: list[Instruction] = []
        for item in block.instructions:
            access = accesses.get(at)
            plain = code.instructions[at]
            instructions += [_copy(item)] if access is None else promotion.moves(plain, access, slots[access.array])
            at += 1
        copy = Block(
            instructions, block.targets, block.condition, block.negated, block.switch, block.leaves, block.line
        )
        copy.predecessors = block.predecessors
        blocks.append(copy)
    return Graph(blocks, graph.idom, graph.ipdom, graph.loops, graph.loop_of)


def _as_local(item: Instruction, arrays: dict[str, Storage]) -> Instruction:
    """What calls are passed, and functions by now inlined were, lies in memory as local variables do."""
    place = item.sources[0] if item.base in ("ld", "st") and "param" in item.modifiers and item.sources else None
    base = place.base if isinstance(place, Address) else place
    if not isinstance(base, Symbol) or base.name not in arrays:
        return item
    modifiers = tuple("local" if each == "param" else each for each in item.modifiers)
    sources = [place if isinstance(place, Address) else Address(base), *item.sources[1:]]
    return Instruction(item.base, modifiers, item.destinations, sources, item.line, item.guard)


def _copy(item: Instruction) -> Instruction:
    """SSA form is made in place."""
    return Instruction(
        item.base, item.modifiers, list(item.destinations), list(item.sources), item.line, item.guard, item.labels
    )


def _accesses(code: Body, arrays: dict[str, Storage]) -> dict[int, Access]:
    """The accesses to known places, by instruction."""
    contents: dict[tuple[str, int], Known] = {}
    accesses: dict[int, Access] = {}
    for _ in range(_MOST_ROUNDS):
        known = promotion.known_addresses(code, arrays, contents)
        accesses = {}
        for index, item in enumerate(code.instructions):
            found = promotion.access_of(item, known, arrays)
            if found is not None and promotion.inside(found, arrays[found.array]):
                accesses[index] = found
        before, contents = contents, _contents(code, known, accesses)
        if contents == before:
            break
    return accesses


def _contents(code: Body, known: dict[str, Known], accesses: dict[int, Access]) -> dict[tuple[str, int], Known]:
    """The places that are written once, with a known address."""
    written: dict[tuple[str, int], int] = {}  # stores by byte
    found: dict[tuple[str, int], Known] = {}
    for index, access in accesses.items():
        item = code.instructions[index]
        if item.base != "st":
            continue
        for value, (start, size) in zip(promotion.stored_by(item), access.ranges(), strict=True):
            for byte in range(start, start + size):
                written[access.array, byte] = written.get((access.array, byte), 0) + 1
            if isinstance(value, Register) and value.name in known:
                found[access.array, start] = known[value.name]
    return {
        (array, start): value
        for (array, start), value in found.items()
        if all(written[array, byte] == 1 for byte in range(start, start + 8))
    }
