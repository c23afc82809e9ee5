"""Physical memory that a session maps at addresses of its window (tape.md, "Physical memory").

Owns the memory: a file without a name, of which each physical allocation is a part. A mapping is the file's pages in the window, so one
allocation at two addresses is one memory, and nothing is copied. A part is never used again: what has ended becomes a hole, which
takes no memory, and file offsets do not run out. Which addresses kernels may touch is the window's flags' to say, as for all memory.

Not thread-safe; one session's thread at a time.

Source: CUDA driver API, "Virtual Memory Management"; memfd_create(2), fallocate(2).
"""

from __future__ import annotations

import os
from typing import NamedTuple

from farlane.backend.device.allocations import Allocations
from farlane.backend.device.base import NO_ACCESS, READ, READ_WRITE, CudaError
from farlane.backend.device.sim.memory.window import READABLE, WRITABLE, Window
from farlane.backend.generated_errors import INVALID_VALUE, MEMORY_ALLOCATION
from farlane.backend.system.mappings import FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, MappingError, checked, libc

_FLAGS = {NO_ACCESS: 0, READ: READABLE, READ_WRITE: READABLE | WRITABLE}


class Part(NamedTuple):
    """A physical allocation: bytes [offset, offset + size) of the file."""

    offset: int
    size: int


class PhysicalFile:
    """The physical allocations of one session, and their mappings in its window."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._descriptor = -1
        self._end = 0  # of the file
        self.bytes = 0  # of living allocations
        self._mappings: dict[int, int] = {}  # address -> size

    def create(self, size: int) -> Part:
        """Raises CudaError 2."""
        try:
            if self._descriptor < 0:
                self._descriptor = os.memfd_create("farlane-physical")
            os.ftruncate(self._descriptor, self._end + size)
        except OSError as error:
            raise CudaError(MEMORY_ALLOCATION, f"a physical allocation of {size} bytes: {error.strerror}") from None
        part = Part(self._end, size)
        self._end += size
        self.bytes += size
        return part

    def free(self, part: Part) -> None:
        """The part is mapped nowhere."""
        self.bytes -= part.size
        hole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
        checked(libc.fallocate(self._descriptor, hole, part.offset, part.size), "fallocate")

    def map(self, allocations: Allocations, address: int, part: Part, offset: int, size: int) -> None:
        """Raises CudaError: 1, an allocation is there; 2, the system has no room for another mapping."""
        clash = allocations.overlapping(address, address + size)
        if clash is not None:
            raise CudaError(INVALID_VALUE, f"a mapping of {size} bytes at {address:#x} overlaps the live {clash}")
        try:
            self._window.attach(address, size, self._descriptor, part.offset + offset)
        except MappingError as error:
            raise CudaError(MEMORY_ALLOCATION, f"a mapping of {size} bytes at {address:#x}: {error.strerror}") from None
        self._mappings[address] = size
        allocations.map_range(address, address + size, NO_ACCESS)

    def unmap(self, allocations: Allocations, address: int, size: int) -> None:
        del self._mappings[address]
        allocations.unmap_range(address, address + size)
        self._window.detach(address, size)

    def set_access(self, allocations: Allocations, address: int, size: int, access: int) -> None:
        allocations.unmap_range(address, address + size)
        allocations.map_range(address, address + size, access)
        self._window.permit(address, size, _FLAGS[access])

    def clear(self, allocations: Allocations) -> None:
        """Ends all mappings and all physical allocations."""
        for address, size in list(self._mappings.items()):
            self.unmap(allocations, address, size)
        self.close()

    def close(self) -> None:
        """Ends the memory; the window's own end, or `clear`, ends the mappings."""
        self.bytes = self._end = 0
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
