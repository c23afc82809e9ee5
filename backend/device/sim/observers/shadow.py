"""Which bytes of a session's memory have been written: a byte of shadow for each byte of the window, 0 or 255.

Owns the mapping. Compiled kernels read and write it at a constant distance from the memory (jit/lowering/checks.py), copies and memsets here. It costs memory
where the window's is used, and address space else.

One thread at a time.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt
from farlane.backend.device.base import Rows

WRITTEN = 255
_MAP_NORESERVE = 0x4000
_WHOLE = 1 << 20  # from here on pages are given back instead of cleared


class Shadow:
    """The shadow of [base, base + size)."""

    def __init__(self, base: int, size: int) -> None:
        self._base = base
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        #: From an address to its shadow.
        self.delta = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) - base

    def forget(self, address: int, size: int) -> None:
        """Nothing has been written there."""
        start, end = address - self._base, address - self._base + size
        if size >= _WHOLE:
            first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)
            self._bytes[start:first] = 0
            self._bytes[last:end] = 0
        else:
            self._bytes[start:end] = 0

    def written(self, rows: Rows) -> None:
        if rows.width and rows.height:
            self._rows(rows)[:] = WRITTEN

    def copied(self, destination: Rows, source: Rows) -> None:
        """What was never written stays so where it is copied."""
        if source.width and source.height:
            self._rows(destination)[:] = self._rows(source).copy()

    def unwritten(self, address: int, size: int) -> bool:
        """Whether some byte of the range has never been written."""
        return bool((self._bytes[address - self._base : address - self._base + size] != WRITTEN).any())

    def _rows(self, rows: Rows) -> npt.NDArray[Any]:
        return np.ndarray(
            (rows.height, rows.width),
            np.uint8,
            buffer=self._bytes,
            offset=rows.address - self._base,
            strides=(rows.pitch if rows.height > 1 else rows.width, 1),
        )
