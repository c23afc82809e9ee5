"""Rivals and the exact bound on traces worked out by hand, and against each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from farlane.backend.memory.planner.bound import least_moved
from farlane.backend.memory.planner.exhaustive import best_plan
from farlane.backend.memory.planner.rivals.assigning import at_random, greedily
from farlane.backend.memory.planner.rivals.belady import needed_last
from farlane.backend.memory.planner.rivals.lru import least_recently_used
from farlane.backend.memory.planner.rivals.replay import Moved, replay
from farlane.backend.memory.planner.segments import choose
from farlane.backend.memory.planner.trace import Access, Trace

Make = Callable[..., Trace]


def reads(*numbers: int) -> list[list[Access]]:
    return [[Access(number)] for number in numbers]


def test_a_cycle_is_the_worst_of_lru_and_no_trouble_with_known_future() -> None:
    trace = Trace([1, 1, 1], reads(0, 1, 2, 0, 1, 2), 2)
    assert replay(trace, least_recently_used) == Moved(6, 0)
    assert replay(trace, needed_last) == Moved(4, 0)
    assert least_moved(trace).bytes_moved == 4


def test_what_is_dirty_is_written_back_only_if_it_is_needed() -> None:
    write, again = [Access(0, reads=False, writes=True)], [Access(0)]
    other = [Access(1, reads=False, writes=True)]
    assert replay(Trace([4, 4], [write, other], 4), least_recently_used) == Moved(0, 0)
    assert replay(Trace([4, 4], [write, other, again], 4), least_recently_used) == Moved(4, 4)
    assert replay(Trace([4, 4], [write, other, write], 4), least_recently_used) == Moved(0, 0)
    assert replay(Trace([4, 4], [write, other], 4, frozenset({0, 1})), least_recently_used) == Moved(0, 8)
    assert least_moved(Trace([4, 4], [write, other, again], 4)).bytes_moved == 8
    assert least_moved(Trace([4, 4], [write, other], 4, frozenset({0, 1}))).bytes_moved == 8


def test_fragmentation_costs_evictions() -> None:
    # 0 and 2 are read in turn and stay; 1 leaves a hole of 3 and 1 more byte is free at the end: 4 do not fit in one piece.
    trace = Trace([2, 3, 2, 4], reads(0, 1, 2, 0, 2, 3), 9)
    assert replay(trace, least_recently_used).bytes_in == 11
    gone: list[int] = []

    def counting(trace: Trace, resident: list[int], last_use: dict[int, int], step: int) -> int:
        gone.append(least_recently_used(trace, resident, last_use, step))
        return gone[-1]

    replay(trace, counting)
    assert gone == [1]
    gone.clear()
    replay(trace, counting, contiguous=True)
    assert gone == [1, 0]


def test_a_step_whose_objects_lie_apart_is_packed() -> None:
    trace = Trace([2, 2, 5, 4], [*reads(0, 1, 2, 1), [Access(1), Access(3)]], 9)
    assert replay(trace, least_recently_used, contiguous=True).bytes_in == 13


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_is_below_everybody(training: Make, seed: int) -> None:
    trace = training(seed, 8, 4, together=1 + seed % 2)
    bound = least_moved(trace)
    assert bound.proven
    segments = choose(trace)
    reached = [
        replay(trace, evict, contiguous=c).bytes_moved
        for evict in (least_recently_used, needed_last)
        for c in (False, True)
    ]
    reached += [
        plan.bytes_moved
        for plan in (greedily(trace, segments), at_random(trace, segments, seed, 5), best_plan(trace, segments))
        if plan
    ]
    assert bound.bytes_moved <= min(reached)


@pytest.mark.parametrize("seed", range(5))
def test_with_equal_sizes_and_reads_only_the_bound_is_beladys(training: Make, seed: int) -> None:
    shape = training(seed, 7, 3)
    trace = Trace([1] * 7, [[Access(access.object) for access in step] for step in shape.steps], 3)
    assert least_moved(trace).bytes_moved == replay(trace, needed_last).bytes_moved
