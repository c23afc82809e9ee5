"""The device runtime of one session: what kernels ask of it while they run.

Owns the answers to the requests of compiled kernels (jit/runtime/services.py): printing, assertions, and (heap.py) dynamic memory; what they launch is
nested.py's, what they ask about the device queries.py's. Printed text waits here until the replay takes it along with a reply.

Locking: kernels that print, allocate or launch run on one thread, failing assertions may come from several; one lock for all of it, which nothing
else is taken under.

Source: CUDA programming guide, "Formatted Output", "Assertion", "Dynamic Global Memory Allocation and Operations".
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping

from farlane.backend.device.base import CudaError
from farlane.backend.device.compilations import Compilations
from farlane.backend.device.sim.memory.memory import Memory, Part
from farlane.backend.device.sim.observers.checking import HEAP
from farlane.backend.device.sim.observers.observer import Observers
from farlane.backend.device.sim.runtime import formats
from farlane.backend.device.sim.runtime.heap import Heap
from farlane.backend.device.sim.runtime.nested import Nested
from farlane.backend.device.sim.runtime.output import DEFAULT_LIMIT, Output
from farlane.backend.device.sim.runtime.queries import PENDING_LAUNCH_COUNT, Queries
from farlane.backend.generated_errors import INVALID_VALUE, MEMORY_ALLOCATION, SUCCESS
from farlane.backend.jit import WORKSPACE_BYTES, Call, FaultKind, ServiceFault, ServiceKind
from farlane.backend.jit.runtime import services

_NO_FORMAT = -1
_MAX_NAME = 4096  # of the texts of an assertion
_MAX_STRING = 1 << 20  # of a %s

STACK_SIZE, PRINTF_FIFO_SIZE, MALLOC_HEAP_SIZE = 0, 1, 2  # cudaLimit
DEFAULT_HEAP = 8 << 20
_QUERIES = frozenset(
    (
        ServiceKind.ERROR_STRING,
        ServiceKind.ERROR_NAME,
        ServiceKind.DEVICE_COUNT,
        ServiceKind.DEVICE,
        ServiceKind.ATTRIBUTE,
        ServiceKind.LIMIT,
    )
)

_log = logging.getLogger(__name__)


def _no_text(address: int) -> bytes:
    raise AssertionError("a format without arguments asks for a string")


class Runtime:
    """Answers a session's requests."""

    def __init__(
        self,
        memory: Memory,
        observers: Observers,
        attributes: Mapping[int, int] | None = None,
        speak: Callable[[], None] = lambda: None,
    ) -> None:
        """`speak` is called when there is output to be taken."""
        self.compilations = Compilations()
        self._memory = memory
        self._speak = speak
        self._observers = observers
        self.nested = Nested(memory, observers)
        self._queries = Queries(memory, self.nested, attributes or {})
        self._heap: Heap | None = None
        self._heap_limit = DEFAULT_HEAP
        self._workspace = 0
        self._lock = threading.Lock()
        self._printed, self._asserted = Output(), Output()
        self._callback = services.callback(self._serve, memory.page_fault)
        #: For Launch.services.
        self.services = services.address_of(self._callback)

    def set_limit(self, limit: int, value: int) -> None:
        """cudaDeviceSetLimit, for the limits that are the runtime's."""
        if limit == PRINTF_FIFO_SIZE:
            with self._lock:
                self._printed.set_limit(value)
        elif limit == MALLOC_HEAP_SIZE:
            if self._heap is not None and value != self._heap.size:
                raise CudaError(
                    INVALID_VALUE, "the device heap is in use: its size is set before the first kernel that uses it"
                )
            self._heap_limit = value
        elif limit == PENDING_LAUNCH_COUNT:
            self.nested.pending_limit = value
        self._queries.set_limit(limit, value)

    @property
    def heap(self) -> Heap | None:
        """None: no kernel has used it yet."""
        return self._heap

    @property
    def workspace_address(self) -> int:
        """0: no cooperative launch has needed one yet."""
        return self._workspace

    def limits(self) -> dict[int, int]:
        return self._queries.limits()

    def restore(self, heap: Heap | None, workspace: int) -> None:
        """What a session of another host had, whose memory is there already."""
        self._heap, self._workspace = heap, workspace

    def reset(self) -> None:
        """cudaDeviceReset: limits as at the start; what was printed stays until it is taken. The memory has been given back."""
        with self._lock:
            self._heap, self._heap_limit, self._workspace = None, DEFAULT_HEAP, 0
            self._printed.set_limit(DEFAULT_LIMIT)
            self.nested.reset()
            self._queries.reset()

    def take_output(self) -> tuple[bytes, bytes]:
        """What kernels have printed since the last call, for the guest's standard output and standard error."""
        with self._lock:
            return self._printed.take(), self._asserted.take()

    def complain(self, text: bytes) -> None:
        """Text for the guest's standard error that no kernel has printed."""
        with self._lock:
            self._asserted.add(None, text)
            self._speak()

    def _serve(self, call: Call) -> None:
        with self._lock:
            if call.kind in (ServiceKind.PRINT, ServiceKind.ASSERT):
                (self._print if call.kind is ServiceKind.PRINT else self._assert)(call)
                self._speak()
            elif call.kind is ServiceKind.FREE:
                self._free(call)
            elif call.kind in (ServiceKind.ALLOCATE, ServiceKind.ALLOCATE_ALIGNED):
                self._allocate(call)
            elif call.kind is ServiceKind.DEVICE_MALLOC:
                self._device_malloc(call)
            elif call.kind is ServiceKind.DEVICE_FREE:
                self._device_free(call)
            elif call.kind in _QUERIES:
                self._queries.serve(call)
            else:
                self.nested.serve(call)

    # printf -----------------------------------------------------------------------------------------------------
    def _print(self, call: Call) -> None:
        launch = call.launch.grid_id
        known: dict[int, formats.Format] = {}
        for lane in call.lanes():
            address = call.argument(0, lane)
            if not address:
                call.answer(lane, _NO_FORMAT)
                continue
            form = known.get(address)
            if form is None:
                form = known[address] = formats.parse(call.text(address, formats.MAX_FORMAT, lane))
            if form.arity:
                arguments = call.read(call.argument(1, lane), form.size, lane)
                text = formats.render(form, arguments, functools.partial(call.text, limit=_MAX_STRING, lane=lane))
            else:
                text = formats.render(form, b"", _no_text)
            self._printed.add(launch, text)
            call.answer(lane, form.arity)

    # malloc and free --------------------------------------------------------------------------------------------
    def _allocate(self, call: Call) -> None:
        for lane in call.lanes():
            alignment = call.argument(1, lane) if call.kind is ServiceKind.ALLOCATE_ALIGNED else 0
            call.answer(lane, self._block(call.argument(0, lane), alignment))

    def _block(self, size: int, alignment: int = 0) -> int:
        """The address of a new block of the heap, or 0."""
        heap = self._heap or self._make_heap()
        address = heap.allocate(size, alignment) if alignment & (alignment - 1) == 0 else 0
        if address:
            self._observers.heap_allocated(address, size)
        return address

    def _free(self, call: Call) -> None:
        for lane in call.lanes():
            address = call.argument(0, lane)
            if address and not self._end_block(call, address):
                raise ServiceFault(FaultKind.INVALID_FREE, lane, address)

    def _end_block(self, call: Call, address: int) -> bool:
        """False when no block of the heap starts there."""
        if self._heap is None or not self._heap.free(address):
            return False
        self._observers.heap_freed(address)
        if self._observers.findings is not None:
            call.forget_latches()
        return True

    def _device_malloc(self, call: Call) -> None:
        for lane in call.lanes():
            size = call.argument(1, lane)
            address = self._block(size) if size else 0
            if size and not address:
                self.nested.fail(call, lane, MEMORY_ALLOCATION)
            else:
                self.nested.give(call, lane, "Q", address)

    def _device_free(self, call: Call) -> None:
        for lane in call.lanes():
            address = call.argument(0, lane)
            good = not address or self._end_block(call, address)
            self.nested.fail(call, lane, SUCCESS if good else INVALID_VALUE)

    def _make_heap(self) -> Heap:
        """At the first request: a session whose kernels allocate nothing has none. Without room it is empty."""
        size = self._heap_limit
        try:
            base = self._memory.allocate_module(size, [Part(0, size, HEAP)]) if size else 0
        except CudaError as error:
            _log.warning("no room for a device heap of %d bytes: %s", size, error.message)
            base = size = 0
        self._heap = Heap(base, size)
        return self._heap

    # Cooperative launches ---------------------------------------------------------------------------------------
    def workspace(self) -> int:
        """The device memory in which the blocks of a cooperative launch meet. Raises CudaError 2."""
        if not self._workspace:
            self._workspace = self._memory.allocate_module(
                WORKSPACE_BYTES, [Part(0, WORKSPACE_BYTES, "grid synchronization")]
            )
        return self._workspace

    # assert -----------------------------------------------------------------------------------------------------
    def _assert(self, call: Call) -> None:
        """One line for each thread, then the end of the launch."""
        launch = call.launch.grid_id
        first = None
        for lane in call.lanes():
            first = lane if first is None else first
            message, file, function = (self._name(call, call.argument(number, lane), lane) for number in (0, 1, 3))
            line = call.argument(2, lane)
            block, thread = (b"[%d,%d,%d]" % place for place in (call.block, call.thread(lane)))
            text = b"%s:%d: %s: block: %s, thread: %s Assertion `%s` failed.\n"
            self._asserted.add(launch, text % (file, line, function, block, thread, message))
        if first is not None:
            raise ServiceFault(FaultKind.ASSERT, first)

    @staticmethod
    def _name(call: Call, address: int, lane: int) -> bytes:
        if not address:
            return b"(null)"
        try:
            return call.text(address, _MAX_NAME, lane)
        except ServiceFault:
            return b"(unreadable)"  # the assertion has failed all the same
