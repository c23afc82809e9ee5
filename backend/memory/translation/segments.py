"""The first module: free physical segments of a shared memory, presented to a task as one contiguous virtual range (S2, point 4).

The memory is what it was given: `capacity` bytes at first, and what `grow` adds, anywhere. It is handed out in granules. A task takes as much as it needs from wherever
it is free, lowest addresses first, and gets one range of addresses for it: nothing that is there has to move. The table's groups say where the parts are.
Ranges end wholly or in part, and several ranges change in one edit (`remap`): what one task loses another may get, in one step for every lookup.

Owns its table and the list of free segments. A task's range begins at `base` unless it asks for another address. One owner; lookups in the table from any thread.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from farlane.backend.memory.translation.groups import TranslationError
from farlane.backend.memory.translation.table import Edit, TranslationTable

Span = tuple[int, int]  # start, length


@dataclass(frozen=True)
class Holding:
    """What a task has: `length` bytes at virtual `start`, in the physical `segments` (start, length), in order of virtual address."""

    start: int
    length: int
    segments: tuple[Span, ...]


class SegmentView:
    """See the module."""

    def __init__(self, capacity: int, granule: int) -> None:
        if granule < 1 or capacity < 0 or capacity % granule:
            raise TranslationError(f"a capacity of {capacity} bytes is no multiple of the granule of {granule}")
        self.granule = granule
        self.table = TranslationTable()
        self.free_bytes = 0
        self._free: list[Span] = []
        self._starts: list[int] = []  # of all groups, rising
        self._mapped: dict[int, tuple[int, int, int]] = {}  # start: (length, physical, group)
        self._held: dict[int, Holding] = {}
        if capacity:
            self.grow(0, capacity)

    @property
    def free_segments(self) -> list[Span]:
        """(physical start, length), in order."""
        return list(self._free)

    @property
    def held(self) -> dict[int, Holding]:
        return dict(self._held)

    def missing(self, length: int) -> int:
        """How many bytes have to be made free before a task can take `length`."""
        return max(0, self._rounded(length) - self.free_bytes)

    # Memory -----------------------------------------------------------------------------------------------------
    def grow(self, start: int, length: int) -> None:
        """More physical memory, which is free."""
        self._give(start, self._rounded(length))

    def shrink(self, start: int, length: int) -> bool:
        """Takes physical memory away, if all of it is free."""
        place = bisect_right(self._free, (start, 1 << 62)) - 1
        if place < 0:
            return False
        low, size = self._free[place]
        if start + length > low + size:
            return False
        rest = [(low, start - low), (start + length, low + size - start - length)]
        self._free[place : place + 1] = [span for span in rest if span[1]]
        self.free_bytes -= length
        return True

    # Ranges of tasks --------------------------------------------------------------------------------------------
    def take(self, task: int, length: int, base: int = 0) -> Holding:
        """Gives the task `length` bytes (rounded up to granules) at `base`. Raises TranslationError when so much is not free or it has some already."""
        length = self._rounded(length)
        if task in self._held:
            raise TranslationError(f"task {task} has a range already")
        if self.missing(length):
            raise TranslationError(f"task {task} asks for {length} bytes, {self.free_bytes} are free")
        segments = self.map(base, length)
        holding = self._held[task] = Holding(base, length, tuple(segments))
        return holding

    def give_back(self, task: int) -> Holding:
        """The task's segments are free again; its addresses mean nothing any more."""
        try:
            holding = self._held[task]
        except KeyError:
            raise TranslationError(f"task {task} has no range") from None
        del self._held[task]
        self.unmap(holding.start, holding.length)
        return holding

    def mapped_bytes(self, start: int, length: int) -> int:
        """How many of these addresses are mapped."""
        total, place = 0, max(0, bisect_right(self._starts, start) - 1)
        while place < len(self._starts) and (first := self._starts[place]) < start + length:
            total += max(0, min(first + self._mapped[first][0], start + length) - max(first, start))
            place += 1
        return total

    def occupancy(self, units: Iterable[int], size: int) -> dict[int, list[Span]]:
        """For each unit of physical memory (its start; `size` bytes, a power of two) the virtual (start, length) that are mapped to it."""
        found: dict[int, list[Span]] = {unit: [] for unit in units}
        for start, (length, physical, _) in self._mapped.items():
            for unit in range(physical & -size, physical + length, size):
                low, high = max(unit, physical), min(unit + size, physical + length)
                found[unit].append((start + low - physical, high - low))
        return found

    # Ranges of addresses ----------------------------------------------------------------------------------------
    def map(self, start: int, length: int) -> list[Span]:
        """Free memory for these addresses, none of which may be mapped; where it is. Raises TranslationError."""
        return self.remap((), ((start, length),))[1][0]

    def unmap(self, start: int, length: int) -> list[Span]:
        """Ends the mapping of these addresses, where there is any; returns the memory that is free now."""
        return self.remap(((start, length),), ())[0]

    def remap(self, ended: Sequence[Span], begun: Sequence[Span]) -> tuple[list[Span], list[list[Span]]]:
        """Ends and begins mappings, all at once; what ends is there for what begins. Returns what became free, and where each that begins is now."""
        for start, length in begun:
            if length < 1 or length % self.granule or start % self.granule:
                raise TranslationError(f"{length} bytes at {start:#x} are no granules of {self.granule}")
            if self.mapped_bytes(start, length):
                raise TranslationError(f"some of the {length} bytes at {start:#x} are mapped already")
        wanted = sum(length for _, length in begun)
        if wanted > (free := self.free_bytes + sum(self.mapped_bytes(*span) for span in ended)):
            raise TranslationError(f"{wanted} bytes to be mapped, {free} are free")
        freed: list[Span] = []
        with self.table.edit() as edit:
            for start, length in ended:
                freed += self._end(edit, start, start + length)
            for segment in freed:
                self._give(*segment)
            places = [self._begin(edit, start, length) for start, length in begun]
        return freed, places

    def _begin(self, edit: Edit, start: int, length: int) -> list[Span]:
        segments: list[Span] = []
        wanted, used = length, 0
        for low, size in self._free:
            part = min(size, wanted)
            segments.append((low, part))
            wanted -= part
            used += part == size
            if not wanted:
                break
        rest = segments[-1]
        if used < len(segments):  # the last one in part
            low, size = self._free[used]
            self._free[used] = low + rest[1], size - rest[1]
        del self._free[:used]
        self.free_bytes -= length
        for low, size in segments:
            self._add(edit, start, size, low)
            start += size
        return segments

    def _end(self, edit: Edit, start: int, end: int) -> list[Span]:
        freed = []
        place = max(0, bisect_right(self._starts, start) - 1)
        while place < len(self._starts) and (first := self._starts[place]) < end:
            length, physical, group = self._mapped[first]
            low, high = max(first, start), min(first + length, end)
            if low >= high:
                place += 1
                continue
            edit.remove(group)
            del self._mapped[first], self._starts[place]
            if first < low:
                self._add(edit, first, low - first, physical)
                place += 1
            if high < first + length:
                self._add(edit, high, first + length - high, physical + high - first)
            freed.append((physical + low - first, high - low))
        return freed

    def _add(self, edit: Edit, start: int, length: int, physical: int) -> None:
        self._mapped[start] = length, physical, edit.add(start, physical, length)
        if not self._starts or start > self._starts[-1]:
            self._starts.append(start)
        else:
            insort(self._starts, start)

    def _give(self, start: int, length: int) -> None:
        """Makes a segment free, joined with its neighbours."""
        free = self._free
        place = bisect_right(free, (start, 0))
        self.free_bytes += length
        if place < len(free) and start + length == free[place][0]:
            length += free[place][1]
            del free[place]
        if place and sum(free[place - 1]) == start:
            start, length = free[place - 1][0], free[place - 1][1] + length
            place -= 1
            del free[place]
        free.insert(place, (start, length))

    def _rounded(self, length: int) -> int:
        if length < 1:
            raise TranslationError(f"{length} bytes asked for")
        return -(-length // self.granule) * self.granule
