"""The FIFO, releases before allocations, the state as JSON, and what is refused."""

from __future__ import annotations

import json
import random

import pytest
from farlane.backend.memory.slots.allocator import SlotAllocator, SlotError, SlotState
from farlane.backend.memory.slots.policies import POLICIES, FirstFit, Span, TwoEnded
from hypothesis import given
from hypothesis import strategies as st


def test_who_does_not_fit_makes_those_behind_wait() -> None:
    core = SlotAllocator(8, FirstFit())
    assert core.step(requests=[(1, 4), (2, 5), (3, 1)]) == [(1, Span(0, 4))]
    assert core.step() == []
    assert core.step(releases=[1]) == [(2, Span(0, 5)), (3, Span(5, 1))]
    assert core.used() == 6


def test_releases_come_before_allocations_of_the_same_step() -> None:
    core = SlotAllocator(4, TwoEnded())
    core.step(requests=[(1, 4)])
    assert core.step(releases=[1], requests=[(2, 4)]) == [(2, Span(0, 4))]


def test_both_ends_fill_first() -> None:
    core = SlotAllocator(8, TwoEnded())
    placed = core.step(requests=[(1, 2), (2, 2), (3, 1)])
    assert [span.start for _, span in placed] == [0, 6, 2]


@pytest.mark.parametrize(
    ("releases", "requests", "told"),
    [
        ([7], [], "not held, by \\[7\\]"),
        ([1, 1], [], "not held"),
        ([], [(1, 1)], "has slots or waits"),
        ([], [(5, 1), (5, 1)], "has slots or waits"),
        ([], [(2, 9)], "9 slots wanted by 2: the core has 8"),
    ],
)
def test_nonsense_changes_nothing(releases: list[int], requests: list[tuple[int, int]], told: str) -> None:
    core = SlotAllocator(8, FirstFit())
    core.step(requests=[(1, 3)])
    before = core.state.to_json()
    with pytest.raises(SlotError, match=told):
        core.step(releases, requests)
    assert core.state.to_json() == before


def test_buddies_refuse_what_they_cannot_round() -> None:
    with pytest.raises(SlotError, match="buddy"):
        SlotAllocator(12, POLICIES["buddy"]).step(requests=[(1, 9)])


@pytest.mark.parametrize("name", POLICIES)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 40))
def test_spans_never_overlap_and_the_state_goes_through_json(name: str, seed: int, steps: int) -> None:
    source = random.Random(seed)
    core = SlotAllocator(16, POLICIES[name])
    for owner in range(steps):
        wanted = source.randint(1, 16)
        releases = [held for held in core.state.spans if (held ^ seed) % 3 == 0]
        core.step(releases, [(owner, wanted)])
        taken = 0
        for span in core.state.spans.values():
            assert not taken & span.mask
            taken |= span.mask
        assert taken ^ core.state.free == (1 << 16) - 1
        core.state = SlotState.from_json(json.loads(json.dumps(core.state.to_json())))
