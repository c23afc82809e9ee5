"""A page table in simulated memory: 64-bit words that a walker reads one level after the other.

Tables take frames of 4 KiB of a region of their own, which `words` backs; the frames they map are physical addresses that nothing here reads or writes.
An entry is written whole, and a range is checked before the first entry of it is written: a map or unmap that fails has changed nothing.
The code that takes a mapping away tells the TLBs (`TlbModel.invalidate`). Not thread-safe: one owner.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from farlane.backend.memory.paging import spec
from farlane.backend.memory.paging.spec import BIG, LEAF, PAGE_2M, PAGE_4K, PAGE_64K, VALID, WRITABLE


class Fault(enum.Enum):
    """Why an address has no translation."""

    UNMAPPED = "not mapped"
    READ_ONLY = "mapped for reading only"


class PageFault(Exception):
    """An access that the page table does not allow."""

    def __init__(self, fault: Fault, address: int, level: int) -> None:
        super().__init__(f"{address:#x} is {fault.value} (level {level} of the page table)")
        self.fault = fault
        self.address = address
        self.level = level  # of the entry that stopped the walk, the root's being 0


@dataclasses.dataclass(frozen=True)
class Translation:
    """Where a virtual address lies, and what the walk to it read."""

    physical: int
    page_bytes: int
    writable: bool
    reads: tuple[int, ...]  # physical addresses of the entries


class PageTable:
    """The page table of one address space. `base` is the physical address of the region that holds its tables."""

    def __init__(self, base: int = 1 << 47, limit_bytes: int = 1 << 32) -> None:
        if base % spec.TABLE_BYTES or not 0 <= base < 1 << 52:
            raise ValueError(f"tables begin at a multiple of {spec.TABLE_BYTES}, not at {base:#x}")
        self.base = base
        self._limit = limit_bytes // spec.TABLE_BYTES
        self._words: npt.NDArray[np.uint64] = np.zeros(16 * spec.LEVEL_ENTRIES, dtype=np.uint64)
        self._tables = 0
        self._free: list[int] = []  # tables that were given back, as numbers
        self._entries: dict[int, int] = {}  # table: how many of its entries are valid
        self.root = self._new_table()
        self.mapped_bytes = 0

    @property
    def words(self) -> npt.NDArray[np.uint64]:
        """The memory of the region: the word of physical address `a` is number (a - base) / 8. A view; map may replace it."""
        return self._words[: self._tables * spec.LEVEL_ENTRIES]

    @property
    def table_bytes(self) -> int:
        """Memory that tables take now."""
        return (self._tables - len(self._free)) * spec.TABLE_BYTES

    def map(
        self,
        address: int,
        frames: Sequence[int] | npt.NDArray[np.uint64],
        page_bytes: int = PAGE_4K,
        writable: bool = True,
    ) -> None:
        """Maps a virtual range onto frames, which need not be contiguous. No part of it may be mapped."""
        spec.shift_of(page_bytes)
        size = page_bytes * len(frames)
        self._check_range(address, size, page_bytes)
        words = np.array(frames, dtype=np.uint64)
        wrong = np.flatnonzero((words % np.uint64(page_bytes) != 0) | (words >= np.uint64(1 << 52)))
        if len(wrong):
            raise ValueError(f"{int(words[wrong[0]]):#x} is no frame of {page_bytes} bytes")
        for page, count in _by_table(address, size, page_bytes):
            if (occupied := self._occupied(page, page_bytes, count)) is not None:
                raise ValueError(f"{occupied:#x} is mapped already")
        if self._missing_tables(address, size, page_bytes) > self._limit - self._tables + len(self._free):
            raise MemoryError(f"the page table may not grow beyond {self._limit * spec.TABLE_BYTES} bytes")
        words |= np.uint64(VALID | LEAF | (WRITABLE if writable else 0))
        done = 0
        for page, count in _by_table(address, size, page_bytes):
            slot = self._slot(page, page_bytes, create=True)
            self._words[slot : slot + count] = words[done : done + count]
            self._entries[self._table_of(slot)] += count
            done += count
        self.mapped_bytes += size

    def unmap(self, address: int, size: int) -> list[int]:
        """Takes away whole pages; all of the range must be mapped. Answers the frames, in order. Empty tables are given back."""
        runs = self._runs(address, size)
        frames: list[int] = []
        for page, page_bytes, count in runs:
            slot = self._slot(page, page_bytes, create=False)
            words = self._words[slot : slot + count]
            frames += (words & np.uint64(spec.ADDRESS_MASK)).tolist()
            words[:] = 0
            self._entries[self._table_of(slot)] -= count
            self._prune(page)
        self.mapped_bytes -= size
        return frames

    def translate(self, address: int, write: bool = False) -> Translation:
        """Walks the table as hardware does. Raises PageFault."""
        if not 0 <= address < 1 << spec.ADDRESS_BITS:
            raise PageFault(Fault.UNMAPPED, address, 0)
        table, big, reads = self.root, False, []
        for level, shift in enumerate(spec.LEVEL_SHIFTS):
            if big:
                shift, entries = spec.BIG_SHIFT, spec.BIG_ENTRIES
            else:
                entries = spec.LEVEL_ENTRIES
            slot = self._index(table) + (address >> shift) % entries
            reads.append(self.base + slot * spec.WORD_BYTES)
            word = int(self._words[slot])
            if not word & VALID:
                break
            if word & LEAF:
                if write and not word & WRITABLE:
                    raise PageFault(Fault.READ_ONLY, address, level)
                offset = address & ((1 << shift) - 1)
                return Translation((word & spec.ADDRESS_MASK) + offset, 1 << shift, bool(word & WRITABLE), tuple(reads))
            table, big = word & spec.ADDRESS_MASK, bool(word & BIG)
        raise PageFault(Fault.UNMAPPED, address, len(reads) - 1)

    # Tables

    def _index(self, table: int) -> int:
        return (table - self.base) // spec.WORD_BYTES

    def _new_table(self) -> int:
        if self._free:
            number = self._free.pop()
        else:
            number = self._tables
            self._tables += 1
            if self._tables * spec.LEVEL_ENTRIES > len(self._words):
                grown = np.zeros(2 * len(self._words), dtype=np.uint64)
                grown[: len(self._words)] = self._words
                self._words = grown
        table = self.base + number * spec.TABLE_BYTES
        self._entries[table] = 0
        return table

    def _table_of(self, slot: int) -> int:
        return self.base + slot // spec.LEVEL_ENTRIES * spec.TABLE_BYTES

    def _write(self, slot: int, word: int) -> None:
        table = self._table_of(slot)
        self._entries[table] += bool(word & VALID) - bool(int(self._words[slot]) & VALID)
        self._words[slot] = word

    def _slot(self, address: int, page_bytes: int, create: bool) -> int:
        """The number of the word that maps a page of this size."""
        table = self.root
        for level in range(spec.LEVELS):
            last = page_bytes == PAGE_2M and level == spec.LEVELS - 2
            if level == spec.LEVELS - 1 and page_bytes == PAGE_64K:
                return self._index(table) + (address >> spec.BIG_SHIFT) % spec.BIG_ENTRIES
            slot = self._index(table) + (address >> spec.LEVEL_SHIFTS[level]) % spec.LEVEL_ENTRIES
            if last or level == spec.LEVELS - 1:
                return slot
            word = int(self._words[slot])
            if not word & VALID:
                assert create, "checked by the caller"
                word = self._new_table() | VALID
                if page_bytes == PAGE_64K and level == spec.LEVELS - 2:
                    word |= BIG
                self._write(slot, word)
            table = word & spec.ADDRESS_MASK
        raise AssertionError("a page has a slot")

    def _prune(self, address: int) -> None:
        """Gives back the tables on the way to an address that have become empty."""
        path = []
        table = self.root
        for shift in spec.LEVEL_SHIFTS[:-1]:
            slot = self._index(table) + (address >> shift) % spec.LEVEL_ENTRIES
            word = int(self._words[slot])
            if not word & VALID or word & LEAF:
                break
            table = word & spec.ADDRESS_MASK
            path.append((slot, table))
        for slot, table in reversed(path):
            if self._entries[table]:
                break
            del self._entries[table]
            self._free.append((table - self.base) // spec.TABLE_BYTES)
            self._write(slot, 0)

    # Ranges

    @staticmethod
    def _check_range(address: int, size: int, page_bytes: int) -> None:
        if size <= 0 or address % page_bytes or size % page_bytes:
            raise ValueError(f"{size} bytes at {address:#x} are not whole pages of {page_bytes}")
        if address < 0 or address + size > 1 << spec.ADDRESS_BITS:
            raise ValueError(f"{size} bytes at {address:#x} leave the address space")

    def _entry_at(self, address: int) -> tuple[int, int]:
        """(word, size it covers) of the entry that ends the walk to an address; the word is not valid where nothing is mapped."""
        table, big = self.root, False
        for shift in spec.LEVEL_SHIFTS:
            if big:
                shift = spec.BIG_SHIFT
            word = int(
                self._words[self._index(table) + (address >> shift) % (spec.BIG_ENTRIES if big else spec.LEVEL_ENTRIES)]
            )
            if not word & VALID or word & LEAF:
                break
            table, big = word & spec.ADDRESS_MASK, bool(word & BIG)
        return word, 1 << shift

    def _occupied(self, address: int, page_bytes: int, count: int) -> int | None:
        """An address at which something stands in the way of mapping `count` pages of one table."""
        table = self.root
        shifts = spec.LEVEL_SHIFTS[: spec.levels_of(page_bytes) - 1]
        for shift in shifts:
            word = int(self._words[self._index(table) + (address >> shift) % spec.LEVEL_ENTRIES])
            if not word & VALID:
                return None
            if word & LEAF:
                return address
            table = word & spec.ADDRESS_MASK
        if page_bytes != PAGE_2M and bool(word & BIG) != (page_bytes == PAGE_64K):
            return address  # its 2 MiB hold pages of the other size
        slot = self._slot(address, page_bytes, create=False)
        taken = np.flatnonzero(self._words[slot : slot + count] & np.uint64(VALID))
        return address + int(taken[0]) * page_bytes if len(taken) else None

    def _missing_tables(self, address: int, size: int, page_bytes: int) -> int:
        """An upper bound on the tables that mapping a range would add."""
        shifts = spec.LEVEL_SHIFTS[: spec.levels_of(page_bytes) - 1]
        return sum(((address + size - 1) >> shift) - (address >> shift) + 1 for shift in shifts)

    def _runs(self, address: int, size: int) -> list[tuple[int, int, int]]:
        """(address, page size, count) of the mapped pages that make up a range exactly, by table."""
        self._check_range(address, size, PAGE_4K)
        runs = []
        at, end = address, address + size
        while at < end:
            word, page_bytes = self._entry_at(at)
            if not word & VALID:
                raise PageFault(Fault.UNMAPPED, at, 0)
            if at % page_bytes or at + page_bytes > end:
                raise ValueError(
                    f"{size} bytes at {address:#x} cut the page of {page_bytes} bytes at {at - at % page_bytes:#x}"
                )
            if page_bytes == PAGE_2M:
                runs.append((at, page_bytes, 1))
                at += page_bytes
                continue
            stop = min(end, at - at % PAGE_2M + PAGE_2M)
            if stop % page_bytes:
                raise ValueError(
                    f"{size} bytes at {address:#x} cut the page of {page_bytes} bytes at {stop - stop % page_bytes:#x}"
                )
            slot, count = self._slot(at, page_bytes, create=False), (stop - at) // page_bytes
            missing = np.flatnonzero((self._words[slot : slot + count] & np.uint64(VALID)) == 0)
            if len(missing):
                raise PageFault(Fault.UNMAPPED, at + int(missing[0]) * page_bytes, 0)
            runs.append((at, page_bytes, count))
            at = stop
        return runs


def _by_table(address: int, size: int, page_bytes: int) -> Iterator[tuple[int, int]]:
    """(address, count) of the pages of a range, cut where another table has their entries."""
    reach = PAGE_2M if page_bytes != PAGE_2M else 1 << spec.LEVEL_SHIFTS[1]
    at, end = address, address + size
    while at < end:
        stop = min(end, at - at % reach + reach)
        yield at, (stop - at) // page_bytes
        at = stop
