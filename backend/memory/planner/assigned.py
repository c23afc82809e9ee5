"""Objects share segments of the memory as a plan says (S4): the object that is in the segment of the one that is wanted goes.

A plan is made when a future becomes known. Where it says nothing (no plan is possible, an object that it does not know, a segment whose objects are all needed now),
the object that is needed last goes. Objects that are in no plan take memory that the plan counts on; so they go before any object of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from farlane.backend.memory.planner.aside import set_aside
from farlane.backend.memory.planner.cost import Plan
from farlane.backend.memory.planner.exhaustive import MOST_OBJECTS, best_plan
from farlane.backend.memory.planner.genetic import GeneticSpec, search
from farlane.backend.memory.planner.greedy import greedily
from farlane.backend.memory.planner.segments import choose
from farlane.backend.memory.planner.trace import Access, Trace, TraceError
from farlane.backend.memory.replacement import Future, NeededLast, Policy, Resident

Planner = Callable[[Trace], Plan | None]

MOST_STEPS = 512  # that are planned at once
_SPEC = GeneticSpec(population=30, survivors=12, fresh=4, rounds=60, steady_rounds=12)


def by_genetic_search(trace: Trace) -> Plan | None:
    """The genetic search, with few rounds: a program waits for it."""
    return search(trace, choose(trace), _SPEC, lambda: 0.0).plan


def by_dynamic_programming(trace: Trace) -> Plan | None:
    """The best plan there is; for more objects than it takes, a greedy one."""
    segments = choose(trace)
    return best_plan(trace, segments) if len(segments.order) <= min(MOST_OBJECTS, 10) else greedily(trace, segments)


class Assigned(Policy):
    looks_ahead = True

    def __init__(self, name: str, planner: Planner) -> None:
        self.name = name
        self.plans = 0
        self._planner = planner
        self._otherwise = NeededLast()
        self._segment: dict[int, int] = {}
        self._pattern: tuple[tuple[tuple[Access, ...], ...], tuple[int, ...], int] | None = None

    def expect(self, future: Future) -> None:
        self._otherwise.expect(future)
        steps = tuple(tuple(step) for step in future.steps[:MOST_STEPS])
        numbers = sorted({access.object for step in steps for access in step})
        pattern = steps, tuple(future.sizes[number] for number in numbers), future.memory
        if pattern == self._pattern:
            return  # a loop comes round again: the plan stands
        self._pattern = pattern
        self._segment = self._plan(steps, numbers, future)

    def _plan(self, steps: Sequence[Sequence[Access]], numbers: Sequence[int], future: Future) -> dict[int, int]:
        place_of = {number: place for place, number in enumerate(numbers)}
        sizes = [future.sizes[number] for number in numbers]
        if sum(sizes) <= future.memory or not numbers:
            return {}
        planned = [[Access(place_of[access.object], access.reads, access.writes) for access in step] for step in steps]
        fitting = [step for step in planned if sum(sizes[access.object] for access in step) <= future.memory]
        try:
            trace = Trace(sizes, fitting, future.memory, frozenset(range(len(sizes))))
        except TraceError:
            return {}
        plan = self._planner(trace)
        if plan is None and (aside := set_aside(trace)) is not None:
            plan = self._planner(aside.trace)
        if plan is None:
            return {}
        self.plans += 1
        return {numbers[place]: segment for place, segment in plan.assignment.items()}

    def victim(self, wanted: int, residents: Sequence[Resident], now: int) -> int:
        segment = self._segment.get(wanted)
        if segment is not None:
            sharing = [each for each in residents if self._segment.get(each.number) == segment]
            unplanned = [each for each in residents if each.number not in self._segment]
            residents = sharing or unplanned or residents
        return self._otherwise.victim(wanted, residents, now)
