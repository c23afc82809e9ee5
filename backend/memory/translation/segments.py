"""The first module: free physical segments of a shared memory, presented to a task as one contiguous virtual range (S2, point 4).

The memory is `capacity` bytes in granules. A task takes as much as it needs from wherever it is free, lowest addresses first, and gets one range of addresses
for it: nothing that is there has to move. The table's groups say where the parts are. Several tasks may hold ranges at once.

Owns its table and the list of free segments. A task's range begins at `base` unless it asks for another address.
"""

from __future__ import annotations

from dataclasses import dataclass

from farlane.backend.memory.translation.groups import TranslationError
from farlane.backend.memory.translation.table import TranslationTable


@dataclass(frozen=True)
class Holding:
    """What a task has: `length` bytes at virtual `start`, in the physical `segments` (start, length), in order of virtual address."""

    start: int
    length: int
    segments: tuple[tuple[int, int], ...]
    groups: tuple[int, ...]


class SegmentView:
    """See the module."""

    def __init__(self, capacity: int, granule: int) -> None:
        if granule < 1 or capacity < granule or capacity % granule:
            raise TranslationError(f"a capacity of {capacity} bytes is no multiple of the granule of {granule}")
        self.granule = granule
        self.table = TranslationTable()
        self._free: list[tuple[int, int]] = [(0, capacity)]
        self._held: dict[int, Holding] = {}

    @property
    def free_bytes(self) -> int:
        return sum(length for _, length in self._free)

    @property
    def free_segments(self) -> list[tuple[int, int]]:
        """(physical start, length), in order."""
        return list(self._free)

    @property
    def held(self) -> dict[int, Holding]:
        return dict(self._held)

    def missing(self, length: int) -> int:
        """How many bytes have to be made free before a task can take `length`."""
        return max(0, self._rounded(length) - self.free_bytes)

    def take(self, task: int, length: int, base: int = 0) -> Holding:
        """Gives the task `length` bytes (rounded up to granules) at `base`. Raises TranslationError when so much is not free or it has some already."""
        length = self._rounded(length)
        if task in self._held:
            raise TranslationError(f"task {task} has a range already")
        if self.missing(length):
            raise TranslationError(f"task {task} asks for {length} bytes, {self.free_bytes} are free")
        segments, rest, wanted = [], [], length
        for start, size in self._free:
            used = min(size, wanted)
            if used:
                segments.append((start, used))
                wanted -= used
            if used < size:
                rest.append((start + used, size - used))
        groups, at = [], base
        with self.table.edit() as edit:
            for start, size in segments:
                groups.append(edit.add(at, start, size))
                at += size
        self._free = rest
        holding = Holding(base, length, tuple(segments), tuple(groups))
        self._held[task] = holding
        return holding

    def give_back(self, task: int) -> Holding:
        """The task's segments are free again; its addresses mean nothing any more."""
        try:
            holding = self._held[task]
        except KeyError:
            raise TranslationError(f"task {task} has no range") from None
        with self.table.edit() as edit:
            for group in holding.groups:
                edit.remove(group)
        del self._held[task]
        self._free = _joined([*self._free, *holding.segments])
        return holding

    def _rounded(self, length: int) -> int:
        if length < 1:
            raise TranslationError(f"{length} bytes asked for")
        return -(-length // self.granule) * self.granule


def _joined(segments: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, length in sorted(segments):
        if joined and joined[-1][0] + joined[-1][1] == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + length)
        else:
            joined.append((start, length))
    return joined
