"""The control plane of one session: what the plane's replay asks for.

The plane (farlane.backend.plane) walks over a session's records and does the hot ones by itself. Everything else
comes here: decoding what an operation says, calling its handler, and what its exceptions mean. Does not own the
meaning of any operation (handlers/), how a device repeats a loop (loops/), nor what a loop stands for, results,
deferred and sticky errors (the plane's).

Source: protos/tape.md; docs/explanation/systems.md, S1 point 8.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from farlane.backend.device.plan import Results
from farlane.backend.errors import name_of, to_cuda
from farlane.backend.handlers.binding import TABLE
from farlane.backend.handlers.launch import Prepared
from farlane.backend.handlers.loop import Conditional
from farlane.backend.loops import plans
from farlane.backend.loops.plan import Path, Plan
from farlane.backend.objects.resources import Resources
from farlane.backend.plane import Columns, Entry

if TYPE_CHECKING:
    from farlane.backend.plane import PlainTemplate

log = logging.getLogger("farlane.replay")

_LAUNCH, _FUNCTION_OPEN = (
    next(operation for operation in TABLE.values() if operation.name == name) for name in ("LAUNCH", "FUNCTION_OPEN")
)


class Control:
    """What a `Replay` of the plane calls, on the session's thread. Exceptions are results, or end the session (`explain`)."""

    def __init__(self, name: str, resources: Resources, opened: Callable[[int, bytes], None] | None = None) -> None:
        """`opened` gets the handle and the name of each kernel that the guest opens."""
        self.name = name
        self._opened = opened
        self.looks_ahead = resources.context.looks_ahead
        self._resources = resources
        self._context = resources.context
        self.prices = (plans.BY_PLANE, plans.BY_PYTHON)

    def operate(self, code: int, flags: int, record: bytes) -> Any:
        """Replays a record that obeys the table.

        Returns:
            None, a cudaError_t or a value, as the operation's result is; of a READ its `Reading`, of a LAUNCH (which is
            done) what the next ones like it go by, of a CONDITIONAL its `Conditional`.
        """
        operation = TABLE[code]
        arguments = operation.decode(record)
        if operation is _LAUNCH:
            *fields, parameters = arguments
            prepared = _LAUNCH.handler(self._resources, flags, *fields)
            begin = _LAUNCH.fixed
            function, shape, stream = prepared
            self._context.launch_from(function, shape, memoryview(record), begin, begin + len(parameters), stream)
            return prepared
        if operation is _FUNCTION_OPEN and self._opened is not None:
            self._opened(arguments[0], bytes(arguments[-1]))
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

    def plan(self, template: PlainTemplate, constants: Mapping[int, int]) -> tuple[Plan, Sequence[Path], bool] | None:
        """How the device can repeat a template, with these constants in some of its holes (loops/plans.py)."""
        return plans.make(self._resources, template, constants)

    def repeat(
        self, plan: Plan, columns: Columns, first: int, left: int, fresh: bool
    ) -> tuple[plans.Stop, Results] | None:
        """Has the device do some iterations of a REPEAT (loops/plans.py)."""
        return plans.repeat(self._context, plan, columns, first, left, fresh)

    def choose(self, conditional: Conditional) -> int | None:
        """The template that the condition chooses now. None: there is nothing to do."""
        pieces = self._context.read(conditional.condition, conditional.stream)
        return conditional.chosen(int.from_bytes(b"".join(map(bytes, pieces)), "little"))

    def expect(self, launches: Sequence[bytes]) -> None:
        """The parameters of launches that come next: tells the device."""
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
