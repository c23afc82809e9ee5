"""A session's share of the simulated device, as data and made from data again.

Owns what of the memory and of the runtime is saved. Between two groups no kernel runs and nothing is queued: what the
device has then are allocations, the host's areas behind them, limits and the heap's books. Kernels are compiled anew,
and so is what launches were checked for.

What is refused: memory that has places beside the window (models, bounded memory), memory at a second address
(registered host memory, mapped physical memory), observers (checks, traces).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from farlane.backend.device.allocations import Allocation
from farlane.backend.device.base import CudaError
from farlane.backend.device.saved import Blocks, Fetch, Piece, SavedContext, Unsaveable
from farlane.backend.device.sim.memory.memory import Memory
from farlane.backend.device.sim.memory.window import PAGE, READABLE, WRITABLE
from farlane.backend.device.sim.observers.observer import Observers
from farlane.backend.device.sim.runtime.heap import Heap
from farlane.backend.device.sim.runtime.runtime import Runtime
from farlane.backend.plane import Direct, Gate

if TYPE_CHECKING:
    from farlane.backend.device.sim.memory.turn import Turn


class Saving:
    """What a context of the simulated device does for that."""

    reads_ahead = True
    direct: Direct
    device_nanoseconds: int
    _memory: Memory
    _runtime: Runtime
    _observers: Observers
    _working: Gate | Turn
    _closed: bool

    def save(self) -> SavedContext:
        launches, worked = self.direct.launches, self.device_nanoseconds + self.direct.nanoseconds
        return save(self._memory, self._runtime, self._observers, launches, worked)

    def restore(self, saved: SavedContext) -> None:
        """Fills a new session. Raises Unsaveable."""
        restore(self._memory, self._runtime, saved)
        self.direct.launches, self.device_nanoseconds = saved.launches, saved.nanoseconds

    def mapped(self) -> list[tuple[int, int]]:
        with self._working:  # the session may end meanwhile
            return [] if self._closed else [(start, end) for start, end, _ in self._memory.window.runs()]

    @contextlib.contextmanager
    def reading(self) -> Iterator[Fetch]:
        """Through the process's own file of its memory, for the session may run meanwhile and end an allocation."""
        memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)

        def fetch(address: int, size: int) -> bytes:
            try:
                return os.pread(memory, size, address)
            except OSError:  # it has ended meanwhile
                return b""

        try:
            yield fetch
        finally:
            os.close(memory)

    def write_pages(self, address: int, data: bytes) -> None:
        write_pages(self._memory, address, data)


def save(memory: Memory, runtime: Runtime, observers: Observers, launches: int, nanoseconds: int) -> SavedContext:
    """Raises Unsaveable."""
    if observers or memory.attended:
        raise Unsaveable(
            "its kernels are checked or traced, or its memory is bounded or modelled, and that is not saved"
        )
    if memory.host_mappings.ranges():
        raise Unsaveable(
            "it has registered memory of the program (cudaHostRegister), which kernels find at its own address"
        )
    if memory.physical.bytes:
        raise Unsaveable("it maps physical memory by itself (cuMemCreate)")
    inside = memory.guest.base + memory.guest.size
    return SavedContext(
        memory.guest,
        [(each.start, each.size) for each in memory.allocations if each.start < inside],
        {base: [_piece(memory, start) for start in starts] for base, starts in memory.areas().items()},
        runtime.limits(),
        _blocks(runtime.heap),
        runtime.workspace_address,
        launches,
        nanoseconds,
    )


def _piece(memory: Memory, start: int) -> Piece:
    allocation = memory.allocations.holding(start)
    assert allocation is not None
    return Piece(start, allocation.size, allocation.label, not memory.window.read_only(start))


def _blocks(heap: Heap | None) -> Blocks | None:
    return None if heap is None else Blocks(heap.base, heap.size, heap.used(), heap.free_parts())


def restore(memory: Memory, runtime: Runtime, saved: SavedContext) -> None:
    """Fills a new session's memory and runtime. Raises Unsaveable: it cannot be so."""
    try:
        for address, size in saved.allocations:
            memory.allocate(address, size)
        for base, pieces in saved.areas.items():
            parts = [(Allocation(each.address, each.size, each.label), each.writable) for each in pieces]
            memory.restore_area(base, parts)
    except CudaError as error:
        raise Unsaveable(f"this host has no room for its memory: {error.message}") from None
    heap = None
    if saved.heap is not None:
        _require(memory, saved.heap.base, saved.heap.size, "the device heap")
        try:
            heap = Heap.restored(*saved.heap)
        except ValueError as error:
            raise Unsaveable(f"the books of its device heap are wrong: {error}") from None
    if saved.workspace:
        _require(memory, saved.workspace, 1, "the place where blocks meet")
    runtime.restore(heap, saved.workspace)


def _require(memory: Memory, address: int, size: int, what: str) -> None:
    """Raises Unsaveable: that is not an area of the host's."""
    holding = memory.allocations.holding(address) if size else None
    known = holding is not None and holding.start == address and holding.size >= size
    if size and not (known and address >= memory.guest.base + memory.guest.size):
        raise Unsaveable(f"{what} is said to be at {address:#x}, where there is none")


def write_pages(memory: Memory, address: int, data: bytes) -> None:
    """Content of whole pages. Raises Unsaveable: no such pages are there."""
    offset = address - memory.window.base
    inside = 0 <= offset <= memory.window.size - len(data) and not (address % PAGE or len(data) % PAGE)
    if (
        not inside
        or not (memory.window.flags[offset // PAGE : (offset + len(data)) // PAGE] & (READABLE | WRITABLE)).all()
    ):
        raise Unsaveable(f"pages at {address:#x}, where the session has no memory")
    memory.window.view[offset : offset + len(data)] = data
