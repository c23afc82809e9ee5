"""What moves on a trace under a replacement policy: worked out by hand, and policies against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from farlane.backend.memory.planner.replay import Moved, replay
from farlane.backend.memory.planner.trace import Access, Trace
from farlane.backend.memory.replacement import POLICIES, LeastRecentlyUsed, NeededLast, Resident

Make = Callable[..., Trace]


def reads(*numbers: int) -> list[list[Access]]:
    return [[Access(number)] for number in numbers]


def test_a_cycle_is_the_worst_of_lru_and_no_trouble_with_known_future() -> None:
    trace = Trace([1, 1, 1], reads(0, 1, 2, 0, 1, 2), 2)
    assert replay(trace, LeastRecentlyUsed()) == Moved(6, 0)
    assert replay(trace, NeededLast(by_size=True)) == Moved(4, 0)


def test_what_is_dirty_is_written_back_only_if_it_is_needed() -> None:
    write, again = [Access(0, reads=False, writes=True)], [Access(0)]
    other = [Access(1, reads=False, writes=True)]
    assert replay(Trace([4, 4], [write, other], 4), LeastRecentlyUsed()) == Moved(0, 0)
    assert replay(Trace([4, 4], [write, other, again], 4), LeastRecentlyUsed()) == Moved(4, 4)
    assert replay(Trace([4, 4], [write, other, write], 4), LeastRecentlyUsed()) == Moved(0, 0)
    assert replay(Trace([4, 4], [write, other], 4, frozenset({0, 1})), LeastRecentlyUsed()) == Moved(0, 8)


def test_fragmentation_costs_evictions() -> None:
    # 0 and 2 are read in turn and stay; 1 leaves a hole of 3 and 1 more byte is free at the end: 4 do not fit in one piece.
    trace = Trace([2, 3, 2, 4], reads(0, 1, 2, 0, 2, 3), 9)
    assert replay(trace, LeastRecentlyUsed()).bytes_in == 11
    gone: list[int] = []

    class Counting(LeastRecentlyUsed):
        def victim(self, wanted: int, residents: Sequence[Resident], now: int) -> int:
            gone.append(super().victim(wanted, residents, now))
            return gone[-1]

    replay(trace, Counting())
    assert gone == [1]
    gone.clear()
    replay(trace, Counting(), contiguous=True)
    assert gone == [1, 0]


def test_a_step_whose_objects_lie_apart_is_packed() -> None:
    trace = Trace([2, 2, 5, 4], [*reads(0, 1, 2, 1), [Access(1), Access(3)]], 9)
    assert replay(trace, LeastRecentlyUsed(), contiguous=True).bytes_in == 13


@pytest.mark.parametrize("name", list(POLICIES))
@pytest.mark.parametrize("seed", range(4))
def test_with_equal_sizes_and_reads_only_nothing_moves_less_than_belady(training: Make, seed: int, name: str) -> None:
    shape = training(seed, 7, 3)
    trace = Trace([1] * 7, [[Access(access.object) for access in step] for step in shape.steps], 3)
    assert replay(trace, POLICIES[name]()).bytes_moved >= replay(trace, NeededLast(by_size=True)).bytes_moved


def test_of_those_that_nothing_needs_the_largest_goes() -> None:
    residents = [Resident(0, 1, 3, dirty=True), Resident(1, 5, 4, dirty=True), Resident(2, 2, 2, dirty=False)]
    assert NeededLast(by_size=True).victim(9, residents, 5) == 1
    assert NeededLast().victim(9, residents, 5) == 2, "it need not be written back"
