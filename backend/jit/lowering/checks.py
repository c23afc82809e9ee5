"""Checking what kernels do to memory: what the checks are called, the table of findings, and the IR that looks.

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
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.abi import SHARED_WINDOW
from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.ir import LANES, Val, integer
from farlane.backend.jit.ptx.module import SCALAR_BYTES

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitters.codegen import FunctionEmitter
    from farlane.backend.jit.lowering.families.accesses.addresses import Place
    from farlane.backend.jit.ptx.model import Body
    from farlane.backend.jit.ptx.module import Module

MEMORY, RACE, INIT = 1, 2, 4

RECORDS = 100  # of one launch
SHADOW_HEAD = 320  # bytes in front of the entries
SHADOW_ENTRY = 32
CHECK_OFFSET = 136  # of Launch.check
_DELTA = 16  # of Findings.delta
_STRONG = 512


class Hazard(IntEnum):
    """What a record counts. For the first three the record's own access is the later one."""

    WRITE_AFTER_READ = 1
    WRITE_AFTER_WRITE = 2
    READ_AFTER_WRITE = 3
    UNINITIALIZED_READ = 4


class Record(ctypes.Structure):
    """The layout of %Record: the first finding of its kind and lines, and how many there were."""

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
    """The layout of %Check."""

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


# Before emission -----------------------------------------------------------------------------------------------------
_ALIGNED_WORDS = {"mbarrier": 8, "wmma": 2, "wgmma": 2, "ldmatrix": 16, "stmatrix": 16, "cp": 4}
_TOUCHING = {"ld", "ldu", "st", "atom", "red", "multimem"}


def granule_log(bodies: Iterable[Body]) -> int:
    """Log2 of the smallest access to shared memory in a kernel, at most 2: what a shadow entry stands for."""
    smallest = 4
    for body in bodies:
        for item in body.instructions:
            if item.base in _TOUCHING:
                if {"global", "const", "local", "param", "param::entry", "param::func"} & set(item.modifiers):
                    continue
                kind = item.modifiers[-1] if item.modifiers else ""
                smallest = min(smallest, SCALAR_BYTES.get(kind, 1))
            elif item.base in _ALIGNED_WORDS:
                smallest = min(smallest, _ALIGNED_WORDS[item.base])
    return smallest.bit_length() - 1


# Emission ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Access:
    """What the checks want to know of an access beyond its address."""

    strong: bool = False  # atomic, volatile, relaxed, ...: two of them never race
    reads: bool = False  # a write that reads first
    texel: bool = False  # of a texture unit, which also reads what it then drops: not asked whether it was written
    values: tuple[Val, ...] = ()  # what is stored: integers, all of one type


PLAIN = Access()


def watch(e: FunctionEmitter, space: str, address: Val, size: int, write: bool, access: Access) -> None:
    """In front of an access: notes it for races. `address` is one within its space."""
    if not e.kernel.options.checks & RACE or space not in ("shared", ""):
        return
    b = e.body
    where = b.splat(address)
    if space == "shared":
        where = b.bin("or", where, integer(SHARED_WINDOW, "i64"))
    pointer, layout = "null", 0
    if access.values:
        kind = access.values[0].type
        width = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "i128": 16}[kind]
        pointer, layout = _stored(e, access.values, width), width.bit_length() - 1
    shape = size.bit_length() - 1 | (256 if write else 0) | (_STRONG if access.strong else 0)
    b.line(
        f"call void @farlane_watch(ptr %warp, {where}, {e.mask_bits}, i32 {shape}, i32 {e.line}, ptr {pointer}, i32 {layout})"
    )


def _stored(e: FunctionEmitter, values: Sequence[Val], width: int) -> str:
    """The values in memory, one vector behind the other."""
    b = e.body
    count = len(values)
    name = f"%stored.{width}.{count}"
    if name not in e.slots:
        e.slots.add(name)
        e.allocas.append(f"  {name} = alloca [{count} x <{LANES} x i{8 * width}>], align 64")
    for index, value in enumerate(values):
        b.store(b.splat(value), b.gep(name, index * LANES * width), f", align {width}")
    return name


def fence(e: FunctionEmitter) -> None:
    """A fence, or an operation on an mbarrier: a synchronization that is not followed."""
    if e.kernel.options.checks & RACE:
        e.body.line("call void @farlane_watch_fence(ptr %warp)")


def warp_barrier(e: FunctionEmitter, barrier: bool = True) -> None:
    """The lanes of a warp have met: at a barrier, or where they exchange values, which orders what they have read only."""
    if e.kernel.options.checks & RACE:
        e.body.line(f"call void @farlane_watch_warp(ptr %warp, i1 {'true' if barrier else 'false'})")


def initialised(e: FunctionEmitter, place: Place, space: str, size: int, write: bool, access: Access) -> None:
    """Behind the check of a global access: is what it reads written, and notes what it writes."""
    if not e.kernel.options.checks & INIT or space not in ("global", "") or access.texel:
        return
    from farlane.backend.jit.lowering import affine  # these know this module
    from farlane.backend.jit.lowering.families.accesses import addresses, memory

    b = e.body
    check = e.once("check", lambda p: p.load("ptr", False, p.gep(support.launch(e), CHECK_OFFSET))).name
    delta = e.once("delta", lambda p: p.load("i64", False, p.gep(check, _DELTA)))
    saved = e.mask, e.mask_bits
    # What is outside of the window has no shadow: another space, or an alias.
    base = e.once("window_base", lambda p: p.load("i64", False, p.gep(support.launch(e), 16)))
    room = e.once("window_size", lambda p: p.load("i64", False, p.gep(support.launch(e), 24)))
    lanes = addresses.as_offsets(e, place).index
    inside = b.bits(b.splat(b.icmp("ult", b.bin("sub", lanes, base), room)))
    shadowed, over = b.new_label("shadowed"), b.new_label("over")
    if place.form is None:
        e.mask_bits = b.bin("and", e.mask_bits, inside)
        e.mask = b.mask(e.mask_bits)
        b.branch_if(b.icmp("ne", e.mask_bits, integer(0, "i32")), shadowed, over)
    else:  # a row of lanes lies in one run of pages
        b.branch_if(b.icmp("eq", b.bin("and", e.mask_bits, inside), e.mask_bits), shadowed, over)
    b.block(shadowed)
    moved = b.bin("add", place.index, delta)
    form = place.form and affine.Affine(moved, place.form.stride, place.form.step)
    shadow = addresses.Place("null", moved, form)
    element, count = {1: "i8", 2: "i16", 4: "i32"}.get(size, "i64"), max(1, size // 8)
    all_ones = integer(-1, element)
    if not write or access.reads:
        bad = integer(0, "i1")
        for value in memory.read_memory(e, shadow, element, count):
            bad = b.bin("or", bad, b.icmp("ne", value, all_ones))
        bits = b.bin("and", b.bits(bad), e.mask_bits)
        unwritten, written = b.new_label("unwritten"), b.new_label("written")
        b.branch_if(b.icmp("ne", bits, integer(0, "i32")), unwritten, written, unlikely=True)
        b.block(unwritten)
        where = b.splat(addresses.as_offsets(e, place).index)
        b.line(f"call void @farlane_unwritten(ptr %warp, {where}, {bits}, i32 {size}, i32 {e.line})")
        b.branch(written)
        b.block(written)
    if write:
        memory.write_memory(e, shadow, element, [all_ones] * count)
    b.branch(over)
    b.block(over)
    e.mask, e.mask_bits = saved


# Lines ---------------------------------------------------------------------------------------------------------------
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
