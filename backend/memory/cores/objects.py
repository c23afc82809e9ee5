"""The order in which allocations are accessed, as `farlane plan` reads it (planner/trace.py).

A step is a launch, a copy or a memset. What a launch accesses is what its warps touched: an allocation that has a touched page to itself was accessed, as its own
pages say. Of those that have no such page, the ones on touched pages of several were accessed that a pointer among the kernel's parameters lies in. Whether it was written is known for the page, not for every byte, so a launch that writes
an object may read it too ("rw"); only a copy or memset over all of an object replaces it ("w").

A trace is bounded: when it is full, what comes later is left out, and `full` says so.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
from farlane.backend.memory.cores.touches import PAGE_BITS, PAGE_MASK, Ints, Words
from farlane.backend.memory.planner.trace import MOST_ACCESSES, MOST_OBJECTS

_WRITE_BIT = PAGE_BITS + 5


def pages_of(words: Words) -> Ints:
    """Distinct pages of touches, as page << 1 | written."""
    first = words[:, 0].view(np.int64)
    found: Ints = np.unique((first & PAGE_MASK) << 1 | first >> _WRITE_BIT)
    return found


@dataclasses.dataclass
class _Object:
    number: int
    start: int
    size: int


class Accesses:
    """Records one session. Addresses are the device's."""

    def __init__(self, page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._starts: list[int] = []
        self._live: list[_Object] = []
        self._sizes: list[int] = []
        self._steps: list[list[tuple[int, str]]] = []
        self._count = 0
        self.full = False

    def allocated(self, start: int, size: int) -> None:
        if len(self._sizes) >= MOST_OBJECTS:
            self.full = True
            return
        place = bisect.bisect(self._starts, start)
        self._starts.insert(place, start)
        self._live.insert(place, _Object(len(self._sizes), start, size))
        self._sizes.append(size)

    def freed(self, start: int) -> None:
        place = bisect.bisect(self._starts, start) - 1
        if place >= 0 and self._starts[place] == start:
            del self._starts[place], self._live[place]

    def cleared(self) -> None:
        """Nothing is allocated any more."""
        self._starts.clear()
        self._live.clear()

    def copied(self, ranges: Iterable[tuple[int, int, bool]]) -> None:
        """A copy or memset: (address, bytes, whether they are written)."""
        step: dict[int, str] = {}
        for address, size, written in ranges:
            place = bisect.bisect(self._starts, address) - 1
            if place < 0 or address >= self._live[place].start + self._live[place].size:
                continue
            item = self._live[place]
            whole = address == item.start and size >= item.size
            self._merge(step, item, "r" if not written else "w" if whole else "rw")
        self._step(step)

    def launched(self, touched: Ints, words: Iterable[int]) -> None:
        """A launch: pages as `pages_of` gives them, and the 64-bit words of its parameters."""
        pointed = {place for word in words if (place := self._at(word)) is not None}
        own: dict[int, str] = {}
        common: dict[int, str] = {}
        for page_and_write in np.unique(touched).tolist():
            start = (page_and_write >> 1) * self._page_bytes
            last = bisect.bisect_left(self._starts, start + self._page_bytes)
            first = last
            while first and self._live[first - 1].start + self._live[first - 1].size > start:
                first -= 1
            how = "rw" if page_and_write & 1 else "r"
            if last - first == 1:
                self._merge(own, self._live[first], how)
                continue
            for place in range(first, last):
                if place in pointed:
                    self._merge(common, self._live[place], how)
        self._step(common | own)

    def _at(self, address: int) -> int | None:
        place = bisect.bisect(self._starts, address) - 1
        if place < 0 or address >= self._live[place].start + self._live[place].size:
            return None
        return place

    @staticmethod
    def _merge(step: dict[int, str], item: _Object, how: str) -> None:
        before = step.get(item.number, how)
        step[item.number] = how if before == how else "rw"

    def _step(self, step: dict[int, str]) -> None:
        if not step:
            return
        if self._count + len(step) > MOST_ACCESSES:
            self.full = True
            return
        self._count += len(step)
        self._steps.append(sorted(step.items()))

    def to_json(self, memory: int | None = None) -> dict[str, Any]:
        """`memory`: of the device that is planned for; by default half of what the objects have together, or as much as the largest step needs."""
        needed = max((sum(self._sizes[number] for number, _ in step) for step in self._steps), default=1)
        used = {number for step in self._steps for number, _ in step}
        names = {number: place for place, number in enumerate(sorted(used))}
        return {
            "memory": memory or max(needed, sum(self._sizes[number] for number in used) // 2, 1),
            "objects": [{"name": f"allocation {number}", "bytes": self._sizes[number]} for number in sorted(used)],
            "steps": [[[names[number], how] for number, how in step] for step in self._steps],
        }
