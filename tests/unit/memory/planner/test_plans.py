"""Plans: the right data are there for every access, the optimum is found, every ending is reached."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from farlane.backend.memory.planner.aside import set_aside
from farlane.backend.memory.planner.cost import IMPOSSIBLE, Plan, SegmentCost, plan_of
from farlane.backend.memory.planner.exhaustive import MOST_OBJECTS, best_plan
from farlane.backend.memory.planner.genetic import Ending, GeneticSpec, search
from farlane.backend.memory.planner.segments import Segments, choose
from farlane.backend.memory.planner.trace import Access, Trace
from hypothesis import given, settings
from hypothesis import strategies as st

Make = Callable[..., Trace]


def still() -> float:
    return 0.0


def carry_out(trace: Trace, plan: Plan) -> tuple[int, int]:
    """Does what the plan says with real contents (a version per object), checks every access, and returns the bytes in and out."""
    host = {number: 0 for number, accesses in enumerate(trace.accesses) if accesses and accesses[0][1].reads}
    true: dict[int, int] = dict(host)
    device: dict[int, tuple[int, int]] = {}  # segment -> (object, version)
    moves = list(plan.moves)
    bytes_in = bytes_out = version = 0
    for step in range(len(trace.steps) + 1):
        while moves and moves[0].step == step:
            move = moves.pop(0)
            if move.out:
                holder, held = device[move.segment]
                assert holder == move.object
                host[holder] = held
                bytes_out += trace.sizes[holder]
            else:
                device[move.segment] = move.object, host[move.object]
                bytes_in += trace.sizes[move.object]
        if step == len(trace.steps):
            break
        for access in trace.steps[step]:
            segment = plan.assignment[access.object]
            assert trace.sizes[access.object] <= plan.segments.sizes[segment]
            if access.reads:
                assert device[segment] == (access.object, true[access.object])
            version += 1 if access.writes or not access.reads else 0
            if access.writes or not access.reads:
                true[access.object] = version
                device[segment] = access.object, version
        together = [plan.assignment[access.object] for access in trace.steps[step]]
        assert len(set(together)) == len(together)
    for number in trace.kept:
        if trace.accesses[number] and any(access.writes for _, access in trace.accesses[number]):
            assert host[number] == true[number]
    return bytes_in, bytes_out


def written(trace: Trace) -> Trace:
    """An access that does not read writes: otherwise its content would be anything."""
    steps = [[Access(a.object, a.reads, a.writes or not a.reads) for a in step] for step in trace.steps]
    return Trace(trace.sizes, steps, trace.memory, trace.kept)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), together=st.integers(1, 3))
def test_what_a_plan_moves_is_what_every_access_needs(training: Make, seed: int, together: int) -> None:
    trace = written(training(seed, 8, 4, together=together))
    found = search(trace, choose(trace), GeneticSpec(rounds=5, seed=seed), still)
    if found.plan is not None:
        assert carry_out(trace, found.plan) == (found.plan.bytes_in, found.plan.bytes_out)
        assert found.plan.bytes_moved == found.history[-1]


def assignments(segments: Segments, sizes: list[int]) -> Iterator[list[int]]:
    free = [p for p, number in enumerate(segments.order) if number not in segments.defining]
    own = [1 << segments.order.index(number) for number in segments.defining]
    for choice in itertools.product(*(range(segments.fitting(sizes[segments.order[p]])) for p in free)):
        masks = list(own)
        for place, segment in zip(free, choice, strict=True):
            masks[segment] |= 1 << place
        yield masks


@pytest.mark.parametrize("seed", range(6))
def test_the_best_plan_is_the_best_of_all(training: Make, seed: int) -> None:
    trace = training(seed, 7, 3, together=1 + seed % 2)
    segments = choose(trace)
    costs = SegmentCost(trace, segments)
    least = min(costs.total(masks) for masks in assignments(segments, list(trace.sizes)))
    plan = best_plan(trace, segments)
    assert (plan.bytes_moved if plan else IMPOSSIBLE) == (least if least < IMPOSSIBLE else IMPOSSIBLE)


@pytest.mark.parametrize("seed", range(12))
def test_the_search_finds_the_optimum_of_small_instances(training: Make, seed: int) -> None:
    trace = training(seed, 9 + seed % 4, 3 + seed % 3)
    segments = choose(trace)
    found, best = search(trace, segments, GeneticSpec(seed=seed), still), best_plan(trace, segments)
    assert found.plan is not None
    assert best is not None
    assert found.plan.bytes_moved == best.bytes_moved
    assert search(trace, segments, GeneticSpec(seed=seed), still) == found


def test_every_ending(training: Make) -> None:
    trace = training(3, 12, 4)
    segments = choose(trace)
    ticks = itertools.count()
    assert search(trace, segments, GeneticSpec(rounds=3), still).ending is Ending.ROUNDS
    assert search(trace, segments, GeneticSpec(seconds=2.5), lambda: float(next(ticks))).ending is Ending.TIME
    steady = search(trace, segments, GeneticSpec(steady_rounds=4, rounds=500), still)
    assert steady.ending is Ending.STEADY
    assert steady.history[-1] == pytest.approx(steady.history[-5], rel=0.001)
    alone = Trace([5], [[Access(0)]], 10)
    assert search(alone, choose(alone), GeneticSpec(), still).ending is Ending.NOTHING


def test_objects_that_can_never_be_together_are_told() -> None:
    # Two small objects in one step, and one segment only that both fit.
    trace = Trace([60, 50, 50], [[Access(0)], [Access(1), Access(2)]], 100)
    segments = choose(trace)
    assert segments.sizes == (60,)
    assert search(trace, segments, GeneticSpec(rounds=3), still).plan is None
    assert best_plan(trace, segments) is None
    assert plan_of(SegmentCost(trace, segments), [0b111]) is None


def test_segments_are_the_largest_objects() -> None:
    trace = Trace([10, 30, 30, 20, 5], [[Access(n)] for n in (4, 2, 1, 0, 3)], 81)
    assert choose(trace).sizes == (30, 30, 20)
    assert choose(trace).defining == (2, 1, 3)
    assert choose(trace, "different").sizes == (30, 20, 10, 5)
    assert choose(trace, most=1).sizes == (30,)
    assert choose(trace).offsets == (0, 30, 60)
    assert choose(trace).fitting(25) == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"survivors": 1}, "survivors = 1"),
        ({"mutation_last": 1.5}, "mutation_last = 1.5"),
        ({"rounds": -1}, "rounds"),
        ({"looked_at": 0}, "looked_at = 0"),
    ],
)
def test_specifications_are_checked(changes: dict[str, float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        GeneticSpec(**changes)  # type: ignore[arg-type]


def test_too_many_objects_for_every_way(training: Make) -> None:
    trace = training(1, MOST_OBJECTS + 1, 4)
    with pytest.raises(ValueError, match="at most"):
        best_plan(trace, choose(trace))


def test_what_every_step_needs_is_set_aside() -> None:
    steps = [[Access(0), Access(1 + k % 3, writes=True)] for k in range(9)]
    trace = Trace([5, 40, 40, 40], steps, 90, frozenset(range(4)))
    assert search(trace, choose(trace), GeneticSpec(), lambda: 0.0).plan is None, (
        "two segments, and it conflicts with all"
    )
    aside = set_aside(trace)
    assert aside is not None
    assert (aside.objects, aside.trace.memory, aside.bytes_moved) == (frozenset({0}), 85, 5)
    plan = search(aside.trace, choose(aside.trace), GeneticSpec(), lambda: 0.0).plan
    assert plan is not None
    assert 0 not in plan.assignment
    assert set_aside(Trace([50, 50], [[Access(0)], [Access(1)], [Access(0)]], 60)) is None, (
        "it would take more than half"
    )
