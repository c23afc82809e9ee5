"""The extents of a session: runs of pages that came into use together, in order of address.

Owns what is known of each, and their splitting when only a part of one ends (a page that neighbours share outlives its allocation). What an extent's pages are doing is the
residency's to know. Pages are counted by their numbers in the window. Not thread-safe.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass

from farlane.backend.device.sim.memory.window import PAGE


@dataclass(eq=False)
class Extent:
    """Pages [first, last) of the window."""

    number: int
    first: int
    last: int
    label: str
    writable: bool
    present: int = 0  # pages on the device
    last_use: int = 0
    written: bool = False  # by a kernel, ever
    open: bool = False  # its flags say what its state says
    pinned: bool = False
    streamed: bool = False
    expected: int = -1  # streaming: the page behind those that came last, and how many these were
    ahead: int = 1

    @property
    def pages(self) -> int:
        return self.last - self.first

    @property
    def size(self) -> int:
        return self.pages * PAGE


class Extents:
    """Disjoint extents."""

    def __init__(self) -> None:
        self.pages = 0  # of all of them
        self._numbers = 0
        self._starts: list[int] = []
        self._by_first: dict[int, Extent] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Extent]:
        return iter(list(self._by_first.values()))

    def add(self, first: int, last: int, label: str, writable: bool) -> Extent:
        self._numbers += 1
        extent = Extent(self._numbers, first, last, label, writable)
        insort(self._starts, first)
        self._by_first[first] = extent
        self.pages += extent.pages
        return extent

    def holding(self, page: int) -> Extent | None:
        """The extent that has this page."""
        place = bisect_right(self._starts, page) - 1
        extent = self._by_first[self._starts[place]] if place >= 0 else None
        return extent if extent is not None and page < extent.last else None

    def overlapping(self, first: int, last: int) -> Iterator[Extent]:
        """The extents with pages in [first, last), in order."""
        place = max(0, bisect_right(self._starts, first) - 1)
        while place < len(self._starts) and self._starts[place] < last:
            extent = self._by_first[self._starts[place]]
            if extent.last > first:
                yield extent
            place += 1

    def cut(self, extent: Extent, low: int, high: int) -> list[Extent]:
        """Takes the pages [low, high) out of an extent, which ends; what is left of it before and behind them are new ones, as much in use."""
        del self._by_first[extent.first], self._starts[bisect_right(self._starts, extent.first) - 1]
        self.pages -= extent.pages
        parts = []
        for first, last in ((extent.first, low), (high, extent.last)):
            if first < last:
                part = self.add(first, last, extent.label, extent.writable)
                part.last_use, part.written, part.open = extent.last_use, extent.written, extent.open
                parts.append(part)
        return parts
