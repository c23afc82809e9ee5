"""Paths through one iteration, all blocks at once, against a search for each."""

from __future__ import annotations

import random
from collections import Counter

from farlane.analyzer.graph.reach import reached
from farlane.analyzer.loops.shape.paths import Paths
from hypothesis import given
from hypothesis import strategies as st

Graph = dict[int, tuple[int, ...]]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, set[int]]:
    """Blocks from 0, the header, on; cycles among them are loops inside, and not all blocks need be reached."""
    size = draw(st.integers(1, 9))
    blocks = st.integers(0, size - 1)
    following = {
        block: tuple(draw(st.lists(blocks.filter(bool), max_size=3, unique=True))) if size > 1 else ()
        for block in range(size)
    }
    return following, draw(st.sets(blocks, max_size=3))


@given(graphs())
def test_avoidable_as_searched_for(drawn: tuple[Graph, set[int]]) -> None:
    following, latches = drawn
    paths = Paths(0, following, latches)
    for start in following:
        for block in following:
            past = reached([start], following, block) if start != block else set()
            assert paths.avoidable(start, block) == bool(past & latches)


class Walk:
    """An iteration, block by block: branches of interest go the way that their turn says, others any."""

    def __init__(
        self, following: Graph, latches: set[int], told: dict[tuple[int, int], int], draw: random.Random
    ) -> None:
        self.visits: Counter[int] = Counter()
        self.ended, block = False, 0
        for _ in range(200):
            self.visits[block] += 1
            ways = [*following[block], *([None] if block in latches else [])]
            if not ways:
                return
            turn = (block, self.visits[block])
            way = ways[told[turn] % len(ways) if turn in told else draw.randrange(len(ways))]
            if way is None:
                self.ended = True
                return
            block = way


@given(graphs(), st.randoms(use_true_random=False))
def test_deciders_tell_how_often_a_block_runs(drawn: tuple[Graph, set[int]], draw: random.Random) -> None:
    following, latches = drawn
    paths = Paths(0, following, latches)
    for block in following:
        told = {(each, turn): draw.randrange(6) for each in paths.deciders(block) for turn in range(1, 200)}
        walks = [Walk(following, latches, told, draw) for _ in range(4)]
        assert len({walk.visits[block] for walk in walks if walk.ended}) <= 1


@given(graphs())
def test_deciders_lead_to_the_block_and_past_it(drawn: tuple[Graph, set[int]]) -> None:
    """Each branch that does not lead to the block, or past one that does, is none."""
    following, latches = drawn
    paths = Paths(0, following, latches)
    for block in following:
        deciding = paths.deciders(block)
        for each in deciding:
            targets = following[each]
            assert len(targets) + (each in latches) > 1
            assert any(block in reached([target], following) for target in targets)


def test_branches_within_an_iteration_of_an_inner_loop() -> None:
    """0, then the inner loop 1..5 with its test in 5; 2 goes through 3 or around it, which decides nothing but whether
    3 runs."""
    paths = Paths(0, {0: (1, 6), 1: (2,), 2: (3, 4), 3: (4,), 4: (5,), 5: (1, 6), 6: ()}, {6})
    assert paths.deciders(1) == paths.deciders(2) == paths.deciders(5) == [0, 5]
    assert paths.deciders(3) == [0, 2, 5]
    assert paths.deciders(6) == []
