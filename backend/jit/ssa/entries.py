"""Loops with several entries get one, so that every graph is reducible.

Compilers make such loops of jumps into the middle of a loop. Lanes come to one of them in different places, and where they leave it they
are to meet again, which shuffles, votes and barriers behind it rely on: the scheduler of lanes (cfg.py) knows how to bring that about for loops with
one entry. Here each jump to one of the entries becomes a jump to a new first block, with a note, in predicates, of the entry that was
meant; from there on it goes where the note says.

The loops are the strongly connected parts of the graph, and of those, without their first blocks, again. What was an entry is reached through the new first
block alone and is in no inner loop, so there are at most three new blocks for each block.

Source: Erosa, Hendren, "Taming Control Flow", and Bourdoncle, "Efficient chaotic iteration strategies with widenings", for the nesting.
"""

from __future__ import annotations

from farlane.backend.jit.ptx.model import Immediate, Instruction, Register
from farlane.backend.jit.ssa.blocks import Block


def unify(blocks: list[Block]) -> None:
    """Adds blocks until every loop has one entry. Block 0 has no predecessor, and all blocks can be reached. Predecessors are not kept."""
    sources: list[set[int]] = [set() for _ in blocks]
    for index, block in enumerate(blocks):
        for target in block.successors:
            sources[target].add(index)
    work = [set(range(len(blocks)))]
    while work:
        for part in _parts(blocks, work.pop()):
            entries = sorted(target for target in part if not sources[target] <= part)
            if len(entries) > 1:
                entries = [_one_entry(blocks, part, entries, sources)]
            part.remove(entries[0])
            work.append(part)


def _one_entry(blocks: list[Block], part: set[int], entries: list[int], sources: list[set[int]]) -> int:
    """Makes a part's only entry; the part grows by new blocks."""
    line = blocks[entries[0]].line
    notes = [Register(f"%enters.{len(blocks)}.{position}", "pred") for position in range(len(entries) - 1)]

    def add(block: Block, inside: bool, coming: set[int]) -> int:
        blocks.append(block)
        sources.append(coming)
        if inside:
            part.add(len(blocks) - 1)
        return len(blocks) - 1

    # One block for each note, of which the first is the entry.
    first = len(blocks)
    last = first + len(notes) - 1
    noted = {}
    for position, (entry, note) in enumerate(zip(entries, notes, strict=False)):
        at = first + position
        targets = [entry, entries[-1] if at == last else at + 1]
        noted[entry] = {add(Block(targets=targets, condition=note, line=line), True, {at - 1} if position else set())}
    noted[entries[-1]] = {last}
    for position, entry in enumerate(entries):
        # Jumps from inside and from outside have blocks of their own: else these would be entries, too.
        for inside in (True, False):
            coming = {source for source in sources[entry] if (source in part) == inside}
            if not coming:
                continue
            at = add(_note(position, notes, first, line), inside, coming)
            sources[first].add(at)
            for source in coming:
                blocks[source].targets = [at if target == entry else target for target in blocks[source].targets]
        sources[entry] = noted[entry]
    return first


def _note(entry: int, notes: list[Register], first: int, line: int) -> Block:
    set_to = [
        Instruction("mov", ("pred",), [note], [Immediate(int(position == entry))], line)
        for position, note in enumerate(notes)
    ]
    return Block(instructions=set_to, targets=[first], line=line)


def _parts(blocks: list[Block], among: set[int]) -> list[set[int]]:
    """The strongly connected parts with more than one block, of some blocks."""
    import networkx  # late: few kernels have such loops, and it takes longer to import than most take to compile

    graph = networkx.DiGraph(
        (index, target) for index in sorted(among) for target in blocks[index].successors if target in among
    )
    return [part for part in networkx.strongly_connected_components(graph) if len(part) > 1]
