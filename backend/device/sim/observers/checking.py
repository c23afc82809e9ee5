"""A session's checks: what kernels are compiled to look for, what comes of it, and the count of errors at the end.

Owns the session's findings: the table that its kernels fill, the shadow of what was written, the allocations that have ended, the number of errors and the
bound on printed reports. The texts are findings.py's; they go to the guest's standard error as those of assertions do (runtime.py).

A launch under checks runs on one thread, blocks in order, so that the reports are the same on every run. It ends at the first warp instruction
that accesses what it must not, after a report for each thread of it, with the error that it would have without checks, sticky unless "continue" is asked for; races and reads of what was
never written are reported when the launch has ended, and have no other effect.

One thread at a time.

Source: compute-sanitizer's documentation; docs/howto/check-kernels.md.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable

from farlane.backend import jit
from farlane.backend.device.allocations import Allocation, Allocations
from farlane.backend.device.base import LaunchShape, Rows
from farlane.backend.device.sim.memory.memory import Memory
from farlane.backend.device.sim.observers import findings
from farlane.backend.device.sim.observers.observer import Ended, Faulted, Observer
from farlane.backend.device.sim.observers.shadow import Shadow
from farlane.backend.jit.runtime import checks
from farlane.backend.jit.runtime.checks import Hazard
from farlane.backend.jit.runtime.structures import Fault, FaultKind
from farlane.demangle import demangled

KINDS = {"memory": checks.MEMORY, "race": checks.RACE, "init": checks.INIT, "leak": 8, "continue": 16}
LEAK, CONTINUE = KINDS["leak"], KINDS["continue"]
PRINTED = 100  # reports of a session
FREED = 1024  # ended allocations that are remembered
HEAP = "device heap"
BLOCK = "block of the device heap"
GUEST = "allocation"  # the label of what the guest allocates


class Checker(Observer):
    """The checks of one session.

    Args:
        kinds: names of KINDS; at least one.
        base, size: the session's window.
        write: takes the texts.
    """

    def __init__(self, kinds: Iterable[str], base: int, size: int, write: Callable[[bytes], None]) -> None:
        self.wanted = sum({KINDS[kind] for kind in kinds})
        self.table = checks.Table()
        self.findings = self.table.address
        self.errors = 0
        self._write = write
        self._printed = 0
        self._lost = False  # nothing can be freed any more
        self._freed: deque[Allocation] = deque(maxlen=FREED)
        self._blocks: dict[int, int] = {}  # of the device heap
        self._shadow = Shadow(base, size) if self.wanted & checks.INIT else None
        if self._shadow is not None:
            self.table.set_delta(self._shadow.delta)
        self._version: object = None
        self._known: set[int] = set()  # the host's own allocations that have a shadow

    def options(self, options: jit.Options) -> jit.Options:
        return dataclasses.replace(options, checks=self.wanted & (checks.MEMORY | checks.RACE | checks.INIT))

    # Memory -----------------------------------------------------------------------------------------------------
    def allocated(self, address: int, size: int) -> None:
        if self._shadow is not None:
            self._shadow.forget(address, size)

    def freed(self, allocation: Allocation) -> None:
        self._freed.append(allocation)
        if self._shadow is not None:
            self._shadow.forget(allocation.start, allocation.size)

    def written(self, rows: Rows, by_kernel: bool = False) -> None:
        if self._shadow is not None:
            self._shadow.written(rows)

    def copied(self, destination: Rows, source: Rows, by_kernel: bool = False) -> None:
        if self._shadow is not None:
            self._shadow.copied(destination, source)

    def opened(self, start: int, end: int) -> None:
        self.table.add_range(start, end)

    def heap_allocated(self, address: int, size: int) -> None:
        self._blocks[address] = size
        self.allocated(address, size)
        self.table.add_range(address, address + size)

    def heap_freed(self, address: int) -> None:
        """The kernel's latches must be forgotten, too."""
        size = self._blocks.pop(address)
        self.freed(Allocation(address, size, BLOCK))
        self.table.remove_range(address)

    def refresh(self, allocations: Allocations, host_mappings: Iterable[tuple[int, int]] = ()) -> None:
        """What kernels may access, to the byte; `host_mappings`: runs of pages, by the program's addresses."""
        live = self._live(allocations)
        if self._shadow is not None:
            for one in live:
                if one.label not in (GUEST, BLOCK) and one.start not in self._known:
                    self._known.add(one.start)
                    self._shadow.written(Rows(one.start, one.size, one.size, 1))  # variables have an initial value
        self.table.set_ranges(sorted([(one.start, one.end) for one in live] + list(host_mappings)))

    def _live(self, allocations: Allocations) -> list[Allocation]:
        live = [one for one in allocations if one.label != HEAP and one.access]
        if self._blocks:
            live += [Allocation(start, size, BLOCK) for start, size in self._blocks.items()]
            live.sort()
        return live

    # Launches ---------------------------------------------------------------------------------------------------
    def begin(self, name: str, info: jit.KernelInfo, shape: LaunchShape, memory: Memory) -> None:
        allocations = memory.allocations
        if self._version != (id(allocations), allocations.version):
            self._version = id(allocations), allocations.version
            self.refresh(allocations, memory.host_mappings.ranges())
        self.table.begin()

    def ended(self, launch: Ended, allocations: Allocations) -> None:
        """What the launch has found that does not end one."""
        module, kernel, block = launch.module, launch.kernel, launch.block
        for record in self.table.records():
            if record.kind == Hazard.UNINITIALIZED_READ:
                about = [f"Address {record.address:#x}", *self._inside(record.address, allocations)]
                self._report(findings.uninitialised(module, kernel, block, record, about))
            else:
                self._report(findings.race(module, kernel, block, record))
        if self.table.lost:
            self.errors += 1
            self._write(
                f"{findings.MARK} {demangled(kernel)}: {self.table.lost:,} further findings at other places "
                f"of the kernel, of which {checks.RECORDS} are counted\n".encode()
            )

    def faulted(self, launch: Faulted, allocations: Allocations) -> bool:
        module, kernel, info, shared, fault = launch
        found = fault.kind in (FaultKind.ILLEGAL_ADDRESS, FaultKind.MISALIGNED_ADDRESS)
        goes_on = found and bool(self.wanted & checks.MEMORY and self.wanted & CONTINUE)
        self._lost = self._lost or not goes_on
        if found and self.wanted & checks.MEMORY:
            self._invalid_access(module, kernel, info, shared, fault, allocations)
        return goes_on

    def _invalid_access(
        self, module: jit.Module, kernel: str, info: jit.KernelInfo, shared: int, fault: Fault, allocations: Allocations
    ) -> None:
        if not fault.size:  # not found by an address
            self._report(
                findings.without_address(
                    findings.place(module, kernel, fault.line),
                    (fault.thread[0], fault.thread[1], fault.thread[2]),
                    (fault.block[0], fault.block[1], fault.block[2]),
                    fault.address,
                )
            )
            return
        live = self._live(allocations)
        limits = {
            "__shared__": shared,
            "__local__": (info.local_bytes + 15) & -16,
            "__parameter__": info.parameter_bytes,
        }
        x, y, z = fault.thread
        own = x + info.block[0] * (y + info.block[1] * z)
        accesses = [(own - own % 32 + lane, address) for lane, address in self.table.accesses()]
        if (own, fault.address) not in accesses:
            accesses = [(own, fault.address)]
        where = findings.place(module, kernel, fault.line)
        block = (fault.block[0], fault.block[1], fault.block[2])
        for number, address in accesses:
            limit = limits.get(findings.space_of(address))
            if limit is not None:
                offset = address & 0xFFFF_FFFF
                good = offset % fault.size == 0 and offset + fault.size <= limit
                about = findings.in_block(address, fault.size, limit)
            else:
                good = address % fault.size == 0 and _holds(live, address, fault.size)
                about = findings.beside(address, fault.size, live, reversed(self._freed))
            if not good or number == own:
                thread = findings.thread_of(number, info.block)
                self._report(
                    findings.invalid_access(where, bool(fault.write), fault.size, thread, block, address, about)
                )

    # The end ----------------------------------------------------------------------------------------------------
    def cleared(self, allocations: Allocations) -> None:
        """What the program has not given back."""
        if self.wanted & LEAK and not self._lost:
            left = [(one, False) for one in allocations if one.label == GUEST]
            left += [(Allocation(start, size), True) for start, size in sorted(self._blocks.items())]
            for one, heap in left:
                self._report(findings.leak(one, heap))
            if left:
                self._write(findings.leak_summary(sum(one.size for one, _ in left), len(left)))
        self._lost = False
        self._blocks.clear()
        self._known.clear()

    def finish(self, allocations: Allocations) -> int:
        """The number of errors, said for the last time."""
        self.cleared(allocations)
        self._write(findings.summary(self.errors, self._printed))
        return self.errors

    def _report(self, text: bytes) -> None:
        self.errors += 1
        if self._printed < PRINTED:
            self._printed += 1
            self._write(text)

    def _inside(self, address: int, allocations: Allocations) -> list[str]:
        for one in self._live(allocations):
            if one.start <= address < one.end:
                return [
                    f"and is {address - one.start:,} bytes inside the allocation at {one.start:#x} of size {one.size:,} bytes"
                ]
        return []


def _holds(live: Iterable[Allocation], address: int, size: int) -> bool:
    return any(one.start <= address and address + size <= one.end for one in live)
