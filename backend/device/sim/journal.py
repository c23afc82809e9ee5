"""What a session's memory held at some points, so that it can be put back: for work that is done ahead.

Owns a shadow of all allocated pages as they were at the last point, and for each point the pages that changed behind it, as they were.
A point costs a comparison of the memory with its shadow and a copy of the pages that differ: no new memory but for those. Copying
everything at each point instead spends most of its time in page faults. Knows allocations by their addresses only, and the window's bytes.

Not thread-safe; one session's thread at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from farlane.backend.device.allocations import Allocations
from farlane.backend.device.sim.window import PAGE, Window

LIMIT = 1 << 20  # bytes of allocations that can be put back ...
PAGES_LIMIT = 2 * LIMIT  # ... and of the pages they lie in

_WORDS = PAGE // 8

Words = npt.NDArray[np.uint64]


class Point(NamedTuple):
    """`chain`: points that belong together; `number`: which one of them this is."""

    chain: int
    number: int


class _Area(NamedTuple):
    """Adjacent pages, one row each."""

    memory: Words
    shadow: Words


class _Change(NamedTuple):
    """Pages of an area as they were."""

    area: _Area
    rows: npt.NDArray[np.intp]
    before: Words


class Journal:
    """The points of one session's memory. Only those of the last chain can be gone back to."""

    def __init__(self) -> None:
        self._chain = 0
        self._version = -1  # of the allocations that the areas are of
        self._areas: list[_Area] | None = []
        self._changes: list[list[_Change]] = []  # behind each point but the last

    def mark(self, window: Window, allocations: Allocations, behind: Point | None) -> Point | None:
        """The memory as it is now, a point behind another one or the first of a new chain; None where it is too much."""
        if self._version != allocations.version:
            self._version = allocations.version
            self._areas = _areas(window, allocations)
            behind = None
        if self._areas is None:
            return None
        if behind is None or behind.chain != self._chain or behind.number != len(self._changes):
            self._chain += 1
            self._changes = []
            for area in self._areas:
                area.shadow[:] = area.memory
        else:
            self._changes.append([change for area in self._areas if (change := _take(area)) is not None])
        return Point(self._chain, len(self._changes))

    def back_to(self, point: Point, allocations: Allocations) -> bool:
        """Memory as it was at the point, which is the last one now. False when there are other allocations than there were."""
        if point.chain != self._chain or point.number > len(self._changes) or self._version != allocations.version:
            return False
        for area in self._areas or ():
            rows = _differing(area)
            area.memory[rows] = area.shadow[rows]
        while len(self._changes) > point.number:
            for area, rows, before in self._changes.pop():
                area.memory[rows] = area.shadow[rows] = before
        return True


def _areas(window: Window, allocations: Allocations) -> list[_Area] | None:
    if allocations.bytes > LIMIT:
        return None
    spans: list[list[int]] = []
    for allocation in allocations:
        first, last = allocation.start // PAGE * PAGE - window.base, -(-allocation.end // PAGE) * PAGE - window.base
        if spans and first <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], last)
        else:
            spans.append([first, last])
    if sum(last - first for first, last in spans) > PAGES_LIMIT:
        return None
    memory = [window.bytes[first:last].view(np.uint64).reshape(-1, _WORDS) for first, last in spans]
    return [_Area(rows, np.empty_like(rows)) for rows in memory]


def _differing(area: _Area) -> npt.NDArray[np.intp]:
    return np.flatnonzero((area.memory != area.shadow).any(axis=1))


def _take(area: _Area) -> _Change | None:
    """Brings the shadow up to date; what that changes."""
    rows = _differing(area)
    if not len(rows):
        return None
    before = area.shadow[rows]
    area.shadow[rows] = area.memory[rows]
    return _Change(area, rows, before)
