"""Repeating a loop's body on the simulated device: one compiled dispatch loop, no Python for each iteration.

Owns the table that the loop reads (jit/compile/routines/repeats.py): operand buffers, launches laid out and checked once, the arenas' state for each kernel.
What a launch must pass is the launcher's, what a copy may touch the allocation map's. A kernel that is worth helpers is launched
by a call back to the launcher, every other one by the loop on this thread; so which thread runs what, and the order of blocks, are the
same as without the loop, and so are all bits of the results.

Allocations are made and ended by a call back too; the loop sees them in its own copy of the map, which is brought up to date each time.

The loop stops in front of whatever it finds wrong with a copy or an allocation. A kernel's fault ends it with the launcher's error.

One thread at a time; `interrupt` from any.
"""

from __future__ import annotations

import ctypes
import time
from array import array
from bisect import bisect_left
from typing import Any

import numpy as np
import numpy.typing as npt
from farlane.backend import jit
from farlane.backend.device.base import CudaError
from farlane.backend.device.plan import Body, Columns, Kind, Results, Step, Stop
from farlane.backend.device.sim.launching.launches import Launcher
from farlane.backend.device.sim.memory.memory import Memory
from farlane.backend.device.sim.runtime.prepared import Prepared
from farlane.backend.generated_errors import LAUNCH_FAILURE
from farlane.backend.jit.compile.routines import repeats

_ALIGNMENT = 64
_TWO = ctypes.c_uint64 * 2  # operands of an allocation; of its end, the first is one


class _Table:
    """A body as the loop reads it."""

    def __init__(self, body: Body, launcher: Launcher) -> None:
        """Raises CudaError: a launch in it is refused."""
        steps = body.steps
        sizes = [-(-len(step.operands) // _ALIGNMENT) * _ALIGNMENT for step in steps]
        self._buffer = ctypes.create_string_buffer(sum(sizes) + _ALIGNMENT)
        operands = ctypes.addressof(self._buffer)
        operands += -operands % _ALIGNMENT
        padded = b"".join([step.operands.ljust(size, b"\0") for step, size in zip(steps, sizes, strict=True)])
        ctypes.memmove(operands, padded, len(padded))
        self.operations = (repeats.Operation * len(steps))()
        self.prepared: list[Prepared | None] = []
        self.workers: list[jit.WorkerState] = []
        self.generation = -1  # of the worker that `workers` are copies of
        self.times = (ctypes.c_uint64 * len(steps))()
        self._holes = []
        for index, (step, size) in enumerate(zip(steps, sizes, strict=True)):
            operation = self.operations[index]
            operation.kind = step.kind
            operation.operands = operands
            operands += size
            if step.holes:
                holes = (repeats.Hole * len(step.holes))(*(repeats.Hole(*hole) for hole in step.holes))
                self._holes.append(holes)
                operation.holes, operation.hole_count = ctypes.addressof(holes), len(holes)
            operation.result_at = step.result_at
            if step.kind is Kind.WRITE:
                operation.size = len(step.operands) - 32
            elif step.kind is Kind.READ:
                operation.size = int.from_bytes(step.operands[16:24], "little") * int.from_bytes(
                    step.operands[24:32], "little"
                )
            elif step.kind is Kind.RECORD:
                operation.run = ctypes.addressof(self.times) + 8 * index
            self.prepared.append(self._launch(operation, step, launcher) if step.kind is Kind.LAUNCH else None)
        self.tier_1 = True  # some kernel may get better code
        apart = {repeats.KIND_SPREAD, Kind.ALLOCATE, Kind.FREE}
        self.calls_back = any(operation.kind in apart for operation in self.operations) or any(
            prepared is not None and prepared.calls_back for prepared in self.prepared
        )

    def _launch(self, operation: Any, step: Step, launcher: Launcher) -> Prepared:
        assert step.shape is not None
        prepared = launcher.prepare(step.function, step.shape, len(step.operands))
        prepared.launch.parameters = operation.operands
        operation.launch = ctypes.addressof(prepared.launch)
        operation.run = prepared.kernel.address
        apart = prepared.cooperative is not None or prepared.reserve is not None or prepared.launch.cluster_blocks > 1
        if prepared.helpers or apart or prepared.kernel.info.launches:
            operation.kind = repeats.KIND_SPREAD
        return prepared

    def launch(self, step: int) -> Prepared:
        prepared = self.prepared[step]
        assert prepared is not None
        return prepared

    def spent(self, nanoseconds: int) -> None:
        """The loop ran so long: that counts for each of its kernels. Those that have better code now run that from now on."""
        for operation, prepared in zip(self.operations, self.prepared, strict=True):
            if prepared is not None and (use := prepared.kernel.use) is not None:
                use.spent(prepared.kernel, nanoseconds)
            elif prepared is not None:
                operation.run = prepared.kernel.address
        self.tier_1 = any(prepared is not None and prepared.kernel.use is not None for prepared in self.prepared)

    @property
    def launches(self) -> list[jit.Launch]:
        return [prepared.launch for prepared in self.prepared if prepared is not None]


class Repeater:
    """Runs the loops of one session."""

    def __init__(self, launcher: Launcher, memory: Memory) -> None:
        self._launcher = launcher
        self._memory = memory
        self._state = repeats.Repeat()
        self._state.callback = repeats.Callback(self._called)
        self._table: _Table | None = None  # while the loop runs
        self._raised: BaseException | None = None
        self._version = -1
        self._starts, self._ends = array("Q"), array("Q")  # the allocation map as the loop searches it

    def repeat(self, body: Body, columns: Columns, results: Results) -> tuple[Stop | None, int]:
        """See `Context.repeat`; gives the nanoseconds that the loop ran, too."""
        table = body.prepared
        if table is None:
            try:
                table = _Table(body, self._launcher)
            except CudaError:
                return None, 0  # the launch itself will say why
            body.prepared = table
        self._launcher.stops.before_loop()
        if not self._memory.before_loop():
            return None, 0
        address = repeats.load()
        launcher, state = self._launcher, self._state
        matrix = np.ascontiguousarray(columns)
        self._refresh()
        state.operations = ctypes.addressof(table.operations)
        state.operation_count = len(table.operations)
        state.matrix = _address(matrix)
        state.iterations = matrix.shape[1]
        state.results, state.result_stride = _address(results), results.shape[1]
        state.interrupted = ctypes.addressof(launcher.halted)
        state.pause = launcher.stops.word
        state.launches = launcher.launches
        self._point(table)
        self._table, self._raised = table, None
        with launcher.repeating(table.launches):
            started = time.monotonic_ns()
            code = None
            if not (table.calls_back or self._memory.attended):
                code = launcher.stops.run(address, ctypes.addressof(state))
            if code is None:
                code = repeats.run(state)
            nanoseconds = time.monotonic_ns() - started
        launcher.launches = state.launches
        if table.tier_1:
            table.spent(nanoseconds)
        done, step = int(state.done), int(state.step)
        for index, operation in enumerate(body.steps):
            if operation.kind is Kind.RECORD and (done or index < step):
                operation.event.give(table.times[index])
        self._table = None
        if isinstance(self._raised, CudaError):  # of what a kernel has launched
            return Stop(done, step, self._raised), nanoseconds
        if self._raised is not None:
            raise self._raised
        if code == repeats.DONE:
            return Stop(done), nanoseconds
        if code == repeats.STOPPED or (code == repeats.INTERRUPTED and not launcher.interrupted):
            return Stop(done, step), nanoseconds
        if code == repeats.INTERRUPTED:
            error = CudaError(LAUNCH_FAILURE, "the session has been interrupted", sticky=True)
        else:
            error = launcher.error(body.steps[step].function, table.launch(step))
        return Stop(done, step, error), nanoseconds

    def _called(self, step: int) -> int:
        """The loop's call back: a launch that is shared with other threads, an allocation or its end. 0: it is done."""
        try:
            assert self._table is not None
            operation = self._table.operations[step]
            if operation.kind in (Kind.ALLOCATE, Kind.FREE):
                return self._managed(operation)
            self._state.launches += 1
            return 0 if self._launcher.run_spread(self._table.launch(step), self._state.launches) else 1
        except BaseException as error:  # no exception may pass through the loop
            self._raised = error
            return 1

    def _managed(self, operation: Any) -> int:
        allocations, made = self._memory.allocations, operation.kind == Kind.ALLOCATE
        address, size = _TWO.from_address(operation.operands)
        try:
            if made and not self._memory.fits(size):
                return 1
            if made:
                self._memory.allocate(address, size)
            else:
                self._memory.free(address)
        except CudaError:
            return 1  # the loop stops in front of it
        if allocations.version != self._version + 1:
            self._refresh()
            return 0
        place = bisect_left(self._starts, address)
        if made:
            self._starts.insert(place, address)
            self._ends.insert(place, address + size)
        else:
            del self._starts[place], self._ends[place]
        self._show()
        return 0

    def _refresh(self) -> None:
        allocations = self._memory.allocations
        if self._version != allocations.version:
            usable = [allocation for allocation in allocations if allocation.access]
            self._starts = array("Q", [allocation.start for allocation in usable])
            self._ends = array("Q", [allocation.end for allocation in usable])
            self._show()

    def _show(self) -> None:
        """The loop finds the map as it is now."""
        state = self._state
        state.starts, state.allocations = self._starts.buffer_info()
        state.ends, _ = self._ends.buffer_info()
        self._version = self._memory.allocations.version

    def _point(self, table: _Table) -> None:
        """Gives each kernel the state of this session's arenas, laid out for it."""
        if table.generation == self._launcher.worker_generation:
            return
        states = self._launcher.worker_states([prepared for prepared in table.prepared if prepared is not None])
        table.workers = list(states.values())
        for operation, prepared in zip(table.operations, table.prepared, strict=True):
            if prepared is not None:
                operation.worker = ctypes.addressof(states[prepared.arenas])
        table.generation = self._launcher.worker_generation


def _address(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
