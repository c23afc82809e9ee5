"""The control plane of one session: what the plane's replay asks for.

The plane (farlane.backend.plane) walks over a session's records and does the hot ones by itself. Everything else comes here: decoding what
an operation says, calling its handler, and what its exceptions mean. Does not own the meaning of any operation (handlers/), what a loop
stands for (loops/steps.py), nor results, deferred and sticky errors (the plane's).

Source: protos/tape.md; mission.md S1 point 8.
"""

from __future__ import annotations

import logging
from typing import Any

from farlane.backend.errors import name_of, to_cuda
from farlane.backend.handlers.binding import TABLE
from farlane.backend.handlers.generated_operations import OPERATIONS
from farlane.backend.handlers.launch import Prepared
from farlane.backend.loops import upcoming
from farlane.backend.loops.steps import Steps
from farlane.backend.objects.resources import Resources
from farlane.backend.plane import Entry, Moment, Stream

log = logging.getLogger("farlane.replay")

_NAMED = {operation.name: operation for operation in TABLE.values()}
_LAUNCH, _REPEAT, _CONDITIONAL = _NAMED["LAUNCH"], _NAMED["REPEAT"], _NAMED["CONDITIONAL"]
# Operations after which every object that a plan holds is still there, and every launch still passes its checks; and those that
# only add to what plans may be made of.
_LASTING = frozenset(code for code, row in OPERATIONS.items() if row.plans == "keeps")
_MAKING = frozenset(code for code, row in OPERATIONS.items() if row.plans == "adds")


class Control:
    """What a `Replay` of the plane calls, on the session's thread. Exceptions are results, or end the session (`explain`)."""

    def __init__(self, name: str, resources: Resources) -> None:
        self.name = name
        self.looks_ahead = resources.context.looks_ahead
        self._resources = resources
        self._context = resources.context
        self._steps = Steps(resources)

    def operate(self, code: int, flags: int, record: bytes, inside: bool) -> Any:
        """Replays a record that obeys the table.

        Args:
            inside: it is of a loop's body.

        Returns:
            None, a cudaError_t or a value, as the operation's result is; of a READ its `Reading`, of a LAUNCH (which is done) what the next
            ones like it go by, of a REPEAT or CONDITIONAL what it stands for.
        """
        operation = TABLE[code]
        view = memoryview(record)
        arguments = operation.decode(record, view, 0, len(record), flags)
        if operation is _LAUNCH:
            *fields, parameters = arguments
            prepared = _LAUNCH.handler(self._resources, flags, *fields)
            begin = _LAUNCH.fixed
            function, shape, stream = prepared
            self._context.launch_from(function, shape, view, begin, begin + len(parameters), stream)
            return prepared
        if operation is _REPEAT:
            return self._steps.repeat(flags, arguments, inside)
        if operation is _CONDITIONAL:
            return self._steps.conditional(operation.handler(self._resources, *arguments))
        if code in _MAKING:
            self._steps.made(operation.name, arguments)
        elif code not in _LASTING:
            self._resources.plans.clear()
        if operation.flagged:
            arguments = (flags, *arguments)
        return operation.handler(self._resources, *arguments)

    def launch(self, prepared: Prepared, record: bytes, begin: int, end: int) -> Entry | None:
        """Launches again, with the parameters record[begin:end]. What can be launched without us from now on is laid out."""
        function, shape, stream = prepared
        self._context.launch_from(function, shape, memoryview(record), begin, end, stream)
        return self._context.lay_out(function, shape, end - begin, stream)

    def failure(self, laid_out: Any) -> None:
        """Raises why a launch that was laid out did not come to its end."""
        raise self._context.failure(laid_out)

    def fault(self, code: int, call: str) -> None:
        """Raises what it is for the guest that a call of the device's driver has failed."""
        raise self._context.fault(code, call)

    def account(self, laid_out: Any, nanoseconds: int) -> None:
        """The kernel of a launch that was laid out has run for so long."""
        self._context.account(laid_out, nanoseconds)

    def stream(self, number: int) -> Stream | None:
        """The stream as the plane works on it. Raises CudaError: there is none."""
        return self._context.plane_stream(self._resources.streams.get(number))

    def event(self, number: int) -> Moment:
        """The event, of a context for which the plane records events by itself. Raises CudaError: there is none."""
        moment: Moment = self._resources.events.get(number).moment
        return moment

    def look_ahead(self, records: bytes) -> None:
        """These come next, as far as they are known: tells the device."""
        launches = upcoming.of_message(records, 0, len(records))
        if launches and not self._steps.expected:
            self._context.expect(launches)

    def end_group(self) -> tuple[bytes, bytes, int]:
        """What kernels have printed and complained about, and for how many nanoseconds the device has worked, the plane's share apart."""
        return *self._context.take_output(), self._context.device_nanoseconds

    def explain(self, error: Exception, operation: str) -> tuple[int, str, bool]:
        """The CUDA result that an exception is: its code, its message, whether it is sticky. Raises what ends the session."""
        result = to_cuda(error, f"session {self.name}: {operation}")
        return result.code, result.message, result.sticky

    def note(self, operation: str, code: int, message: str, lost: bool) -> None:
        """An operation has failed. Its error is sticky (lost), or deferred: a later result reports it."""
        if lost:
            log.warning(
                "session %s: %s: %s (%s): the session is lost", self.name, operation, message, name_of(code)
            )  # fmt: skip
        else:
            log.info("session %s: %s: %s (%s)", self.name, operation, message, name_of(code))
