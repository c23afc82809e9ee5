"""Dynamic parallelism: what kernels do with grids, streams and events of their own.

Owns the grids, copies and sets that the running grid has launched, their parameter buffers (in device memory), the streams and events that kernels
made, and each thread's last error. Running a grid is the launcher's (launches.py): it says here when one begins, and asks for what is to run
after it.

Order: a grid's work runs when the grid has ended, in the order in which its threads asked for it, which is the same on every run since such kernels run on
one thread. Each grid is followed by its own work before the next one begins; what was launched into the tail stream comes after the rest. So a
grid and all below it are complete before whatever waits for it. CUDA promises no more: a child may start at any time after its launch,
and its parent cannot wait for it. Streams and events ask for less than this order gives; they are only checked.

One thread at a time, under the runtime's lock while a kernel runs.

Source: CUDA programming guide, "CUDA Dynamic Parallelism" (the version of CUDA 12 and later: no synchronization in kernels).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from farlane.backend.device.base import CudaError, LaunchShape, Rows
from farlane.backend.device.sim.memory.memory import Memory
from farlane.backend.device.sim.observers.observer import Observers
from farlane.backend.device.sim.runtime import transfers
from farlane.backend.device.sim.runtime.modules import SimFunction, SimModule
from farlane.backend.device.sim.runtime.parameter_buffers import ParameterBuffers
from farlane.backend.device.sim.runtime.transfers import Transfer
from farlane.backend.generated_errors import (
    INVALID_DEVICE_FUNCTION,
    INVALID_RESOURCE_HANDLE,
    INVALID_VALUE,
    LAUNCH_MAX_DEPTH_EXCEEDED,
    LAUNCH_PENDING_COUNT_EXCEEDED,
    MEMORY_ALLOCATION,
    SUCCESS,
)
from farlane.backend.jit import Call, ServiceKind

DEFAULT_PENDING = 2048  # cudaLimitDevRuntimePendingLaunchCount
MAX_DEPTH = 24  # grids below the one that the host launched
MAX_HANDLES = 1 << 16  # streams and events of one grid of the host's and all below it
MAX_CHECKED = 4096
_TAIL_STREAM, _FIRE_AND_FORGET = 3, 4  # cudaStreamTailLaunch, cudaStreamFireAndForget
_NAMED = (0, 1, 2, _TAIL_STREAM, _FIRE_AND_FORGET)  # streams that are always there
_NON_BLOCKING = 1  # cudaStreamNonBlocking, the only kind that kernels can make
_DISABLE_TIMING = 2  # cudaEventDisableTiming, the only kind of events
_DIM3 = struct.Struct("<III")

Thread = tuple[tuple[int, int, int], tuple[int, int, int]]


class Grid(NamedTuple):
    """A launch of a kernel's."""

    function: SimFunction
    shape: LaunchShape
    parameters: bytes
    depth: int


class _Buffer(NamedTuple):
    """A parameter buffer that was handed out; the launch is known where it was asked for together with the buffer."""

    size: int
    function: SimFunction | None = None
    shape: LaunchShape | None = None


#: Raises CudaError when a launch is impossible.
Check = Callable[[SimFunction, LaunchShape], None]
Run = Callable[[Grid], None]


class Nested:
    """What one session's kernels have launched."""

    def __init__(self, memory: Memory, observers: Observers) -> None:
        self._memory = memory
        self.observers = observers
        self.pending_limit = DEFAULT_PENDING
        self._room = ParameterBuffers(memory)
        self._buffers: dict[int, _Buffer] = {}
        #: Launches that passed the checks, as a kernel asked for them: programs ask for the same ones again and again.
        self._checked: dict[tuple[SimModule, int, bytes, bytes, int], tuple[SimFunction, LaunchShape]] = {}
        self._function: SimFunction | None = None  # the grid that runs
        self._check: Check | None = None
        self._depth = 0
        self._children: deque[Grid | Transfer] = deque()
        self._tails: deque[Grid | Transfer] = deque()
        self._pending = 0
        self._streams: set[int] = set()
        self._events: set[int] = set()
        self._minted = _FIRE_AND_FORGET
        self._errors: dict[Thread, int] = {}

    # For the launcher -------------------------------------------------------------------------------------------
    def begin(self, function: SimFunction, check: Check, depth: int = 0) -> None:
        """A grid that may launch others runs next, at this depth below the host's."""
        self._function, self._check, self._depth = function, check, depth
        self._errors.clear()

    def finish(self, run: Run) -> None:
        """The grid has ended: runs what it has launched, and what that launches. Raises what `run` does; nothing is left then.

        Args:
            run: runs one grid, having called `begin`.
        """
        try:
            stack = [self._taken()]
            while stack:
                work = stack[-1].popleft() if stack[-1] else None
                if not stack[-1]:
                    stack.pop()  # so that a chain of tail launches needs no room
                if work is None:
                    continue
                self._pending -= 1
                if isinstance(work, Transfer):
                    transfers.do(work, self._memory, self.observers)
                else:
                    run(work)
                    stack.append(self._taken())
        finally:
            self.clear()

    def clear(self) -> None:
        """Forgets what was launched: all of it has run, or none of it will."""
        for address, buffer in self._buffers.items():
            self._room.give(address, buffer.size)
        self._buffers.clear()
        self._checked.clear()
        self._children.clear()
        self._tails.clear()
        self._streams.clear()
        self._events.clear()
        self._errors.clear()
        self._pending, self._minted = 0, _FIRE_AND_FORGET
        self._function = self._check = None

    def reset(self) -> None:
        """The session's memory has been given back."""
        self._room.forget()
        self._buffers.clear()
        self.pending_limit = DEFAULT_PENDING

    def _taken(self) -> deque[Grid | Transfer]:
        work, self._children = self._children, deque()
        work.extend(self._tails)
        self._tails.clear()
        return work

    # For kernels ------------------------------------------------------------------------------------------------
    def serve(self, call: Call) -> None:
        """Answers a request of the running grid. Raises ServiceFault."""
        act = _ACTIONS[call.kind]
        for lane in call.lanes():
            act(self, call, lane)

    def _thread(self, call: Call, lane: int) -> Thread:
        return call.block, call.thread(lane)

    def fail(self, call: Call, lane: int, code: int) -> None:
        """Answers with an error, which is the thread's last one if it is one."""
        if code:
            self._errors[self._thread(call, lane)] = code
        call.answer(lane, code)

    def give(self, call: Call, lane: int, form: str, value: int) -> None:
        """Stores a result where the first argument points to, and answers with success. Raises ServiceFault."""
        address, data = call.argument(0, lane), struct.pack("<" + form, value)
        call.write(address, data, lane)
        window = self._memory.window
        if window.base <= address < window.end:
            self.observers.written(Rows(address, len(data), len(data), 1), by_kernel=True)
        call.answer(lane, SUCCESS)

    def _peek_error(self, call: Call, lane: int) -> None:
        call.answer(lane, self._errors.get(self._thread(call, lane), SUCCESS))

    def _last_error(self, call: Call, lane: int) -> None:
        call.answer(lane, self._errors.pop(self._thread(call, lane), SUCCESS))

    # Launches ---------------------------------------------------------------------------------------------------
    def _parameter_buffer(self, call: Call, lane: int) -> None:
        alignment, size = call.argument(0, lane), call.argument(1, lane)
        self._hand_out(call, lane, size, alignment, None, None)

    def _parameter_buffer_v2(self, call: Call, lane: int) -> None:
        try:
            function, shape = self._launch_of(call, lane, 0, 1, 3)
        except CudaError as error:
            self.fail(call, lane, error.code)
            call.answer(lane, 0)
            return
        self._hand_out(call, lane, function.entry.parameter_bytes, 0, function, shape)

    def _hand_out(
        self, call: Call, lane: int, size: int, alignment: int, function: SimFunction | None, shape: LaunchShape | None
    ) -> None:
        address = self._room.take(size, alignment, self.observers)
        if address:
            self._buffers[address] = _Buffer(size, function, shape)
        else:
            self.fail(call, lane, MEMORY_ALLOCATION)
        call.answer(lane, address)

    def _launch_of(
        self, call: Call, lane: int, function: int, grid: int, shared: int
    ) -> tuple[SimFunction, LaunchShape]:
        """What is to be launched, from the arguments of these numbers (the block comes behind the grid). Raises CudaError."""
        assert self._function is not None
        assert self._check is not None
        module, number = self._function.module, call.argument(function, lane)
        grids, blocks = (call.read(call.argument(grid + each, lane), _DIM3.size, lane) for each in (0, 1))
        bytes_of_shared = call.argument(shared, lane) & 0xFFFF_FFFF
        asked = (module, number, grids, blocks, bytes_of_shared)
        known = self._checked.get(asked)
        if known is None:
            name = module.parsed.function_at(number)
            if name is None or name not in module.parsed.entries:
                raise CudaError(INVALID_DEVICE_FUNCTION, "a kernel launches what is no kernel of its module")
            known = module.function(name), LaunchShape(_DIM3.unpack(grids), _DIM3.unpack(blocks), bytes_of_shared)
            self._check(*known)
            if len(self._checked) < MAX_CHECKED:
                self._checked[asked] = known
        return known

    def _launch(self, call: Call, lane: int) -> None:
        try:
            function, shape = self._launch_of(call, lane, 0, 2, 4)
        except CudaError as error:
            self.fail(call, lane, error.code)
            return
        size = function.entry.parameter_bytes
        buffer = self._buffers.get(call.argument(1, lane))
        if size and (buffer is None or buffer.function is not None or buffer.size < size):
            self.fail(call, lane, INVALID_VALUE)
            return
        self._enqueue_grid(call, lane, call.argument(1, lane), function, shape, call.argument(5, lane))

    def _launch_v2(self, call: Call, lane: int) -> None:
        address = call.argument(0, lane)
        buffer = self._buffers.get(address)
        if buffer is None or buffer.function is None or buffer.shape is None:
            self.fail(call, lane, INVALID_VALUE)
            return
        self._enqueue_grid(call, lane, address, buffer.function, buffer.shape, call.argument(1, lane))

    def _enqueue_grid(
        self, call: Call, lane: int, address: int, function: SimFunction, shape: LaunchShape, stream: int
    ) -> None:
        """The parameters are what the buffer holds now; it is used up."""
        size = function.entry.parameter_bytes
        parameters = call.read(address, size, lane) if size else b""
        if (buffer := self._buffers.pop(address, None)) is not None:
            self._room.give(address, buffer.size)
        depth = self._depth + (stream != _TAIL_STREAM)  # a tail takes the place of the grid that launched it
        if depth > MAX_DEPTH:
            self.fail(call, lane, LAUNCH_MAX_DEPTH_EXCEEDED)
        else:
            self._enqueue(call, lane, Grid(function, shape, parameters, depth), stream)

    def _enqueue(self, call: Call, lane: int, work: Grid | Transfer, stream: int) -> None:
        if stream not in _NAMED and stream not in self._streams:
            self.fail(call, lane, INVALID_RESOURCE_HANDLE)
        elif self._pending >= self.pending_limit:
            self.fail(call, lane, LAUNCH_PENDING_COUNT_EXCEEDED)
        else:
            (self._tails if stream == _TAIL_STREAM else self._children).append(work)
            self._pending += 1
            call.answer(lane, SUCCESS)

    # Copies -----------------------------------------------------------------------------------------------------
    def _transfer(self, call: Call, lane: int) -> None:
        try:
            transfer, stream = transfers.asked(call, lane)
        except CudaError as error:
            self.fail(call, lane, error.code)
            return
        if transfer.destinations:
            self._enqueue(call, lane, transfer, stream)
        else:
            call.answer(lane, SUCCESS)

    # Streams and events -----------------------------------------------------------------------------------------
    def _create(self, call: Call, lane: int, handles: set[int], flags: int) -> None:
        if call.argument(1, lane) != flags:
            self.fail(call, lane, INVALID_VALUE)
        elif len(handles) >= MAX_HANDLES:
            self.fail(call, lane, MEMORY_ALLOCATION)
        else:
            self._minted += 1
            handles.add(self._minted)
            self.give(call, lane, "Q", self._minted)

    def _create_stream(self, call: Call, lane: int) -> None:
        self._create(call, lane, self._streams, _NON_BLOCKING)

    def _create_event(self, call: Call, lane: int) -> None:
        self._create(call, lane, self._events, _DISABLE_TIMING)

    def _destroy(self, call: Call, lane: int, handles: set[int]) -> None:
        handle = call.argument(0, lane)
        if handle in handles:
            handles.remove(handle)
            call.answer(lane, SUCCESS)
        else:
            self.fail(call, lane, INVALID_RESOURCE_HANDLE)

    def _destroy_stream(self, call: Call, lane: int) -> None:
        self._destroy(call, lane, self._streams)

    def _destroy_event(self, call: Call, lane: int) -> None:
        self._destroy(call, lane, self._events)

    def _known(self, call: Call, lane: int, stream: int, event: int) -> None:
        """Everything runs in the order of the calls: a record marks what is in order already, and a wait has nothing to wait for."""
        known = (stream in _NAMED or stream in self._streams) and event in self._events
        self.fail(call, lane, SUCCESS if known else INVALID_RESOURCE_HANDLE)

    def _wait(self, call: Call, lane: int) -> None:
        self._known(call, lane, call.argument(0, lane), call.argument(1, lane))

    def _record(self, call: Call, lane: int) -> None:
        self._known(call, lane, call.argument(1, lane), call.argument(0, lane))


_ACTIONS: dict[ServiceKind, Callable[[Nested, Call, int], None]] = {
    ServiceKind.PARAMETER_BUFFER: Nested._parameter_buffer,
    ServiceKind.PARAMETER_BUFFER_V2: Nested._parameter_buffer_v2,
    ServiceKind.LAUNCH: Nested._launch,
    ServiceKind.LAUNCH_V2: Nested._launch_v2,
    ServiceKind.LAST_ERROR: Nested._last_error,
    ServiceKind.PEEK_ERROR: Nested._peek_error,
    ServiceKind.COPY: Nested._transfer,
    ServiceKind.SET: Nested._transfer,
    ServiceKind.COPY_2D: Nested._transfer,
    ServiceKind.SET_2D: Nested._transfer,
    ServiceKind.COPY_3D: Nested._transfer,
    ServiceKind.SET_3D: Nested._transfer,
    ServiceKind.STREAM_CREATE: Nested._create_stream,
    ServiceKind.STREAM_DESTROY: Nested._destroy_stream,
    ServiceKind.STREAM_WAIT: Nested._wait,
    ServiceKind.EVENT_CREATE: Nested._create_event,
    ServiceKind.EVENT_RECORD: Nested._record,
    ServiceKind.EVENT_RECORD_WITH_FLAGS: Nested._record,
    ServiceKind.EVENT_DESTROY: Nested._destroy_event,
}
