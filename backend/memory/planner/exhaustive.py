"""The best plan there is for given segments, by dynamic programming over sets of objects.

`best[s][set]`: the least that moves when the segments from s on hold exactly `set`. Each of the 3^n pairs of a set and its subset is looked at once per segment, so
this is for few objects; the genetic search is measured against it.
"""

from __future__ import annotations

from farlane.backend.memory.planner.cost import Plan, SegmentCost, plan_of
from farlane.backend.memory.planner.segments import Segments
from farlane.backend.memory.planner.trace import Trace

MOST_OBJECTS = 14


def best_plan(trace: Trace, segments: Segments) -> Plan | None:
    """The optimum; None when no assignment keeps objects that are needed together apart. ValueError for more than MOST_OBJECTS objects."""
    count = len(segments.order)
    if count > MOST_OBJECTS:
        raise ValueError(f"{count} objects: at most {MOST_OBJECTS} are tried in every way")
    costs = SegmentCost(trace, segments)
    place_of = {number: place for place, number in enumerate(segments.order)}
    fitting = [segments.fitting(trace.sizes[number]) for number in segments.order]
    own = [1 << place_of[number] for number in segments.defining]
    free = ((1 << count) - 1) & ~sum(own)
    # From the last segment (the smallest) to the first. best: set of free objects -> (cost, chosen subset for each segment from here on)
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    for segment in reversed(range(len(segments.sizes))):
        allowed = sum(1 << place for place in range(count) if free >> place & 1 and fitting[place] > segment)
        found: dict[int, tuple[int, tuple[int, ...]]] = {}
        for later, (cost, chosen) in best.items():
            rest = allowed & ~later
            subset = rest
            while True:
                total = cost + costs.of(own[segment] | subset)
                known = found.get(later | subset)
                if known is None or total < known[0]:
                    found[later | subset] = total, (own[segment] | subset, *chosen)
                if not subset:
                    break
                subset = (subset - 1) & rest
        best = found
    whole = best.get(free)
    return plan_of(costs, whole[1]) if whole else None
