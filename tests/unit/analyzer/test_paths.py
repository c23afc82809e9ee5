"""Paths through one iteration, all blocks at once, against a search for each."""

from __future__ import annotations

from farlane.analyzer.graph.reach import reached
from farlane.analyzer.loops.paths import Paths
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


@given(graphs())
def test_deciders_as_searched_for(drawn: tuple[Graph, set[int]]) -> None:
    following, latches = drawn
    paths = Paths(0, following, latches)
    for block in following:
        deciding = []
        for each, targets in following.items():
            leads = any(block in reached([target], following) for target in targets)
            past = any(target != block and reached([target], following, block) & latches for target in targets)
            if len(targets) + (each in latches) > 1 and leads and (each in latches or past):
                deciding.append(each)
        assert paths.deciders(block) == deciding
