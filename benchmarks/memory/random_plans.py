"""Assignments of objects to segments at random: what any search has to be better than."""

from __future__ import annotations

import random

from farlane.backend.memory.planner.cost import Plan, SegmentCost, plan_of
from farlane.backend.memory.planner.greedy import own_segments
from farlane.backend.memory.planner.segments import Segments
from farlane.backend.memory.planner.trace import Trace


def at_random(trace: Trace, segments: Segments, seed: int, tries: int = 1) -> Plan | None:
    """The best of `tries` random assignments."""
    source = random.Random(seed)
    costs = SegmentCost(trace, segments)
    best: list[int] | None = None
    for _ in range(tries):
        masks = own_segments(segments)
        for place, number in enumerate(segments.order):
            if number not in segments.defining:
                masks[source.randrange(segments.fitting(trace.sizes[number]))] |= 1 << place
        if best is None or costs.total(masks) < costs.total(best):
            best = masks
    return plan_of(costs, best) if best is not None else None
