"""Overlapping groups compiled into disjoint ranges: one binary search finds what the first match would.

A sweep over the groups' ends with a heap of the groups that are open, by priority: O(n log n). Neighbouring ranges of one group are one range. The result
never changes; the table makes a new one for every edit.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from farlane.backend.memory.translation.groups import Group, Translation
from numpy.typing import NDArray


class Range(NamedTuple):
    """`start` to `end` (exclusive) is at `physical` and on, by `group`."""

    start: int
    end: int
    physical: int
    group: int


def disjoint(groups: Iterable[Group]) -> list[Range]:
    """What the enabled groups map, in order of address."""
    enabled = sorted((group for group in groups if group.enabled), key=lambda group: group.start)
    bounds = sorted({bound for group in enabled for bound in (group.start, group.end)})
    found: list[Range] = []
    open_groups: list[tuple[int, int]] = []  # (priority, place in `enabled`)
    place = 0
    for bound, following in itertools.pairwise(bounds):
        while place < len(enabled) and enabled[place].start <= bound:
            heapq.heappush(open_groups, (enabled[place].priority, place))
            place += 1
        while open_groups and enabled[open_groups[0][1]].end <= bound:
            heapq.heappop(open_groups)
        if not open_groups:
            continue
        group = enabled[open_groups[0][1]]
        if found and found[-1].end == bound and found[-1].group == group.number:
            found[-1] = found[-1]._replace(end=following)
        else:
            found.append(Range(bound, following, group.physical + bound - group.start, group.number))
    return found


@dataclass(frozen=True)
class Compiled:
    """The ranges of one state of the table, for single lookups and for whole arrays."""

    ranges: tuple[Range, ...]
    starts: list[int]
    _starts: NDArray[np.int64]
    _ends: NDArray[np.int64]
    _offsets: NDArray[np.int64]
    _groups: NDArray[np.int64]

    @classmethod
    def of(cls, groups: Iterable[Group]) -> Compiled:
        ranges = tuple(disjoint(groups))
        columns = np.array([(r.start, r.end, r.physical - r.start, r.group) for r in ranges], np.int64).reshape(-1, 4)
        return cls(ranges, [r.start for r in ranges], *(np.ascontiguousarray(column) for column in columns.T))

    def lookup(self, address: int) -> Translation | None:
        place = bisect_right(self.starts, address) - 1
        if place < 0:
            return None
        start, end, physical, group = self.ranges[place]
        return Translation(physical + address - start, group) if address < end else None

    def lookup_many(self, addresses: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(physical, group) of each address, both shape of `addresses`; -1 where nothing maps it."""
        nothing = np.full(addresses.shape, -1, np.int64)
        if not self.ranges:
            return nothing, nothing.copy()
        places = np.searchsorted(self._starts, addresses, side="right") - 1
        known = (places >= 0) & (addresses < self._ends[places])
        return (
            np.where(known, addresses + self._offsets[places], nothing),
            np.where(known, self._groups[places], nothing),
        )

    def pieces(self, start: int, length: int) -> list[Range]:
        """The mapped parts of `length` bytes from `start`, in order; gaps are left out."""
        end = start + length
        place = max(bisect_right(self.starts, start) - 1, 0)
        found = []
        for each in self.ranges[place:]:
            if each.start >= end:
                break
            low, high = max(each.start, start), min(each.end, end)
            if low < high:
                found.append(Range(low, high, each.physical + low - each.start, each.group))
        return found
