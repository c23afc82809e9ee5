"""The device heap: what malloc and free (and new and delete) in kernels hand out.

Owns the arithmetic of one range of addresses: which parts are free, where a block of a size goes, joining neighbours that are free. Knows nothing
of sessions or kernels. Free parts are kept by size class (powers of two) and by both ends, so that a request looks at few of them and
freeing joins at once. The same requests in the same order give the same addresses.

One thread at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

GRANULE = 16  # alignment and least size of a block
_LOOK = 16  # free parts of a class looked at before a larger class


class Heap:
    """Blocks in [base, base + size)."""

    def __init__(self, base: int, size: int) -> None:
        self.base, self.size = base, size
        self._blocks: dict[int, int] = {}  # start of each block: its end
        self._starts: dict[int, int] = {}  # start of each free part: its end
        self._ends: dict[int, int] = {}
        self._classes: dict[int, dict[int, None]] = {}  # by bit length of the size: starts, in order of their return
        first = -(-base // GRANULE) * GRANULE
        end = (base + size) // GRANULE * GRANULE
        if first < end:
            self._add(first, end)

    @classmethod
    def restored(cls, base: int, size: int, used: Sequence[tuple[int, int]], free: Sequence[tuple[int, int]]) -> Heap:
        """A heap with these blocks and free parts. Raises ValueError: together they are not one heap's."""
        heap = cls(base, 0)
        heap.size = size
        end = -(-base // GRANULE) * GRANULE
        for start, behind in sorted([*used, *free]):
            if start != end or behind <= start or behind % GRANULE:
                raise ValueError(f"[{start:#x}, {behind:#x}) where {end:#x} was due")
            end = behind
        if (used or free) and end != (base + size) // GRANULE * GRANULE:
            raise ValueError(f"it ends at {end:#x}")
        heap._blocks = dict(used)
        for start, behind in free:
            heap._add(start, behind)
        return heap

    def used(self) -> list[tuple[int, int]]:
        """Start and end of each block."""
        return list(self._blocks.items())

    def free_parts(self) -> list[tuple[int, int]]:
        """Start and end of each, in the order in which a request looks at those of a class."""
        return [(start, self._starts[start]) for each in self._classes.values() for start in each]

    @property
    def blocks(self) -> int:
        """How many there are."""
        return len(self._blocks)

    def allocate(self, size: int, alignment: int = GRANULE) -> int:
        """The address of a new block, 0 when there is no room. The alignment is a power of two."""
        size = max(GRANULE, -(-size // GRANULE) * GRANULE)
        alignment = max(alignment, GRANULE)
        if size > self.size or alignment > self.size:
            return 0
        for number in range(size.bit_length(), self.size.bit_length() + 1):
            for looked, start in enumerate(self._classes.get(number, ())):
                if looked == _LOOK and number > size.bit_length():
                    break
                address = -(-start // alignment) * alignment
                end = self._starts[start]
                if address + size <= end:
                    self._remove(start)
                    if start < address:
                        self._add(start, address)
                    if address + size < end:
                        self._add(address + size, end)
                    self._blocks[address] = address + size
                    return address
        return 0

    def free(self, address: int) -> bool:
        """False when no block starts there."""
        end = self._blocks.pop(address, None)
        if end is None:
            return False
        start = address
        if end in self._starts:
            following = self._starts[end]
            self._remove(end)
            end = following
        if start in self._ends:
            start = self._ends[start]
            self._remove(start)
        self._add(start, end)
        return True

    def _add(self, start: int, end: int) -> None:
        self._starts[start] = end
        self._ends[end] = start
        self._classes.setdefault((end - start).bit_length(), {})[start] = None

    def _remove(self, start: int) -> None:
        end = self._starts.pop(start)
        del self._ends[end]
        del self._classes[(end - start).bit_length()][start]
