"""Where a session's pages are while they are not on the device: host memory, a byte of it for each byte of the window.

The store reserves as many addresses as the window has, and takes memory for what is written to it only; what is dropped goes back to the system at once. So
it holds at most what the session has allocated. Not thread-safe. Source: docs/explanation/systems.md, S4.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_MAP_NORESERVE = 0x4000  # Linux; mmap has it from Python 3.12 on


@dataclass
class Migrations:
    """What has moved between the device and the store, in bytes and times, and how often kernels asked."""

    bytes_in: int = 0
    bytes_out: int = 0
    moves_in: int = 0
    moves_out: int = 0
    requests: int = 0
    streaming_launches: int = 0
    peak_bytes: int = 0


class Store:
    """Bytes by their offset in the window. What was never written reads as zero."""

    def __init__(self, size: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self._map = mmap.mmap(-1, size, flags=flags)
        for advice in ("MADV_NOHUGEPAGE", "MADV_DONTDUMP"):
            if hasattr(mmap, advice):
                self._map.madvise(getattr(mmap, advice))
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        self.view: memoryview = self.bytes.data

    def drop(self, start: int, end: int) -> None:
        """Forgets whole pages."""
        self._map.madvise(mmap.MADV_DONTNEED, start, end - start)
