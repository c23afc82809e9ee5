"""What a REPEAT or CONDITIONAL stands for, one step after the other.

Owns the choice between the two ways to do a loop: hand some iterations to the device, which does them by itself (`Context.repeat`), or
give the plane the records that they stand for, some iterations at a time, which it replays as if they had been sent. What of a device a
plan needs is plan.py's, how many iterations go at once pace.py's.

A step is what the plane takes: bytes are records to replay, an array is result records, a tuple a record that has failed, with its error.

Source: protos/tape.md, "Loops" and "Conditions"; mission.md S1 points 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from farlane.backend.device.base import CudaError
from farlane.backend.errors import DeadTransport, ProtocolError
from farlane.backend.handlers.binding import TABLE
from farlane.backend.handlers.loop import Conditional
from farlane.backend.loops import upcoming
from farlane.backend.loops.columns import Columns
from farlane.backend.loops.plan import Path, Plan
from farlane.backend.loops.plans import Plans, worth
from farlane.backend.loops.store import Repetition
from farlane.backend.loops.template import MAX_LEVELS, REPEAT, Template
from farlane.backend.objects.resources import Resources

Step = bytes | npt.NDArray[np.uint8] | tuple[bytes, int, str, bool]

_BLOCK = 256  # iterations whose values are at hand at once ...
_BLOCK_VALUES = 1 << 16  # ... and values, at most
_TOGETHER, _TOGETHER_BYTES = 32, 16 << 10  # iterations, of so many bytes, that are replayed as if they had been sent
_REPEAT = TABLE[REPEAT]


class Steps:
    """The loops of one session. A step is done before the next one is asked for."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._standing = resources.standing
        self.expected = False  # an outer loop has looked ahead
        self._declined: set[int] = set()  # templates that could not be planned as things were
        self._conditions = 0  # CONDITIONALs within each other that are being replayed

    def repeat(self, flags: int, arguments: tuple[Any, ...], inside: bool) -> Iterator[Step]:
        """What a REPEAT stands for. Raises ProtocolError."""
        repetition: Repetition = (
            self._resources.templates.inner(*arguments)
            if inside
            else _REPEAT.handler(self._resources, flags, *arguments)
        )
        return self._repeat(repetition)

    def made(self, operation: str, arguments: tuple[Any, ...]) -> None:
        """Something is about to be made: what could not be planned is looked at again, and so is a template that is given anew."""
        plans = self._resources.plans
        if operation == "TEMPLATE":
            plans.pop(arguments[0], None)  # no other template contains it: it could not be given anew
            return
        while self._declined:
            known = plans.get(self._declined.pop())
            if known is not None:
                known.look_again()

    def _repeat(self, repetition: Repetition) -> Iterator[Step]:
        template, columns, at, count = repetition
        context, standing = self._resources.context, self._standing
        end = at + count
        planned = self._plan(template, columns, count)
        if planned is not None:
            planned.pace.begin()
        block = max(1, min(_BLOCK, _BLOCK_VALUES // max(1, len(template.holes))))
        while at < end:
            if planned is not None and self._clear_for(planned):
                self._check_interrupted()
                size = planned.pace.start(end - at)
                matrix = planned.columns(columns, at, size)
                results = planned.results(matrix)
                stop = context.repeat(planned.body, matrix, results)
                if stop is None:
                    planned.declined = True
                    planned = None
                    continue
                at += stop.iterations
                ended = planned.body.steps[stop.step - 1].result_end if stop.step else 0
                done = results.reshape(-1)[: stop.iterations * results.shape[1] + ended]
                if len(done):
                    yield done
                if stop.iterations < size:
                    body = template.fill(columns.rows(at, 1), 0)
                    yield from self._resume(template, body, planned.paths[stop.step], stop.error)
                    at += 1
                if not planned.pace.done(stop.iterations, size):
                    planned = None
                continue
            size = 1 if planned is not None else min(block, end - at)
            looked = context.looks_ahead and not self.expected
            if looked:
                size = min(size, self._look_into(template, columns, at, end))
            rows = columns.rows(at, size)
            together = max(1, min(_TOGETHER, _TOGETHER_BYTES // len(template.body)))
            for first in range(0, size, together):
                self._check_interrupted()
                if standing.lost and not template.answers:
                    self.expected = self.expected and not looked
                    return  # each record would fail with the same error, and nothing would tell it
                yield template.fill(rows, first, min(together, size - first))
            if looked:
                self.expected = False
            at += size

    def conditional(self, conditional: Conditional) -> Iterator[Step]:
        """What a CONDITIONAL has done for its condition. Raises ProtocolError."""
        if self._conditions == MAX_LEVELS:
            raise ProtocolError(f"CONDITIONALs are nested more than {MAX_LEVELS} deep")
        return self._conditional(conditional)

    def _conditional(self, conditional: Conditional) -> Iterator[Step]:
        self._conditions += 1
        failures = self._standing.failures
        try:
            while True:
                self._check_interrupted()
                pieces = self._resources.context.read(conditional.condition, conditional.stream)
                number = conditional.chosen(int.from_bytes(b"".join(map(bytes, pieces)), "little"))
                if number is None:
                    return
                template = self._resources.templates.get(number)
                if template.holes or len(template.records) >= worth(self._resources).asking:
                    yield from self._repeat(self._resources.templates.inner(number, 1, memoryview(b"")))
                else:
                    yield template.body
                if not conditional.loops or self._standing.lost or self._standing.failures != failures:
                    return
        finally:
            self._conditions -= 1

    def _look_into(self, template: Template, columns: Columns, at: int, end: int) -> int:
        """Tells the device what is known of the launches to come; how many iterations to go before looking again."""
        if not template.has_launches:
            return end - at
        launches, iterations = upcoming.of_loop(self._resources.templates, template, columns, at, end)
        if iterations:
            self._resources.context.expect(launches)
            self.expected = True
        return iterations if at + iterations == end else max(1, iterations // 2)

    def _check_interrupted(self) -> None:
        if self._standing.interrupted:
            raise DeadTransport("the guest is gone")

    def _plan(self, template: Template, columns: Columns, count: int) -> Plan | None:
        """The template as the device can repeat it, when that is worth it."""
        plans = self._resources.plans
        known = plans.get(template.number)
        if known is None:
            known = plans[template.number] = Plans(template)
        planned = known.of(columns, count, self._resources)
        if planned is None and known.declined:
            self._declined.add(template.number)
        return planned

    def _clear_for(self, planned: Plan) -> bool:
        """Whether nothing but the steps themselves decides what comes of them."""
        if self._standing.lost or self._resources.poisoned:
            return False
        return not self._standing.deferred or not planned.answers

    def _resume(self, template: Template, body: bytes, path: Path, error: CudaError | None) -> Iterator[Step]:
        """The rest of an iteration, from the record at `path` on; that one has failed already if there is an error."""
        record = template.records[path[0]]
        at, end = record.offset, record.offset + record.length
        if len(path) == 1:
            if error is not None:
                yield body[at:end], error.code, error.message, error.sticky
                at = end
            if at < len(body):
                yield body[at:]
            return
        arguments = _REPEAT.decode(body, memoryview(body), at, record.length, record.flags)
        loop = self._resources.templates.inner(*arguments)
        inner = loop.template.fill(loop.columns.rows(path[1], 1), 0)
        yield from self._resume(loop.template, inner, path[2:], error)
        done = path[1] + 1
        if done < loop.repetitions:
            yield from self._repeat(Repetition(loop.template, loop.columns, done, loop.repetitions - done))
        if end < len(body):
            yield body[end:]
