"""The physical allocations of a session, and where they are mapped.

Owns the guest's handles, the map from addresses to mappings, and how many handles and mappings keep each allocation. Does not own the memory,
which is the device's, nor the rules of the tape (handlers/virtual_memory.py).

Locking: none. It belongs to one session, which replays on one thread at a time.
Source: protos/tape.md, "Physical memory".
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any

from farlane.backend.errors import ProtocolError
from farlane.backend.objects.handles import HandleTable
from farlane.backend.plane import LIVE_LIMIT


@dataclass
class Physical:
    """A physical allocation: the device's object, and how many mappings and handles keep it."""

    memory: Any
    size: int
    users: int = 1


@dataclass(frozen=True)
class Mapping:
    size: int
    physical: Physical | None  # None: it is poisoned


class PhysicalMemory:
    """The physical allocations and mappings of one session."""

    def __init__(self) -> None:
        self.handles: HandleTable[Physical] = HandleTable("physical allocation")
        self._starts: list[int] = []
        self._mappings: dict[int, Mapping] = {}

    def clear(self) -> None:
        """The device has been reset, or ends."""
        self.handles.clear({})
        self._starts.clear()
        self._mappings.clear()

    @property
    def used(self) -> bool:
        """Whether something is mapped."""
        return bool(self._starts)

    def overlapping(self, start: int, end: int) -> int | None:
        """The first address of a mapping that overlaps [start, end)."""
        index = bisect.bisect_left(self._starts, end) - 1
        if index < 0:
            return None
        found = self._starts[index]
        return found if start < found + self._mappings[found].size else None

    def add(self, address: int, mapping: Mapping) -> None:
        if len(self._starts) >= LIVE_LIMIT:
            raise ProtocolError(f"{LIVE_LIMIT} mappings of physical memory")
        bisect.insort(self._starts, address)
        self._mappings[address] = mapping

    def at(self, address: int, operation: str) -> Mapping:
        """The mapping that starts there."""
        mapping = self._mappings.get(address)
        if mapping is None:
            raise ProtocolError(f"{operation} at {address:#x}, where no mapping starts")
        return mapping

    def remove(self, address: int) -> Mapping:
        mapping = self.at(address, "PHYSICAL_UNMAP")
        del self._mappings[address]
        del self._starts[bisect.bisect_left(self._starts, address)]
        return mapping
