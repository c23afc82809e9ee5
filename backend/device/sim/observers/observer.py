"""What looks at a session's memory and launches, and the one interface through which it hears of them.

An observer overrides what it wants to know of: checks (checking.py), the model of the memory system (modelling.py), traces (tracing.py). A session has
`Observers`, most often none; each call reaches all of them, in the order in which they were added. Launches of an observed session run on one thread, and
its loops call by call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from farlane.backend import jit
from farlane.backend.device.allocations import Allocation, Allocations
from farlane.backend.device.base import LaunchShape, Rows
from farlane.backend.device.sim.memory.extents import Extent
from farlane.backend.device.sim.memory.memory import Memory
from farlane.backend.jit.runtime.structures import Fault


class Ended(NamedTuple):
    """A launch that has ended; `done`: without a fault."""

    module: jit.Module
    kernel: str
    block: tuple[int, int, int]
    parameters: memoryview
    done: bool
    seconds: float


class Faulted(NamedTuple):
    """A launch that has ended with a fault; `shared`: bytes of shared memory that its blocks had."""

    module: jit.Module
    kernel: str
    info: jit.KernelInfo
    shared: int
    fault: Fault


class Observer:
    """Hears of everything, and does nothing about it. One thread at a time."""

    follows_pages = False  # it needs to know where pages lie: a session may not map physical memory itself
    findings: int | None = None  # for Launch.check

    def options(self, options: jit.Options) -> jit.Options:
        """How the session's kernels are compiled."""
        return options

    def attach(self, worker: jit.Worker) -> None:
        """The worker that runs the session's launches."""

    # Memory: calls of the program, or of a kernel that runs now ---------------------------------------------------
    def allocated(self, address: int, size: int) -> None:
        """The program has allocated memory."""

    def ending(self, address: int) -> None:
        """The program frees memory, which is still there."""

    def freed(self, allocation: Allocation) -> None:
        """It is gone."""

    def initialised(self, rows: Rows) -> None:
        """A module that is loaded gives a variable its first content."""

    def written(self, rows: Rows, by_kernel: bool = False) -> None:
        """A copy to the device, or a set."""

    def read(self, rows: Rows) -> None:
        """A copy to the host."""

    def copied(self, destination: Rows, source: Rows, by_kernel: bool = False) -> None:
        """A copy within the device."""

    def touched(self, extent: Extent, write: bool) -> None:
        """A kernel that runs now reads, or writes, an extent of managed memory for the first time."""

    def opened(self, start: int, end: int) -> None:
        """A kernel that runs now may access this, too."""

    def heap_allocated(self, address: int, size: int) -> None:
        """A kernel that runs now has allocated."""

    def heap_freed(self, address: int) -> None:
        """A kernel that runs now has freed."""

    # Launches -----------------------------------------------------------------------------------------------------
    def stream(self, stream: Any, legacy: bool) -> None:
        """What the next launch is in."""

    def synchronized(self) -> None:
        """The host has waited for the device, or one stream for another."""

    def begin(self, name: str, info: jit.KernelInfo, shape: LaunchShape, memory: Memory) -> None:
        """Before a launch."""

    def ended(self, launch: Ended, allocations: Allocations) -> None:
        """After it."""

    def faulted(self, launch: Faulted, allocations: Allocations) -> bool:
        """After a fault; returns whether the session goes on."""
        return False

    # The end ------------------------------------------------------------------------------------------------------
    def cleared(self, allocations: Allocations) -> None:
        """The session's memory is about to go: it is reset."""

    def finish(self, allocations: Allocations) -> int:
        """The program ends; returns the number of errors."""
        return 0

    def close(self, memory: Mapping[str, Any]) -> None:
        """The session ends. `memory`: what its memory reports."""


class Observers(Observer):
    """All of a session's."""

    def __init__(self) -> None:
        self._all: list[Observer] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, observer: Observer) -> None:
        self._all.append(observer)
        self.follows_pages |= observer.follows_pages
        self.findings = observer.findings or self.findings

    def options(self, options: jit.Options) -> jit.Options:
        for one in self._all:
            options = one.options(options)
        return options

    def attach(self, worker: jit.Worker) -> None:
        for one in self._all:
            one.attach(worker)

    def allocated(self, address: int, size: int) -> None:
        for one in self._all:
            one.allocated(address, size)

    def ending(self, address: int) -> None:
        for one in self._all:
            one.ending(address)

    def freed(self, allocation: Allocation) -> None:
        for one in self._all:
            one.freed(allocation)

    def initialised(self, rows: Rows) -> None:
        for one in self._all:
            one.initialised(rows)

    def written(self, rows: Rows, by_kernel: bool = False) -> None:
        for one in self._all:
            one.written(rows, by_kernel)

    def read(self, rows: Rows) -> None:
        for one in self._all:
            one.read(rows)

    def copied(self, destination: Rows, source: Rows, by_kernel: bool = False) -> None:
        for one in self._all:
            one.copied(destination, source, by_kernel)

    def touched(self, extent: Extent, write: bool) -> None:
        for one in self._all:
            one.touched(extent, write)

    def opened(self, start: int, end: int) -> None:
        for one in self._all:
            one.opened(start, end)

    def heap_allocated(self, address: int, size: int) -> None:
        for one in self._all:
            one.heap_allocated(address, size)

    def heap_freed(self, address: int) -> None:
        for one in self._all:
            one.heap_freed(address)

    def stream(self, stream: Any, legacy: bool) -> None:
        for one in self._all:
            one.stream(stream, legacy)

    def synchronized(self) -> None:
        for one in self._all:
            one.synchronized()

    def begin(self, name: str, info: jit.KernelInfo, shape: LaunchShape, memory: Memory) -> None:
        for one in self._all:
            one.begin(name, info, shape, memory)

    def ended(self, launch: Ended, allocations: Allocations) -> None:
        for one in self._all:
            one.ended(launch, allocations)

    def faulted(self, launch: Faulted, allocations: Allocations) -> bool:
        goes_on = [one.faulted(launch, allocations) for one in self._all]
        return any(goes_on)

    def cleared(self, allocations: Allocations) -> None:
        for one in self._all:
            one.cleared(allocations)

    def finish(self, allocations: Allocations) -> int:
        return sum(one.finish(allocations) for one in self._all)

    def close(self, memory: Mapping[str, Any]) -> None:
        for one in self._all:
            one.close(memory)
