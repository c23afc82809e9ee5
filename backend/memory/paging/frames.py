"""Physical frames: which are free, in sizes of 4 KiB, 64 KiB and 2 MiB.

A buddy scheme of three sizes: a 2 MiB frame splits into 32 of 64 KiB, one of these into 16 of 4 KiB, and they join again when all parts are free.
`scattered` hands out frames in a fixed pseudo-random order, so that a contiguous virtual range lies on frames that are not contiguous, as on a device
that has been in use for a while; `lowest` takes the lowest address first. Both are deterministic. Not thread-safe: one owner.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from farlane.backend.memory.paging.spec import PAGE_2M, PAGE_4K, PAGE_64K, PAGE_BYTES

Order = Literal["lowest", "scattered"]
_SMALLER = {PAGE_2M: PAGE_64K, PAGE_64K: PAGE_4K}
_LARGER = {small: large for large, small in _SMALLER.items()}


class OutOfFrames(Exception):
    """There is no free frame of the size asked for."""


class Frames:
    """The free frames of `size` bytes of physical memory from `base` on."""

    def __init__(self, size: int, base: int = 0, order: Order = "lowest") -> None:
        if size <= 0 or size % PAGE_2M or base % PAGE_2M or base < 0:
            raise ValueError(
                f"physical memory is a multiple of 2 MiB from a multiple of 2 MiB on, not {size} from {base}"
            )
        if order not in ("lowest", "scattered"):
            raise ValueError(f"frames are handed out lowest or scattered, not {order!r}")
        self.base = base
        self.size = size
        self.free_bytes = size
        self._order = order
        self._free: dict[int, set[int]] = {page: set() for page in PAGE_BYTES}
        self._heaps: dict[int, list[tuple[int, int]]] = {page: [] for page in PAGE_BYTES}
        self._used: dict[int, int] = {}  # address: size
        whole = np.arange(base, base + size, PAGE_2M, dtype=np.uint64)
        # Frames of 2 MiB that have never been taken, in their order: most of a large memory stays so.
        self._untouched = whole[np.argsort(self._key(whole))]
        self._begun = 0  # how many have been taken

    def allocate(self, page_bytes: int, count: int = 1) -> list[int]:
        """Physical addresses of `count` frames; all of them or none."""
        if page_bytes not in PAGE_BYTES:
            raise ValueError(f"no frame has {page_bytes} bytes")
        if count < 0:
            raise ValueError(f"{count} frames")
        taken: list[int] = []
        for _ in range(count):
            address = self._take(page_bytes)
            if address is None:
                self.free(taken)
                raise OutOfFrames(f"no room for {count} frames of {page_bytes} bytes: {self.free_bytes} bytes free")
            self._used[address] = page_bytes
            self.free_bytes -= page_bytes
            taken.append(address)
        return taken

    def free(self, addresses: Iterable[int]) -> None:
        """Gives frames back; each by the address that `allocate` gave."""
        for address in addresses:
            page_bytes = self._used.pop(address, 0)
            if not page_bytes:
                raise ValueError(f"no frame was allocated at {address:#x}")
            self.free_bytes += page_bytes
            self._give(page_bytes, address)

    def largest(self) -> int:
        """The largest frame that `allocate` could give; 0 when memory is full."""
        if self._begun < len(self._untouched):
            return PAGE_2M
        return max((page for page in PAGE_BYTES if self._free[page]), default=0)

    def _key(self, address: Any) -> Any:
        """Of an address, or of an array of them."""
        if self._order == "lowest":
            return address
        # The multiplier of Fibonacci hashing; the frame's number is mixed first so that neighbours part.
        number = (address - self.base) // PAGE_4K
        return ((number ^ (number >> 9)) * 0x9E3779B97F4A7C15) & (1 << 64) - 1

    def _put(self, page_bytes: int, address: int) -> None:
        self._free[page_bytes].add(address)
        heapq.heappush(self._heaps[page_bytes], (self._key(address), address))

    def _take(self, page_bytes: int) -> int | None:
        free, heap = self._free[page_bytes], self._heaps[page_bytes]
        while heap and heap[0][1] not in free:  # it was joined with its neighbours since
            heapq.heappop(heap)
        if page_bytes == PAGE_2M and self._begun < len(self._untouched):
            address = int(self._untouched[self._begun])
            if not heap or self._key(address) < heap[0][0]:
                self._begun += 1
                return address
        if heap:
            address = heapq.heappop(heap)[1]
            free.remove(address)
            return address
        larger = _LARGER.get(page_bytes)
        whole = self._take(larger) if larger else None
        if whole is None:
            return None
        assert larger is not None
        for part in range(whole, whole + larger, page_bytes):
            self._put(page_bytes, part)
        return self._take(page_bytes)

    def _give(self, page_bytes: int, address: int) -> None:
        larger = _LARGER.get(page_bytes)
        self._put(page_bytes, address)
        if larger is None:
            return
        whole = address - (address - self.base) % larger
        parts = range(whole, whole + larger, page_bytes)
        free = self._free[page_bytes]
        if all(part in free for part in parts):
            free.difference_update(parts)
            self._give(larger, whole)
        # A frame that joined and split again has an old entry in the heap; it goes when many have gathered.
        if len(self._heaps[page_bytes]) > 64 + 4 * len(free):
            self._heaps[page_bytes] = [(self._key(part), part) for part in free]
            heapq.heapify(self._heaps[page_bytes])
