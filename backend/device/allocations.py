"""The allocation map: which parts of a window belong to what.

Owns what diagnostics say about an address; the plane has the map itself (backend/plane/src/device/allocations.rs), which
its room changes (room.rs). Pure: no memory is touched here. Allocations are disjoint; the map is ordered by address.

Mapped physical memory is in the map as well, as ranges of equal access: mappings that touch are one range, so that copies may cross
from one to the next. Such ranges have no owner here: only `map_range` and `unmap_range` change them. Their bytes are not counted.

Source: docs/explanation/systems.md, S2 point 1 (one mapping per address); issue texts of compute-sanitizer for the wording of messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from farlane.backend.device.base import NO_ACCESS, READ_WRITE, CudaError, Rows
from farlane.backend.generated_errors import INVALID_PITCH_VALUE, INVALID_VALUE
from farlane.backend.plane import AllocationMap, Ranges

FAR = 1 << 36
ADDRESSES = range(1 << 64)
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
        return self.label == MAPPED

    @property
    def end(self) -> int:
        return self.start + self.size

    def __str__(self) -> str:
        return f"{self.label} of {self.size} bytes at {self.start:#x}"


class Allocations:
    """An ordered set of disjoint allocations: the plane's map, with words for what it holds."""

    def __init__(self, ranges: Ranges | None = None) -> None:
        """`ranges`: what copies may touch, for the plane, where others have it already."""
        self.ranges = Ranges() if ranges is None else ranges
        self.map = AllocationMap(self.ranges)

    @property
    def bytes(self) -> int:
        """Without mapped physical memory."""
        return self.map.bytes

    @property
    def version(self) -> int:
        """Counts changes."""
        return self.map.version

    def __len__(self) -> int:
        return len(self.map)

    def __iter__(self) -> Iterator[Allocation]:
        return self.since(0)

    def since(self, address: int) -> Iterator[Allocation]:
        """The allocations that start at the address or behind it, in order."""
        return map(_made, self.map.since(address))

    def add(self, allocation: Allocation) -> None:
        """Adds an allocation, which must overlap none (see `overlapping`)."""
        self.map.add(allocation)

    def remove(self, start: int) -> Allocation | None:
        """Removes and returns the allocation that starts there."""
        allocation = self.holding(start)
        if allocation is None or allocation.start != start or allocation.mapped:
            return None
        self.map.take(start)
        self.map.remember(allocation)
        return allocation

    def map_range(self, start: int, end: int, access: int) -> None:
        """Physical memory is mapped there, where nothing is. It becomes one range with what it touches, if that has the same access."""
        before, after = self.holding(start - 1), self.holding(end)
        if before is not None and before.mapped and before.access == access:
            self.map.take(before.start)
            start = before.start
        if after is not None and after.mapped and after.access == access:
            self.map.take(after.start)
            end = after.end
        self.add(Allocation(start, end - start, MAPPED, access))

    def unmap_range(self, start: int, end: int) -> None:
        """Takes addresses out that one range of mapped memory holds."""
        whole = self.holding(start)
        assert whole is not None
        assert whole.mapped
        assert end <= whole.end
        self.map.take(whole.start)
        for low, high in ((whole.start, start), (end, whole.end)):
            if low < high:
                self.add(Allocation(low, high - low, MAPPED, whole.access))
        self.map.remember(Allocation(start, end - start, MAPPED, whole.access))

    def clear(self) -> None:
        """None is left, and none is remembered."""
        self.map.clear()

    def holding(self, address: int) -> Allocation | None:
        """The allocation that holds this byte."""
        return _found(self.map.holding(address)) if address in ADDRESSES else None

    def overlapping(self, start: int, end: int) -> Allocation | None:
        """One allocation that overlaps [start, end)."""
        return _found(self.map.overlapping(start, end))

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
        for ended in map(_made, reversed(self.map.ended())):
            if ended.start <= address < ended.end and self.holding(address) is None:
                return f"{address - ended.start} bytes inside the freed {ended}"
        below, above = map(_found, self.map.around(min(address, ADDRESSES[-1])))
        if below is not None and address < below.end:
            return f"{address - below.start} bytes inside the {below}"
        behind = address - below.end if below is not None else FAR
        before = above.start - address if above is not None else FAR
        if min(behind, before) >= FAR:
            return "far from every allocation: a host pointer, or no pointer"
        if behind < before:
            return f"{behind} bytes behind the end of the nearest, the {below}"
        return f"{before} bytes before the nearest, the {above}"


def _made(part: tuple[int, int, str, int]) -> Allocation:
    return Allocation._make(part)


def _found(part: tuple[int, int, str, int] | None) -> Allocation | None:
    return None if part is None else Allocation._make(part)
