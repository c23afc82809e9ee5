"""A simpler way to assign objects to segments than the search: greedily."""

from __future__ import annotations

from farlane.backend.memory.planner.cost import Plan, SegmentCost, plan_of
from farlane.backend.memory.planner.segments import Segments
from farlane.backend.memory.planner.trace import Trace


def greedily(trace: Trace, segments: Segments) -> Plan | None:
    """Each object, large ones first, goes where it adds least."""
    costs = SegmentCost(trace, segments)
    masks = own_segments(segments)
    for place, number in enumerate(segments.order):
        if number not in segments.defining:
            fitting = range(segments.fitting(trace.sizes[number]))
            chosen = min(fitting, key=lambda s: (costs.of(masks[s] | 1 << place) - costs.of(masks[s]), s))
            masks[chosen] |= 1 << place
    return plan_of(costs, masks)


def own_segments(segments: Segments) -> list[int]:
    """For each segment the set, as a mask, of the object that defines it."""
    place_of = {number: place for place, number in enumerate(segments.order)}
    return [1 << place_of[number] for number in segments.defining]
