"""What every policy owes, and what each one chooses."""

from __future__ import annotations

import pytest
from farlane.backend.memory.slots import search
from farlane.backend.memory.slots.policies import POLICIES, BestFit, Buddy, FirstFit, NextFit, SplitEnds, TwoEnded
from hypothesis import given
from hypothesis import strategies as st

STATES = st.integers(1, 64).flatmap(
    lambda slots: st.tuples(st.just(slots), st.integers(0, 2**slots - 1), st.integers(1, slots), st.integers(0, slots))
)


@pytest.mark.parametrize("name", POLICIES)
@given(state=STATES)
def test_a_span_is_free_and_long_enough(name: str, state: tuple[int, int, int, int]) -> None:
    slots, free, wanted, last_end = state
    span = POLICIES[name].place(free, slots, wanted, last_end)
    if span is None:
        assert name == "buddy" or not search.available(free, wanted)
    else:
        assert span.start >= 0
        assert span.end <= slots
        assert span.length == wanted if name != "buddy" else wanted <= span.length < 2 * wanted
        assert free & span.mask == span.mask


@given(state=STATES)
def test_two_ended_takes_the_start_nearest_to_an_end(state: tuple[int, int, int, int]) -> None:
    slots, free, wanted, last_end = state
    span = TwoEnded().place(free, slots, wanted, last_end)
    starts = [s for s in range(slots - wanted + 1) if search.available(free, wanted) >> s & 1]
    if span is None:
        assert not starts
        return
    distance = {start: min(start, slots - wanted - start) for start in starts}
    assert distance[span.start] == min(distance.values())
    if starts[0] + starts[-1] == slots - wanted:
        assert span.start == starts[0]


def start(policy: object, free: int, slots: int, wanted: int, last_end: int = 0) -> int | None:
    span = policy.place(free, slots, wanted, last_end)  # type: ignore[attr-defined]
    return None if span is None else span.start


def test_what_each_chooses() -> None:
    free = 0b0110_0111_1011  # runs: 0-1, 3-6, 9-10
    assert start(FirstFit(), free, 12, 2) == 0
    assert start(NextFit(), free, 12, 2, last_end=5) == 5
    assert start(NextFit(), free, 12, 2, last_end=10) == 0
    assert start(BestFit(), free, 12, 2) == 0
    assert start(BestFit(), 0b0110_0111_1000, 12, 2) == 9
    assert start(SplitEnds(), free, 12, 2) == 0
    assert start(SplitEnds(), free, 12, 4) == 3
    assert start(SplitEnds(divisor=8), free, 12, 2) == 9
    assert start(TwoEnded(), free, 12, 2) == 0
    assert start(TwoEnded(), 0b0110_0111_1000, 12, 2) == 9
    assert start(Buddy(), 0b1111_0000_1111_0011, 16, 2) == 0
    assert start(Buddy(), 0b1111_0011_1111_0000, 16, 1) == 8
    assert start(Buddy(), 0b0110, 4, 2) is None
