"""Loops with several entries: afterwards each has one, and every way through the graph is what it was."""

from __future__ import annotations

import random

import networkx
import pytest
from farlane.backend.jit.ssa import entries
from farlane.backend.jit.ssa.blocks import EXIT, Block


def random_blocks(seed: int) -> list[Block]:
    """Block 0 is nobody's target; all can be reached."""
    chance = random.Random(seed)
    count = chance.randint(2, 14)
    blocks = []
    for index in range(count):
        targets = [index + 1 if index + 1 < count else EXIT, chance.choice([EXIT, *range(1, count)])]
        kind = chance.choice(["plain", "branch", "switch"])
        if kind == "switch":
            targets += [chance.randrange(1, count) for _ in range(2)]
        blocks.append(Block(targets=targets[:1] if kind == "plain" else targets, switch=kind == "switch", line=index))
        if kind != "plain":
            blocks[-1].condition = f"choice of {index}"
    return blocks


def way(blocks: list[Block], count: int, seed: int) -> list[int]:
    """The blocks below `count` that are passed, where those choose by chance; new ones do as they are told."""
    chance = random.Random(seed)
    notes: dict[object, int] = {}
    at, passed = 0, []
    while at != EXIT and len(passed) < 200:
        block = blocks[at]
        if at < count:
            passed.append(at)
            at = chance.choice(block.targets)
            continue
        for instruction in block.instructions:
            notes[instruction.destinations[0]] = instruction.sources[0].value
        at = block.targets[0 if block.condition is None or notes[block.condition] else 1]
    return passed


def one_entry_each(blocks: list[Block]) -> bool:
    """Hecht and Ullman: without the edges to blocks that dominate their sources, no circle is left."""
    graph = networkx.DiGraph((index, target) for index, block in enumerate(blocks) for target in block.successors)
    graph.add_node(0)
    dominators = networkx.immediate_dominators(graph, 0)

    def dominates(one: int, other: int) -> bool:
        while other not in (one, 0):
            other = dominators[other]
        return other == one

    graph.remove_edges_from([edge for edge in graph.edges if dominates(edge[1], edge[0])])
    return networkx.is_directed_acyclic_graph(graph)


def test_random_graphs() -> None:
    changed = 0
    for seed in range(400):
        before, blocks = random_blocks(seed), random_blocks(seed)
        entries.unify(blocks)
        assert one_entry_each(blocks)
        assert len(blocks) <= 4 * len(before)
        changed += len(blocks) > len(before)
        for choice in range(5):
            assert way(blocks, len(before), choice) == way(before, len(before), choice)
    assert changed > 100


@pytest.mark.parametrize("count", [30, 300])
def test_jumps_from_everywhere_to_everywhere(count: int) -> None:
    everywhere = [Block(targets=list(range(1, count)), switch=True, condition="any") for _ in range(count)]
    entries.unify(everywhere)
    assert count < len(everywhere) <= 4 * count
    assert one_entry_each(everywhere)


def test_other_loops_stay_as_they_are() -> None:
    nested = [Block(targets=[1]), Block(targets=[2, 4], condition="a"), Block(targets=[3, 2], condition="b"), Block(targets=[1]), Block(targets=[EXIT])]  # fmt: skip
    entries.unify(nested)
    assert [block.targets for block in nested] == [[1], [2, 4], [3, 2], [1], [EXIT]]
