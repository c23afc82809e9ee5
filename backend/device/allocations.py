"""The allocation map: which parts of a window belong to what.

Owns the set of live allocations, the bytes they count against a quota, which ranges copies may touch, and what diagnostics say
about an address. Pure: no memory is touched here. Allocations are disjoint; the map is ordered by address.

Mapped physical memory is in the map as well, as ranges of equal access: mappings that touch are one range, so that copies may cross
from one to the next. Such ranges have no owner here: only `map_range` and `unmap_range` change them. Their bytes are not counted.

Source: mission.md S2 point 1 (one mapping per address); issue texts of compute-sanitizer for the wording of messages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from farlane.backend.device.base import NO_ACCESS, READ_WRITE, CudaError, Rows
from farlane.backend.generated_errors import INVALID_PITCH_VALUE, INVALID_VALUE
from farlane.backend.plane import Ranges

REMEMBERED = 64
FAR = 1 << 36
MAPPED = "mapped physical memory"  # the label of its ranges


class Allocation(NamedTuple):
    """[start, start + size), and what it is to the user."""

    start: int
    size: int
    label: str = "allocation"
    access: int = READ_WRITE

    @property
    def mapped(self) -> bool:
        """Whether it is a range of mapped physical memory."""
        return self.label is MAPPED

    @property
    def end(self) -> int:
        return self.start + self.size

    def __str__(self) -> str:
        return f"{self.label} of {self.size} bytes at {self.start:#x}"


class Allocations:
    """An ordered set of disjoint allocations."""

    def __init__(self, ranges: Ranges | None = None) -> None:
        """`ranges`: what copies may touch, for the plane, where others have it already."""
        self._starts: list[int] = []
        self._by_start: dict[int, Allocation] = {}
        self._ended: deque[Allocation] = deque(maxlen=REMEMBERED)
        self.bytes = 0  # without mapped physical memory
        self.version = 0  # counts changes
        self.ranges = Ranges() if ranges is None else ranges

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Allocation]:
        return (self._by_start[start] for start in self._starts)

    def since(self, address: int) -> Iterator[Allocation]:
        """The allocations that start at the address or behind it, in order."""
        first = bisect_left(self._starts, address)
        return (self._by_start[start] for start in self._starts[first:])

    def add(self, allocation: Allocation) -> None:
        """Adds an allocation, which must overlap none (see `overlapping`)."""
        if not self._starts or allocation.start > self._starts[-1]:
            self._starts.append(allocation.start)
        else:
            insort(self._starts, allocation.start)
        self._by_start[allocation.start] = allocation
        if allocation.access != NO_ACCESS:
            self.ranges.add(allocation.start, allocation.end)
        if not allocation.mapped:
            self.bytes += allocation.size
        self.version += 1

    def remove(self, start: int) -> Allocation | None:
        """Removes and returns the allocation that starts there."""
        allocation = self._by_start.get(start)
        if allocation is None or allocation.mapped:
            return None
        self._take(allocation)
        self._ended.append(allocation)
        return allocation

    def _take(self, allocation: Allocation) -> None:
        del self._by_start[allocation.start]
        del self._starts[bisect_right(self._starts, allocation.start) - 1]
        self.ranges.remove(allocation.start)
        if not allocation.mapped:
            self.bytes -= allocation.size
        self.version += 1

    def map_range(self, start: int, end: int, access: int) -> None:
        """Physical memory is mapped there, where nothing is. It becomes one range with what it touches, if that has the same access."""
        before, after = self.holding(start - 1), self.holding(end)
        if before is not None and before.mapped and before.access == access:
            self._take(before)
            start = before.start
        if after is not None and after.mapped and after.access == access:
            self._take(after)
            end = after.end
        self.add(Allocation(start, end - start, MAPPED, access))

    def unmap_range(self, start: int, end: int) -> None:
        """Takes addresses out that one range of mapped memory holds."""
        whole = self.holding(start)
        assert whole is not None
        assert whole.mapped
        assert end <= whole.end
        self._take(whole)
        for low, high in ((whole.start, start), (end, whole.end)):
            if low < high:
                self.add(Allocation(low, high - low, MAPPED, whole.access))
        self._ended.append(Allocation(start, end - start, MAPPED, whole.access))

    def clear(self) -> None:
        """None is left, and none is remembered."""
        self._starts.clear()
        self._by_start.clear()
        self._ended.clear()
        self.ranges.clear()
        self.bytes = 0
        self.version += 1

    def holding(self, address: int) -> Allocation | None:
        """The allocation that holds this byte."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        allocation = self._by_start[self._starts[index]]
        return allocation if address < allocation.end else None

    def overlapping(self, start: int, end: int) -> Allocation | None:
        """One allocation that overlaps [start, end)."""
        index = bisect_right(self._starts, end - 1) - 1
        if index < 0:
            return None
        allocation = self._by_start[self._starts[index]]
        return allocation if allocation.end > start else None

    def require(self, rows: Rows, what: str) -> bool:
        """Whether there is anything to do for a copy or memset, named `what`.

        Raises:
            CudaError: some byte lies in no allocation, or in another one.
        """
        if rows.width < 0 or rows.height < 0 or rows.pitch < 0:
            raise CudaError(INVALID_VALUE, f"{what}: {rows}")
        if rows.width == 0 or rows.height == 0:
            return False
        if rows.height > 1 and rows.pitch < rows.width:
            raise CudaError(INVALID_PITCH_VALUE, f"{what}: a pitch of {rows.pitch} bytes for rows of {rows.width}")
        span = (rows.height - 1) * rows.pitch + rows.width
        allocation = self.holding(rows.address)
        if allocation is None or rows.address + span > allocation.end or allocation.access == NO_ACCESS:
            raise CudaError(INVALID_VALUE, f"{what}: {span} bytes at {rows.address:#x}, {self.describe(rows.address)}")
        return True

    def describe(self, address: int) -> str:
        """Where an address that a program should not have used lies, for a message."""
        if address < 1 << 16:
            return "a null pointer" if address == 0 else "close to a null pointer"
        for ended in reversed(self._ended):
            if ended.start <= address < ended.end and self.holding(address) is None:
                return f"{address - ended.start} bytes inside the freed {ended}"
        index = bisect_right(self._starts, address) - 1
        below = self._by_start[self._starts[index]] if index >= 0 else None
        above = self._by_start[self._starts[index + 1]] if index + 1 < len(self._starts) else None
        if below is not None and address < below.end:
            return f"{address - below.start} bytes inside the {below}"
        behind = address - below.end if below is not None else FAR
        before = above.start - address if above is not None else FAR
        if min(behind, before) >= FAR:
            return "far from every allocation: a host pointer, or no pointer"
        if behind < before:
            return f"{behind} bytes behind the end of the nearest, the {below}"
        return f"{before} bytes before the nearest, the {above}"
