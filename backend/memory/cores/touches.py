"""What launches touched, until it is modelled: in memory up to a bound, in a temporary file beyond it.

Memory access records: two 64-bit words each, as compiled kernels write them (backend/jit/lowering/touches.py): page | warp << 42 | write << 47, and block << 32 | instructions that the
warp has issued. The touches of one warp are in order, those of different warps need not be.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

RECORD_BYTES = 16
PAGE_BITS = 42
PAGE_MASK = (1 << PAGE_BITS) - 1
WARPS = 32  # of a block

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]


class Columns(NamedTuple):
    """Memory access records taken apart."""

    page: Ints
    warp: Ints
    write: npt.NDArray[np.bool_]
    block: Ints
    issued: Ints

    @staticmethod
    def of(words: Words) -> Columns:
        signed = words.view(np.int64)
        first, second = signed[:, 0], signed[:, 1]
        return Columns(
            first & PAGE_MASK,
            first >> PAGE_BITS & (WARPS - 1),
            first >> (PAGE_BITS + 5) != 0,
            second >> 32 & 0xFFFF_FFFF,
            second & 0xFFFF_FFFF,
        )


def records(
    page: npt.ArrayLike, warp: npt.ArrayLike, write: npt.ArrayLike, block: npt.ArrayLike, issued: npt.ArrayLike
) -> Words:
    """The inverse, for tests and generated touches."""
    first = np.asarray(page, np.int64) | np.asarray(warp, np.int64) << PAGE_BITS
    first |= np.asarray(write, np.int64) << (PAGE_BITS + 5)
    second = np.asarray(block, np.int64) << 32 | np.asarray(issued, np.int64)
    return np.stack(np.broadcast_arrays(first, second), axis=1).astype(np.int64).view(np.uint64)


class Spool:
    """Pieces of touches in the order in which they came."""

    def __init__(self, memory_bytes: int) -> None:
        self._limit = memory_bytes
        self._held = 0
        self._pieces: list[Words | tuple[int, int]] = []  # in memory, or (first byte, records) in the file
        self._file: Any = None
        self.records = 0

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, words: Words) -> None:
        """Keeps a copy."""
        if not len(words):
            return
        self.records += len(words)
        if self._held + words.nbytes <= self._limit:
            self._held += words.nbytes
            self._pieces.append(words.copy())
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="farlane-touches-")  # noqa: SIM115 - closed by `close`
        self._pieces.append((self._file.seek(0, 2), len(words)))
        self._file.write(np.ascontiguousarray(words).data)

    def piece(self, number: int) -> Words:
        found = self._pieces[number]
        if not isinstance(found, tuple):
            return found
        self._file.seek(found[0])
        data = self._file.read(found[1] * RECORD_BYTES)
        return np.frombuffer(data, np.uint64).reshape(-1, 2)

    def __iter__(self) -> Iterator[Words]:
        return (self.piece(number) for number in range(len(self._pieces)))

    def close(self) -> None:
        self._pieces.clear()
        self._held = self.records = 0
        if self._file is not None:
            self._file.close()
            self._file = None
