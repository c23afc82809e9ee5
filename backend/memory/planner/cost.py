"""What moves when given objects share one segment, and the plan that an assignment makes.

A segment holds one object at a time. When another is accessed, the one there is written back if it was changed and is needed again, and the other is
fetched if it has content and its access reads. Segments do not influence each other, so an assignment's cost is the sum over its segments; costs of sets of objects
are remembered, which makes the search cheap: a change concerns few segments.

Two objects of one step cannot share a segment: such a set costs `IMPOSSIBLE` per collision, more than anything that is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from farlane.backend.memory.planner.segments import Segments
from farlane.backend.memory.planner.trace import Trace

IMPOSSIBLE = 1 << 80
MOST_REMEMBERED = 1 << 20


@dataclass(frozen=True)
class Move:
    """Before `step`: bytes of `object` go to the host (`out`) or to the device, at `segment`. The last write-backs have the number of steps as step."""

    step: int
    object: int
    segment: int
    out: bool


@dataclass(frozen=True)
class Plan:
    """`assignment`: object -> segment. `bytes_in`, `bytes_out`: what moves over the whole trace."""

    segments: Segments
    assignment: dict[int, int]
    moves: tuple[Move, ...]
    bytes_in: int
    bytes_out: int

    @property
    def bytes_moved(self) -> int:
        return self.bytes_in + self.bytes_out


class SegmentCost:
    """Costs of sets of objects in one segment. Objects are given by their place in `segments.order`, sets as bit masks of those."""

    def __init__(self, trace: Trace, segments: Segments) -> None:
        self.trace = trace
        self.segments = segments
        self.sizes = [trace.sizes[number] for number in segments.order]
        # (step, place, reads, writes, content is needed after this access)
        self._accesses: list[list[tuple[int, int, bool, bool, bool]]] = []
        for place, number in enumerate(segments.order):
            accesses = trace.accesses[number]
            rows = []
            for index, (step, access) in enumerate(accesses):
                needed = accesses[index + 1][1].reads if index + 1 < len(accesses) else number in trace.kept
                rows.append((step, place, access.reads, access.writes, needed))
            self._accesses.append(rows)
        self._known: dict[int, int] = {}

    def of(self, mask: int) -> int:
        """Bytes moved, or at least IMPOSSIBLE."""
        known = self._known.get(mask)
        if known is None:
            known = self._count(mask, None, -1)
            if len(self._known) < MOST_REMEMBERED:
                self._known[mask] = known
        return known

    def total(self, masks: Sequence[int]) -> int:
        return sum(self.of(mask) for mask in masks)

    def moves(self, mask: int, segment: int) -> list[Move]:
        found: list[Move] = []
        self._count(mask, found, segment)
        return found

    def _count(self, mask: int, moves: list[Move] | None, segment: int) -> int:
        rows = []
        rest = mask
        while rest:
            place = (rest & -rest).bit_length() - 1
            rows += self._accesses[place]
            rest &= rest - 1
        rows.sort()
        sizes, order = self.sizes, self.segments.order
        cost, holder, holder_step, dirty, needed = 0, -1, -1, False, False
        for step, place, reads, writes, after in rows:
            if place != holder:
                if step == holder_step:
                    cost += IMPOSSIBLE
                if holder >= 0 and dirty and needed:
                    cost += sizes[holder]
                    if moves is not None:
                        moves.append(Move(step, order[holder], segment, out=True))
                if reads:
                    cost += sizes[place]
                    if moves is not None:
                        moves.append(Move(step, order[place], segment, out=False))
                holder, dirty = place, False
            holder_step, dirty, needed = step, dirty or writes, after
        if holder >= 0 and dirty and needed:
            cost += sizes[holder]
            if moves is not None:
                moves.append(Move(len(self.trace.steps), order[holder], segment, out=True))
        return cost


def plan_of(costs: SegmentCost, masks: Sequence[int]) -> Plan | None:
    """The plan of an assignment; None when objects that are needed together share a segment."""
    if costs.total(masks) >= IMPOSSIBLE:
        return None
    assignment, moves = {}, []
    for segment, mask in enumerate(masks):
        for place, number in enumerate(costs.segments.order):
            if mask >> place & 1:
                assignment[number] = segment
        moves += costs.moves(mask, segment)
    moves.sort(key=lambda move: (move.step, not move.out, move.segment))
    sizes = costs.trace.sizes
    return Plan(
        costs.segments,
        assignment,
        tuple(moves),
        sum(sizes[move.object] for move in moves if not move.out),
        sum(sizes[move.object] for move in moves if move.out),
    )
