"""The device runtime of one session: what kernels ask of it while they run.

Owns the answers to the requests of compiled kernels (jit/services.py): printing, assertions, and (heap.py) dynamic memory. Printed text waits
here until the replay takes it along with a reply.

Locking: kernels that print or allocate run on one thread, failing assertions may come from several; one lock for all of it, which nothing
else is taken under.

Source: CUDA programming guide, "Formatted Output", "Assertion", "Dynamic Global Memory Allocation and Operations".
"""

from __future__ import annotations

import functools
import threading

from farlane.backend.device.sim import formats
from farlane.backend.device.sim.output import DEFAULT_LIMIT, Output
from farlane.backend.jit import Call, FaultKind, ServiceFault, ServiceKind, services

_INTERNAL_ERROR = -2
_NO_FORMAT = -1
_MAX_NAME = 4096  # of the texts of an assertion
_MAX_STRING = 1 << 20  # of a %s

STACK_SIZE, PRINTF_FIFO_SIZE = 0, 1  # cudaLimit


def _no_text(address: int) -> bytes:
    raise AssertionError("a format without arguments asks for a string")


class Runtime:
    """Answers a session's requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._printed, self._asserted = Output(), Output()
        self._callback = services.callback(self._serve)
        #: For Launch.services.
        self.services = services.address_of(self._callback)

    def set_limit(self, limit: int, value: int) -> None:
        """cudaDeviceSetLimit, for the limits that are the runtime's."""
        if limit == PRINTF_FIFO_SIZE:
            with self._lock:
                self._printed.set_limit(value)

    def reset(self) -> None:
        """cudaDeviceReset: limits as at the start; what was printed stays until it is taken."""
        with self._lock:
            self._printed.set_limit(DEFAULT_LIMIT)

    def take_output(self) -> tuple[bytes, bytes]:
        """What kernels have printed since the last call, for the guest's standard output and standard error."""
        with self._lock:
            return self._printed.take(), self._asserted.take()

    def _serve(self, call: Call) -> None:
        with self._lock:
            if call.kind is ServiceKind.PRINT:
                self._print(call)
            elif call.kind is ServiceKind.ASSERT:
                self._assert(call)
            else:
                raise ServiceFault(FaultKind.ILLEGAL_INSTRUCTION, next(call.lanes(), 0))

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
