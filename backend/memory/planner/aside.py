"""Objects that nearly every step needs, set aside before planning: they stay on the device, and the rest of the memory is planned for the others.

A segment holds one object at a time, so a plan is impossible where a small object that every step needs finds all segments defined by objects that steps need with it. Kept
on the device, it moves in once at most, and out once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from farlane.backend.memory.planner.trace import Trace, TraceError

SHARE = 0.5  # of the steps: objects that more of them need are set aside ...
ROOM = 0.5  # ... the most needed first, as long as they take no more of the memory than this


@dataclass(frozen=True)
class Aside:
    """`trace`: the other objects' accesses, in what memory is left. `bytes_moved`: by those that are aside."""

    trace: Trace
    objects: frozenset[int]
    bytes_moved: int


def set_aside(trace: Trace) -> Aside | None:
    """None when there is no such object, or the others would not have room."""
    chosen: set[int] = set()
    taken = moved = 0
    for number in sorted(
        range(len(trace.sizes)), key=lambda each: (-len(trace.accesses[each]), trace.sizes[each], each)
    ):
        accesses, size = trace.accesses[number], trace.sizes[number]
        if len(accesses) <= SHARE * len(trace.steps):
            break
        if taken + size > ROOM * trace.memory:
            continue
        chosen.add(number)
        taken += size
        moved += size * accesses[0][1].reads
        moved += size * (number in trace.kept and any(access.writes for _, access in accesses))
    if not chosen:
        return None
    steps = [[access for access in step if access.object not in chosen] for step in trace.steps]
    try:
        left = replace(trace, steps=[step for step in steps if step], memory=trace.memory - taken)
    except TraceError:
        return None  # a step of the others would not fit
    return Aside(left, frozenset(chosen), moved)
