"""Simpler ways to assign objects to the same segments: at random, and greedily."""

from __future__ import annotations

import random

from farlane.backend.memory.planner.cost import Plan, SegmentCost, plan_of
from farlane.backend.memory.planner.segments import Segments
from farlane.backend.memory.planner.trace import Trace


def at_random(trace: Trace, segments: Segments, seed: int, tries: int = 1) -> Plan | None:
    """The best of `tries` random assignments."""
    source = random.Random(seed)
    costs = SegmentCost(trace, segments)
    best: list[int] | None = None
    for _ in range(tries):
        masks = _own(segments)
        for place, number in enumerate(segments.order):
            if number not in segments.defining:
                masks[source.randrange(segments.fitting(trace.sizes[number]))] |= 1 << place
        if best is None or costs.total(masks) < costs.total(best):
            best = masks
    return plan_of(costs, best) if best is not None else None


def greedily(trace: Trace, segments: Segments) -> Plan | None:
    """Each object, large ones first, goes where it adds least."""
    costs = SegmentCost(trace, segments)
    masks = _own(segments)
    for place, number in enumerate(segments.order):
        if number not in segments.defining:
            fitting = range(segments.fitting(trace.sizes[number]))
            chosen = min(fitting, key=lambda s: (costs.of(masks[s] | 1 << place) - costs.of(masks[s]), s))
            masks[chosen] |= 1 << place
    return plan_of(costs, masks)


def _own(segments: Segments) -> list[int]:
    place_of = {number: place for place, number in enumerate(segments.order)}
    return [1 << place_of[number] for number in segments.defining]
