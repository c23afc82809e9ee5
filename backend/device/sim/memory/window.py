"""The device addresses of one session: reserved host memory, made accessible page by page.

Owns the reservation, its protection and the page flags that compiled kernels test. Knows nothing of allocations or of
CUDA. A device address is a host address, so translation never produces a pointer: it only decides whether there is one.
The window lies where a Linux process of default layout maps nothing, so that in the guest, another process, a device
address is never also the address of host memory.

Which pages are mapped, and what the system has given for them, the plane keeps (backend/plane/src/device/pages.rs). Here are the
reservation, memory at two addresses, and files.

Not thread-safe: one session's thread changes it, and never while a kernel of that session runs.

Source: docs/explanation/systems.md, S2 points 1 and 4; the design in docs/explanation/simulated-device/README.md.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import threading
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from farlane.backend.jit.runtime.structures import PAGE_HELD
from farlane.backend.plane import Pages
from farlane.backend.system.mappings import (
    MADV_DONTDUMP,
    MADV_NOHUGEPAGE,
    MAP_ANONYMOUS,
    MAP_FAILED,
    MAP_FIXED,
    MAP_FIXED_NOREPLACE,
    MAP_NORESERVE,
    MAP_PRIVATE,
    MAP_SHARED,
    MREMAP_FIXED,
    MREMAP_MAYMOVE,
    PROT_NONE,
    PROT_READ,
    PROT_WRITE,
    MappingError,
    libc,
    mapped,
)

PAGE_SHIFT = 12
PAGE = 1 << PAGE_SHIFT
GRANULE = 2 << 20
ALIGNMENT = 1 << 36

READABLE = 1
WRITABLE = 2
HELD = PAGE_HELD  # what the others do not allow may be had: a kernel asks

# Below: non-PIE programs, their heap and the thread sanitizer's shadow. Above: PIE programs at 0x55..., libraries at 0x7f....
LOWEST = 0x2000_0000_0000
HIGHEST = 0x5000_0000_0000

_placing = threading.Lock()
_next_place = LOWEST  # rotates, so that a use after close does not hit the next session's window


def spread() -> None:
    """Windows begin at a place that other processes hardly choose: a session that comes from one finds its addresses free."""
    global _next_place
    with _placing:
        _next_place = LOWEST + secrets.randbelow((HIGHEST - LOWEST) // ALIGNMENT) * ALIGNMENT


def _reserve(size: int, file: int | None) -> int:
    """Reserves size bytes at the next free place and returns its address."""
    global _next_place
    kind = MAP_PRIVATE | MAP_ANONYMOUS if file is None else MAP_SHARED
    protection, flags = PROT_NONE, kind | MAP_NORESERVE | MAP_FIXED_NOREPLACE
    step = -(-size // ALIGNMENT) * ALIGNMENT
    with _placing:
        for _ in range((HIGHEST - LOWEST) // ALIGNMENT if step <= HIGHEST - LOWEST else 0):
            place = _next_place if _next_place + step <= HIGHEST else LOWEST
            _next_place = place + step
            # mmap's address may be refused (in use) or, by an old kernel, taken as a hint only.
            address = libc.mmap(place, size, protection, flags, -1 if file is None else file, 0)
            if address == place:
                return int(address)
            if address != MAP_FAILED:
                libc.munmap(address, size)
    raise MappingError(
        ctypes.get_errno(), f"no {size} bytes of address space are free for a window (`ulimit -v` bounds it)"
    )


def _reserve_at(place: int, size: int) -> int:
    """The same, at a place that another host has chosen. Raises MappingError: it is taken."""
    if place % ALIGNMENT or not LOWEST <= place <= HIGHEST - size:
        raise MappingError(errno.EINVAL, "no window lies there")
    flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE
    with _placing:
        address = libc.mmap(place, size, PROT_NONE, flags, -1, 0)
        if address == place:
            return int(address)
        if address != MAP_FAILED:
            libc.munmap(address, size)
    raise MappingError(errno.EEXIST, "another session of this host has them")


class Window:
    """A reserved range [base, base + size) and what of it is there."""

    def __init__(self, size: int, place: int | None = None, file: int | None = None) -> None:
        """`place`: its base; None: the next free one. `file`: what it maps, from its beginning on; None: memory of this process's own."""
        self.size = -(-size // GRANULE) * GRANULE
        self.base = _reserve(self.size, file) if place is None else _reserve_at(place, self.size)
        libc.madvise(self.base, self.size, MADV_NOHUGEPAGE)
        libc.madvise(self.base, self.size, MADV_DONTDUMP)
        self.pages = self.size >> PAGE_SHIFT
        # Anonymous zero pages: a table for 64 GiB is 16 MiB of addresses and, mostly, no memory.
        self._flags_address = int(
            libc.mmap(0, self.pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
        )
        if self._flags_address == MAP_FAILED:
            number = ctypes.get_errno()
            libc.munmap(self.base, self.size)
            raise MappingError(number, "no memory for the page flags")
        self.flags: npt.NDArray[np.uint8] = np.frombuffer(
            memoryview((ctypes.c_uint8 * self.pages).from_address(self._flags_address)), np.uint8
        )
        #: Every byte of the window; touch only what the flags allow.
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(
            memoryview((ctypes.c_uint8 * self.size).from_address(self.base)), np.uint8
        )
        self.view: memoryview = self.bytes.data
        #: Mapped pages, and the system's memory behind them: kept by the plane.
        self.in_use = Pages(self.base, self.size, self._flags_address, file)
        counts = (ctypes.c_uint16 * (self.size // GRANULE)).from_address(self.in_use.used_address)
        self._granules: npt.NDArray[np.uint16] = np.frombuffer(memoryview(counts), np.uint16)  # pages in use in each
        self._open = True
        self.huge = True  # whether huge pages are used

    @property
    def end(self) -> int:
        return self.base + self.size

    @property
    def flags_address(self) -> int:
        """Where kernels find the flags: one byte a page, the first one that of the page at `base`."""
        return self._flags_address

    @property
    def resident_pages(self) -> int:
        """Pages that are mapped (not: that the system has given memory to)."""
        return int(self._granules.sum(dtype=np.int64))

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """(start, end, flags) of the runs of pages that are mapped alike, in order."""
        # By granules, for the table of flags is large and mostly without memory.
        each = GRANULE // PAGE
        for low, high in runs_of(0, self._granules > 0):
            flags = self.flags[low * each : high * each]
            for value in np.unique(flags[flags != 0]).tolist():
                for first, last in runs_of(low * each, flags == value):
                    yield self.base + first * PAGE, self.base + last * PAGE, value

    def any(self, start: int, end: int) -> bool:
        """Whether some page of [start, end) is mapped."""
        first = max(0, start - self.base) >> PAGE_SHIFT
        return bool(self.flags[first : max(0, end - self.base) >> PAGE_SHIFT].any())

    def read_only(self, address: int) -> bool:
        """Whether the page that holds an address is mapped, and not to be written by kernels."""
        return address < self.end and self.flags[(address - self.base) >> PAGE_SHIFT] == READABLE

    def map(self, start: int, end: int, flags: int) -> None:
        """Makes the whole pages [start, end) accessible. Those that were not mapped read as zero."""
        try:
            self.in_use.map(start, end, flags, self.huge)
        except OSError as error:
            raise MappingError(error.errno or 0, error.strerror) from None

    def unmap(self, start: int, end: int) -> None:
        """Takes the whole pages [start, end) away."""
        try:
            self.in_use.unmap(start, end)
        except OSError as error:
            raise MappingError(error.errno or 0, error.strerror) from None

    def hide(self, low: int, high: int) -> None:
        """Pages, by their numbers, that stay mapped and are held: gives their memory back to the system. They read as zero afterwards."""
        self.flags[low:high] = HELD
        self.in_use.discard(self.base + low * PAGE, (high - low) * PAGE)

    def show(self, start: int, size: int, elsewhere: int) -> None:
        """Whole mapped pages are at another address too from now on, which must be free. Raises MappingError; then nothing has changed."""
        access, flags = PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_NORESERVE
        place = libc.mmap(elsewhere, size, PROT_NONE, flags | MAP_PRIVATE | MAP_FIXED_NOREPLACE, -1, 0)
        if mapped(place, "no room at the address") != elsewhere:  # by an old kernel, taken as a hint only
            libc.munmap(place, size)
            raise MappingError(errno.EEXIST, os.strerror(errno.EEXIST))
        shared = int(libc.mmap(0, size, access, flags | MAP_SHARED, -1, 0))
        if shared == MAP_FAILED:
            number = ctypes.get_errno()
            libc.munmap(elsewhere, size)
            raise MappingError(number, os.strerror(number))
        ctypes.memmove(shared, start, size)
        # Of an old size of 0 it makes a second mapping of the same memory. Both take the place of mappings of ours.
        mapped(libc.mremap(shared, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, start), "mremap")
        mapped(libc.mremap(shared, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere), "mremap")
        for address in (start, elsewhere):
            libc.madvise(address, size, MADV_DONTDUMP)

    def hide_again(self, start: int, size: int, elsewhere: int) -> None:
        """The opposite of `show`. The pages stay mapped and read as zero."""
        libc.munmap(elsewhere, size)
        flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED
        mapped(libc.mmap(start, size, PROT_READ | PROT_WRITE, flags, -1, 0), "mmap")
        for advice in (MADV_DONTDUMP, MADV_NOHUGEPAGE):
            libc.madvise(start, size, advice)

    def attach(self, start: int, size: int, descriptor: int, offset: int) -> None:
        """Whole granules, of which nothing is mapped, are a part of a file from now on; no flag allows an access yet. Raises MappingError."""
        self.in_use.settle(start, start + size)
        shared = MAP_SHARED | MAP_NORESERVE | MAP_FIXED
        mapped(libc.mmap(start, size, PROT_READ | PROT_WRITE, shared, descriptor, offset), "mmap")
        libc.madvise(start, size, MADV_DONTDUMP)
        self.in_use.set_used(start, start + size, True)

    def permit(self, start: int, size: int, flags: int) -> None:
        """What kernels may do with the whole pages of an attached file."""
        first = (start - self.base) >> PAGE_SHIFT
        self.flags[first : first + (size >> PAGE_SHIFT)] = flags

    def detach(self, start: int, size: int) -> None:
        """The opposite of `attach`."""
        self.permit(start, size, 0)
        self.in_use.set_used(start, start + size, False)
        reserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED
        if libc.mmap(start, size, PROT_NONE, reserved, -1, 0) == MAP_FAILED:
            return  # the limit on mappings, as in `unmap`
        for advice in (MADV_DONTDUMP, MADV_NOHUGEPAGE):
            libc.madvise(start, size, advice)

    def close(self) -> None:
        """Gives everything back. The arrays of this object must not be used afterwards."""
        if self._open:
            self._open = False
            libc.munmap(self.base, self.size)
            libc.munmap(self._flags_address, self.pages)


def runs_of(low: int, marked: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The runs [first, last) of what is marked; the first of `marked` is number low."""
    size, count = len(marked), int(np.count_nonzero(marked))
    if count in (0, size):  # mostly
        return [(low, low + size)] if count else []
    edges = (np.flatnonzero(marked[1:] != marked[:-1]) + (low + 1)).tolist()
    if marked[0]:
        edges.insert(0, low)
    if marked[-1]:
        edges.append(low + size)
    return list(zip(edges[::2], edges[1::2], strict=True))
