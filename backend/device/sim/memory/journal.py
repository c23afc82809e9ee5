"""What a session's memory held at some points, so that it can be put back: for work that is done ahead.

Owns a shadow of all allocated pages as they were at the last point, and for each point the pages that changed behind it, as they were.
A point costs a comparison of the memory with its shadow (compiled code, jit/compile/routines/pages.py) and a copy of the pages that differ: no new memory but
for those. Copying everything at each point instead spends most of its time in page faults. Knows allocations by their addresses only, and the
window's bytes.

Not thread-safe; one session's thread at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from farlane.backend.device.allocations import Allocations
from farlane.backend.device.sim.memory.window import PAGE, Window
from farlane.backend.jit.compile.routines import pages

LIMIT = 1 << 20  # bytes of allocations that can be put back ...
PAGES_LIMIT = 2 * LIMIT  # ... and of the pages they lie in

_WORDS = PAGE // 8

Words = npt.NDArray[np.uint64]


class Point(NamedTuple):
    """`chain`: points that belong together; `number`: which one of them this is."""

    chain: int
    number: int


class _Area:
    """Adjacent pages, one row each, and where compiled code says which of them have changed."""

    def __init__(self, memory: Words) -> None:
        self.memory = memory
        self.shadow = np.empty_like(memory)
        self._numbers = np.empty(len(memory), np.uint64)
        self._contents = np.empty_like(memory)
        self._pages = pages.Pages(
            memory=memory.ctypes.data,
            shadow=self.shadow.ctypes.data,
            pages=len(memory),
            numbers=self._numbers.ctypes.data,
            contents=self._contents.ctypes.data,
        )

    def take(self) -> _Change | None:
        """Brings the shadow up to date; what that changes."""
        count = pages.take(self._pages)
        return _Change(self, self._numbers[:count].copy(), self._contents[:count].copy()) if count else None


class _Change(NamedTuple):
    """Pages of an area as they were."""

    area: _Area
    rows: Words
    before: Words

    def undo(self) -> None:
        self.area.memory[self.rows] = self.area.shadow[self.rows] = self.before


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
            self._changes.append([change for area in self._areas if (change := area.take()) is not None])
        return Point(self._chain, len(self._changes))

    def back_to(self, point: Point, allocations: Allocations) -> bool:
        """Memory as it was at the point, which is the last one now. False when there are other allocations than there were."""
        if point.chain != self._chain or point.number > len(self._changes) or self._version != allocations.version:
            return False
        for area in self._areas or ():
            if (change := area.take()) is not None:
                change.undo()
        while len(self._changes) > point.number:
            for change in self._changes.pop():
                change.undo()
        return True


def _areas(window: Window, allocations: Allocations) -> list[_Area] | None:
    if allocations.bytes > LIMIT or allocations.mapped_bytes:
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
    return [_Area(rows) for rows in memory]
