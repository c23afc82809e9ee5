"""Checking what kernels do to memory: what the checks are called, and the table of findings. lowering/checks.py writes the IR that looks.

Options.checks says what a kernel is compiled to look for; without it the code is what it is otherwise.

- MEMORY: global accesses are checked against the exact bounds of allocations, in place of pages. The fast path is the same: a latch
  (addresses.py) is one allocation.
- RACE: accesses of a block's threads to the same shared memory with no barrier between them, at least one a write. Exact to the byte; two
  strong accesses (atomics, volatile, relaxed and acquire or release ones) never race, nor do the lanes of one instruction. A barrier that
  completes, whichever it is, orders the whole block, and so do fences and mbarriers: they stand for a synchronization that is not followed.
  Where the lanes of a warp exchange values (shfl, vote, match, redux), what they have read is read: lanes may write there afterwards.
- INIT: global memory that is read before anything was written there. One byte of shadow for each byte of memory, at a constant distance.

Findings are counted in the launch's `Findings`, one record for each pair of lines. One worker runs such a launch: then they are the same on every run.

Source: PTX ISA, "Memory Consistency Model" (data races, strong operations); compute-sanitizer's documentation for the kinds of findings.
"""

from __future__ import annotations

import ctypes
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.ptx.model import LANES

if TYPE_CHECKING:
    from farlane.backend.jit.ptx.declarations import Module

MEMORY, RACE, INIT = 1, 2, 4

RECORDS = 100  # of one launch


class Hazard(IntEnum):
    """What a record counts. For the first three the record's own access is the later one."""

    WRITE_AFTER_READ = 1
    WRITE_AFTER_WRITE = 2
    READ_AFTER_WRITE = 3
    UNINITIALIZED_READ = 4


class Record(ctypes.Structure):
    """The first finding of its kind and lines, and how many there were."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("line", ctypes.c_uint32),
        ("other_line", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("thread", ctypes.c_uint32),  # in its block
        ("other_thread", ctypes.c_uint32),
        ("block", ctypes.c_uint32 * 3),
        ("reserved", ctypes.c_uint32),
        ("address", ctypes.c_uint64),  # an offset in shared memory, or a device address
        ("count", ctypes.c_uint64),
    )


class Findings(ctypes.Structure):
    """What a launch has found, and what it may access."""

    _fields_ = (
        ("ranges", ctypes.c_void_p),  # u64[2 * count]: starts and ends of allocations, ascending
        ("count", ctypes.c_uint64),
        ("delta", ctypes.c_uint64),  # from a device address to its shadow
        ("lanes", ctypes.c_uint32),  # the access at fault: the lanes that took part, and
        ("used", ctypes.c_uint32),
        ("lost", ctypes.c_uint32),  # findings beyond the table
        ("reserved", ctypes.c_uint32),
        ("addresses", ctypes.c_uint64 * LANES),  # their addresses
        ("records", ctypes.c_void_p),
    )


class Shadow(ctypes.Structure):
    """In front of the entries of a shared arena's shadow (checks.ll)."""

    _fields_ = (
        ("epoch", ctypes.c_uint64),  # counts what orders the whole block
        ("size", ctypes.c_uint64),  # bytes, entries included
        ("reserved", ctypes.c_uint64 * 6),
        ("turns", ctypes.c_uint32 * LANES),  # of each warp: counts what orders its lanes
        ("barriers", ctypes.c_uint32 * LANES),  # of each warp: the turn of its last barrier
    )


class ShadowEntry(ctypes.Structure):
    """The last accesses to a granule of shared memory."""

    _fields_ = (
        ("write", ctypes.c_uint64),
        ("read", ctypes.c_uint64),
        ("other_read", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64),
    )


class Table:
    """The findings of a session's launches, one launch at a time."""

    def __init__(self) -> None:
        self._findings = Findings()
        self._records = (Record * RECORDS)()
        self._findings.records = ctypes.addressof(self._records)
        self._ranges = array("Q")  # starts and ends in turn, not descending

    @property
    def address(self) -> int:
        """For Launch.check."""
        return ctypes.addressof(self._findings)

    def set_ranges(self, ranges: Sequence[tuple[int, int]]) -> None:
        """What kernels may access: disjoint [start, end), ascending."""
        self._ranges = array("Q", [edge for each in ranges for edge in each])
        self._show()

    def add_range(self, start: int, end: int) -> None:
        """One more, perhaps while a kernel waits for an answer."""
        place = bisect_right(self._ranges, start)  # behind the end of one that ends there
        self._ranges[place:place] = array("Q", (start, end))
        self._show()

    def remove_range(self, start: int) -> None:
        """The one that starts there goes. Latches of a running launch know nothing of it."""
        place = bisect_left(self._ranges, start)
        place += place & 1
        del self._ranges[place : place + 2]
        self._show()

    def _show(self) -> None:
        self._findings.ranges, edges = self._ranges.buffer_info()
        self._findings.count = edges // 2

    def set_delta(self, delta: int) -> None:
        self._findings.delta = delta & ((1 << 64) - 1)

    def begin(self) -> None:
        """Before a launch."""
        self._findings.lanes = self._findings.used = self._findings.lost = 0

    def accesses(self) -> list[tuple[int, int]]:
        """(lane, address) of the access that ended the launch; none where it is not known."""
        lanes = self._findings.lanes
        return [(lane, self._findings.addresses[lane]) for lane in range(LANES) if lanes >> lane & 1]

    def records(self) -> Iterable[Record]:
        return self._records[: self._findings.used]

    @property
    def lost(self) -> int:
        return int(self._findings.lost)


_LOC = re.compile(r"^\s*\.loc\s+(\d{1,9})\s+(\d{1,9})", re.MULTILINE)
_FILE = re.compile(r'^\s*\.file\s+(\d{1,9})\s+"([^"\n]*)"', re.MULTILINE)


def source_line(module: Module, line: int) -> tuple[str, int] | None:
    """(file, line) of the CUDA source behind a line of the PTX; None where it was compiled without -lineinfo."""
    text = module.text
    end = 0
    for _ in range(line):
        found = text.find("\n", end)
        if found < 0:
            end = len(text)
            break
        end = found + 1
    start = max(
        (function.body[0] for function in module.functions.values() if function.body and function.body[0] <= end),
        default=0,
    )
    last: Any = None
    for last in _LOC.finditer(text, start, end):  # noqa: B007  (the last one counts)
        pass
    if last is None:
        return None
    number = int(last.group(1))
    name = next((found.group(2) for found in _FILE.finditer(text) if int(found.group(1)) == number), None)
    return None if name is None else (name, int(last.group(2)))
