"""Replays a session's tape on its context.

Owns the walk over the records of a message, the results they yield, and the bookkeeping of deferred and sticky errors. Does not
own the meaning of any operation (handlers/) nor who sent the bytes (session.py, server/).

Bulk data is never copied here: writes see the message's own bytes, reads pass the device's pieces on. The walk has one short cut:
a LAUNCH whose fixed part has been seen before goes straight to the device (handlers/launch.py says why). A REPEAT is walked as the
records that it stands for, some iterations at a time, unless the device can repeat its body by itself (repeating.py).

Errors, as tape.md has them:
- a deferred operation's error is kept until it is reported: by the next STATUS or DATA result, else with the group;
- an operation that yields a result reports its own error there; that error is not reported again;
- a sticky error fails every later operation of its context until DEVICE_RESET. Uploads of images, templates and payloads go on: they are
  the host's, not the context's. A group has records of one context, so that a deferred error needs no context of its own.

Source: protos/tape.md; mission.md S1 point 8.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from farlane.backend import upcoming
from farlane.backend.contexts import Contexts
from farlane.backend.device.base import CudaError
from farlane.backend.errors import DeadTransport, ProtocolError, name_of, to_cuda
from farlane.backend.generated_errors import NOT_READY
from farlane.backend.handlers.binding import TABLE, Bound
from farlane.backend.handlers.generated_operations import OPERATIONS
from farlane.backend.handlers.loop import Conditional
from farlane.backend.handlers.memory import Reading
from farlane.backend.loops.columns import Columns
from farlane.backend.loops.plan import Path, Plan
from farlane.backend.loops.plans import WORTH_ASKING, Plans
from farlane.backend.loops.store import Repetition
from farlane.backend.loops.template import MAX_LEVELS, Template
from farlane.backend.objects.resources import Resources

log = logging.getLogger("farlane.replay")

Piece = bytes | memoryview

RECORD_LIMIT = (1 << 20) + 4096
PREPARED_LIMIT = 4096  # different launches that a session remembers
CHUNK_BYTES = 64 << 10  # results of at least this size are passed on at once, uncopied
DATA_LIMIT = 1 << 20  # bytes of one DATA record

_STATUS, _VALUE, _DATA = 1, 2, 3
_HEADER = struct.Struct("<IHH")
_STATUS_RECORD = struct.Struct("<IHHIi")
_VALUE_RECORD = struct.Struct("<IHHIiQ")
_DATA_RECORD = struct.Struct("<IHHIiQII")
_PADDING = bytes(8)

_NAMED = {operation.name: operation for operation in TABLE.values()}
_LAUNCH, _REPEAT = _NAMED["LAUNCH"], _NAMED["REPEAT"]
_TEMPLATE = _NAMED["TEMPLATE"]
_CONDITIONAL = _NAMED["CONDITIONAL"]
_LAUNCH_BYTES = _LAUNCH.fixed
_RESET = _NAMED["DEVICE_RESET"].code
_CONTEXT = _NAMED["CONTEXT"]
# Operations after which every object that a plan holds is still there, and every launch still passes its checks; and those that
# only add to what plans may be made of.
_LASTING = frozenset(code for code, row in OPERATIONS.items() if row.plans == "keeps")
_MAKING = frozenset(code for code, row in OPERATIONS.items() if row.plans == "adds")
_BLOCK = 256  # iterations whose values are at hand at once ...
_BLOCK_VALUES = 1 << 16  # ... and values, at most
_TOGETHER, _TOGETHER_BYTES = 32, 16 << 10  # iterations, of so many bytes, that are walked as if they had been sent


class Replay:
    """The replay of one session. One thread at a time."""

    def __init__(self, name: str, resources: Resources, tape_version: int) -> None:
        self.name = name
        self.tape_version = tape_version
        self.interrupted = False  # set by any thread: the guest is gone
        self.resources = resources
        self.begins_group = True  # the message that comes next is the first of its group
        self.sticky: CudaError | None = None  # of the context whose records follow
        self._contexts = Contexts()
        self._group_start = -1  # where a message has the first record of its group
        self._deferred: CudaError | None = None  # the first error that nobody was told yet
        self._delivered = ""  # the message of one that a result has told
        self._out: list[Piece] = []
        self._out_bytes = 0
        self._unfinished: Iterator[Piece] | None = None
        self._expected = False  # an outer loop has looked ahead
        self._declined: set[int] = set()  # templates that could not be planned as things were
        self._conditions = 0  # CONDITIONALs within each other that are being replayed

    def run(self, buffer: bytes, start: int, end: int) -> Iterator[list[Piece]]:
        """Replays the records in buffer[start:end].

        Yields:
            Pieces of results that are large enough to be passed on; they are valid until the iterator is resumed. What is
            left at the end is `take_results`'s.

        Raises:
            ProtocolError: a record breaks a rule of tape.md; everything before it has been replayed.
            DeadTransport: the replay was interrupted inside a loop.
        """
        self._finish_read()
        self._group_start = start if self.begins_group else -1
        return self._walk(buffer, start, end, False)

    def _walk(self, buffer: bytes, start: int, end: int, inside: bool) -> Iterator[list[Piece]]:
        """Replays records: a message's, or (inside) those of iterations of a loop, in which what is to come was looked at before."""
        view = memoryview(buffer)
        at = start
        launches = self.resources.launches
        launch = self.resources.context.launch_from
        find = launches.get
        looks_ahead = self.resources.context.looks_ahead and not inside
        if looks_ahead:
            self._look_ahead(buffer, at, end)
        while at < end:
            try:
                while at < end:
                    prepared = find(buffer[at : at + _LAUNCH_BYTES])
                    if prepared is not None:
                        length, parameters_end, function, shape, stream = prepared
                        if at + length > end:
                            raise ProtocolError(f"a record of {length} bytes where {end - at} are left")
                        launch(function, shape, view, at + _LAUNCH_BYTES, at + parameters_end, stream)
                    else:
                        length, operation, flags = self._header(buffer, at, end)
                        if operation is _CONDITIONAL:
                            yield from self._conditional(buffer, view, at, length, flags)
                        elif operation is _REPEAT:
                            yield from self._repeat(self._repetition(buffer, view, at, length, flags, inside))
                            if looks_ahead:
                                self._look_ahead(buffer, at + length, end)
                        else:
                            reading = self._one(operation, buffer, view, at, length, flags)
                            if reading is not None:
                                at_end = at + length == end and not inside
                                yield from self._data(operation.slot(buffer, at), reading, at_end)
                    at += length
            except (ProtocolError, DeadTransport):
                raise
            except Exception as error:
                length, operation, _ = self._header(buffer, at, end)
                self._failed(operation, to_cuda(error, f"session {self.name}: {operation.name}"), buffer, at)
                at += length

    @property
    def results_bytes(self) -> int:
        """Bytes of results not yet passed on."""
        return self._out_bytes

    def take_results(self) -> list[Piece]:
        """The results not yet passed on; valid until the next `run`."""
        out, self._out, self._out_bytes = self._out, [], 0
        return out

    def take_error(self) -> CudaError | None:
        """The error to report with the group: the sticky one as long as it lasts, else the first one not yet reported.

        The message of a sticky one is given once: a guest that goes on would log it with every group.
        """
        error, self._deferred = self._deferred, None
        if self.sticky is None:
            return error
        told, self.sticky = self.sticky, CudaError(self.sticky.code, "", sticky=True)
        return told

    def take_delivered(self) -> str:
        """The message of a deferred error that a result has delivered since the last call, for the guest's log."""
        message, self._delivered = self._delivered, ""
        return message

    def close(self) -> None:
        self._finish_read()
        self._out.clear()

    # Records ----------------------------------------------------------------------------------------------------

    def _header(self, buffer: bytes, at: int, end: int) -> tuple[int, Bound, int]:
        if end - at < _HEADER.size:
            raise ProtocolError(f"{end - at} bytes where a record should begin")
        length, code, flags = _HEADER.unpack_from(buffer, at)
        if length < _HEADER.size or length % 8 or length > RECORD_LIMIT:
            raise ProtocolError(f"a record of {length} bytes")
        if length > end - at:
            raise ProtocolError(f"a record of {length} bytes where {end - at} are left")
        operation = TABLE.get(code)
        if operation is None:
            raise ProtocolError(f"unknown operation {code:#06x}")
        row = OPERATIONS[code]
        if self.tape_version < (row.flags_since if flags else row.since):
            raise ProtocolError(f"{operation.name} (flags {flags:#x}) in a session of tape version {self.tape_version}")
        return length, operation, flags

    def _one(
        self, operation: Bound, buffer: bytes, view: memoryview, at: int, length: int, flags: int
    ) -> Reading | None:
        """Replays one record; gives back a READ that can begin."""
        arguments = operation.decode(buffer, view, at, length, flags)
        if self.sticky is not None and not self._goes_on(operation.code):
            raise CudaError(self.sticky.code, "the session is lost", sticky=True)
        if operation is _LAUNCH:
            self._launch(buffer, view, at, length, flags, arguments)
            return None
        if operation is _CONTEXT:
            self._enter(
                operation.handler(self.resources, flags, *arguments), anew=bool(flags), first=at == self._group_start
            )
            return None
        if operation.code in _MAKING:
            self._made(operation, arguments)
        elif operation.code not in _LASTING:
            self.resources.plans.clear()
        if operation.flagged:
            arguments = (flags, *arguments)
        if operation.result == "data":
            if self._deferred is not None:
                raise self._take_deferred()
            reading: Reading = operation.handler(self.resources, *arguments)
            return reading
        result = operation.handler(self.resources, *arguments)
        if operation.result == "status":
            if operation.code == _RESET:
                self.sticky = None
                self._contexts.clear()
                if self._deferred is not None and self._deferred.sticky:
                    self._deferred = None
            if self._deferred is not None and result in (0, NOT_READY):
                raise self._take_deferred()
            self._append(_STATUS_RECORD.pack(_STATUS_RECORD.size, _STATUS, 0, operation.slot(buffer, at), result))
        elif operation.result == "value":
            self._append(_VALUE_RECORD.pack(_VALUE_RECORD.size, _VALUE, 0, operation.slot(buffer, at), 0, result))
        return None

    def _goes_on(self, code: int) -> bool:
        """Whether an operation is done in a context that is lost."""
        return code == _RESET or OPERATIONS[code].host_only or self._contexts.goes_on(code)

    def _enter(self, context: int, *, anew: bool, first: bool) -> None:
        """CONTEXT: what follows is of another context, or (anew) of one that begins again.

        Raises:
            ProtocolError: it is not the first record of its group.
        """
        if not first:
            raise ProtocolError("a CONTEXT that is not the first record of its group")
        self.sticky = self._contexts.enter(context, self.sticky, anew=anew)
        if self.sticky is not None:
            self.resources.launches.clear()  # they would not be stopped

    def _launch(
        self, buffer: bytes, view: memoryview, at: int, length: int, flags: int, arguments: tuple[Any, ...]
    ) -> None:
        *fields, parameters = arguments
        function, shape, stream = _LAUNCH.handler(self.resources, flags, *fields)
        launches = self.resources.launches
        if len(launches) >= PREPARED_LIMIT:
            launches.clear()
        parameters_end = _LAUNCH_BYTES + len(parameters)
        launches[buffer[at : at + _LAUNCH_BYTES]] = (length, parameters_end, function, shape, stream)
        self.resources.context.launch_from(function, shape, view, at + _LAUNCH_BYTES, at + parameters_end, stream)

    # Loops ------------------------------------------------------------------------------------------------------

    def _repetition(
        self, buffer: bytes, view: memoryview, at: int, length: int, flags: int, inside: bool
    ) -> Repetition:
        arguments = _REPEAT.decode(buffer, view, at, length, flags)
        repetition: Repetition = (
            self.resources.templates.inner(*arguments) if inside else _REPEAT.handler(self.resources, flags, *arguments)
        )
        return repetition

    def _repeat(self, repetition: Repetition) -> Iterator[list[Piece]]:
        """Replays the records that a REPEAT stands for."""
        template, columns, at, count = repetition
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
                stop = self.resources.context.repeat(planned.body, matrix, results)
                if stop is None:
                    planned.declined = True
                    planned = None
                    continue
                at += stop.iterations
                ended = planned.body.steps[stop.step - 1].result_end if stop.step else 0
                self._append_results(results.reshape(-1)[: stop.iterations * results.shape[1] + ended])
                if stop.iterations < size:
                    body = template.fill(columns.rows(at, 1), 0)
                    yield from self._resume(template, body, planned.paths[stop.step], stop.error)
                    at += 1
                if not planned.pace.done(stop.iterations, size):
                    planned = None
                if self._out_bytes >= CHUNK_BYTES:
                    yield self.take_results()
                continue
            size = 1 if planned is not None else min(block, end - at)
            looked = self.resources.context.looks_ahead and not self._expected
            if looked:
                size = min(size, self._look_into(template, columns, at, end))
            rows = columns.rows(at, size)
            together = max(1, min(_TOGETHER, _TOGETHER_BYTES // len(template.body)))
            for first in range(0, size, together):
                self._check_interrupted()
                if self.sticky is not None and not template.answers:
                    self._expected = self._expected and not looked
                    return  # each record would fail with the same error, and nobody would be told
                body = template.fill(rows, first, min(together, size - first))
                yield from self._walk(body, 0, len(body), True)
                if self._out_bytes >= CHUNK_BYTES:
                    yield self.take_results()
            if looked:
                self._expected = False
            at += size

    def _conditional(self, buffer: bytes, view: memoryview, at: int, length: int, flags: int) -> Iterator[list[Piece]]:
        """Replays what a CONDITIONAL has done for its condition."""
        if self.sticky is not None:
            raise CudaError(self.sticky.code, "the session is lost", sticky=True)
        arguments = _CONDITIONAL.decode(buffer, view, at, length, flags)
        conditional: Conditional = _CONDITIONAL.handler(self.resources, *arguments)
        if self._conditions == MAX_LEVELS:
            raise ProtocolError(f"CONDITIONALs are nested more than {MAX_LEVELS} deep")
        self._conditions += 1
        failed = self._deferred
        try:
            while True:
                self._check_interrupted()
                pieces = self.resources.context.read(conditional.condition, conditional.stream)
                number = conditional.chosen(int.from_bytes(b"".join(map(bytes, pieces)), "little"))
                if number is None:
                    return
                template = self.resources.templates.get(number)
                if template.holes or len(template.records) >= WORTH_ASKING:
                    yield from self._repeat(self.resources.templates.inner(number, 1, memoryview(b"")))
                else:
                    yield from self._walk(template.body, 0, len(template.body), True)
                if not conditional.loops or self.sticky is not None or self._deferred is not failed:
                    return
        finally:
            self._conditions -= 1

    def _look_ahead(self, buffer: bytes, at: int, end: int) -> None:
        """Tells the device what is known of the launches to come."""
        launches = upcoming.of_message(buffer, at, end)
        if launches and not self._expected:
            self.resources.context.expect(launches)

    def _look_into(self, template: Template, columns: Columns, at: int, end: int) -> int:
        """The same for a loop; how many iterations to go before looking again."""
        if not template.has_launches:
            return end - at
        launches, iterations = upcoming.of_loop(self.resources.templates, template, columns, at, end)
        if iterations:
            self.resources.context.expect(launches)
            self._expected = True
        return iterations if at + iterations == end else max(1, iterations // 2)

    def _check_interrupted(self) -> None:
        if self.interrupted:
            raise DeadTransport("the guest is gone")

    def _plan(self, template: Template, columns: Columns, count: int) -> Plan | None:
        """The template as the device can repeat it, when that is worth it."""
        known = self.resources.plans.get(template.number)
        if known is None:
            known = self.resources.plans[template.number] = Plans(template)
        planned = known.of(columns, count, self.resources)
        if planned is None and known.declined:
            self._declined.add(template.number)
        return planned

    def _made(self, operation: Bound, arguments: tuple[Any, ...]) -> None:
        """Something is about to be made: what could not be planned is looked at again, and so is a template that is given anew."""
        plans = self.resources.plans
        if operation is _TEMPLATE:
            plans.pop(arguments[0], None)  # no other template contains it: it could not be given anew
            return
        while self._declined:
            known = plans.get(self._declined.pop())
            if known is not None:
                known.look_again()

    def _clear_for(self, planned: Plan) -> bool:
        """Whether nothing but the steps themselves decides what comes of them."""
        if self.sticky is not None or self.resources.poisoned:
            return False
        return self._deferred is None or not planned.answers

    def _resume(self, template: Template, body: bytes, path: Path, error: CudaError | None) -> Iterator[list[Piece]]:
        """The rest of an iteration, from the record at `path` on; that one has failed already if there is an error."""
        record = template.records[path[0]]
        at, end = record.offset, len(body)
        if len(path) == 1:
            if error is not None:
                self._failed(TABLE[record.row.code], error, body, at)
                at += record.length
            yield from self._walk(body, at, end, True)
            return
        loop = self._repetition(body, memoryview(body), at, record.length, record.flags, True)
        inner = loop.template.fill(loop.columns.rows(path[1], 1), 0)
        yield from self._resume(loop.template, inner, path[2:], error)
        done = path[1] + 1
        if done < loop.repetitions:
            yield from self._repeat(Repetition(loop.template, loop.columns, done, loop.repetitions - done))
        yield from self._walk(body, at + record.length, end, True)

    # Errors -----------------------------------------------------------------------------------------------------

    def _failed(self, operation: Bound, error: CudaError, buffer: bytes, at: int) -> None:
        if error.sticky and self.sticky is None:
            self.sticky = CudaError(error.code, f"{operation.name}: {error.message}", sticky=True)
            self.resources.launches.clear()
            log.warning(
                "session %s: %s: %s (%s): the session is lost",
                self.name, operation.name, error.message, name_of(error.code),
            )  # fmt: skip
        if operation.slot_at is None:
            if self._deferred is None:
                self._deferred = CudaError(error.code, f"{operation.name}: {error.message}", sticky=error.sticky)
                log.info("session %s: %s: %s (%s)", self.name, operation.name, error.message, name_of(error.code))
            return
        slot = operation.slot(buffer, at)
        if self._deferred is not None and self._deferred.sticky:
            self._deferred = None  # delivered here
        if operation.result == "data":
            self._append(_DATA_RECORD.pack(_DATA_RECORD.size, _DATA, 0, slot, error.code, 0, 0, 0))
        elif operation.result == "value":
            self._append(_VALUE_RECORD.pack(_VALUE_RECORD.size, _VALUE, 0, slot, error.code, 0))
        else:
            self._append(_STATUS_RECORD.pack(_STATUS_RECORD.size, _STATUS, 0, slot, error.code))

    def _take_deferred(self) -> CudaError:
        assert self._deferred is not None
        error, self._deferred = self._deferred, None
        self._delivered = error.message
        return error

    # Results ----------------------------------------------------------------------------------------------------

    def _append_results(self, results: npt.NDArray[np.uint8]) -> None:
        if len(results):
            self._append(results.data)

    def _append(self, piece: Piece) -> None:
        self._out.append(piece)
        self._out_bytes += len(piece)

    def _data(self, slot: int, reading: Reading, at_end: bool) -> Iterator[list[Piece]]:
        """DATA records for a READ. The last piece stays in the results when nothing follows it in the message: it
        then travels with the reply that ends the group, and its iterator is resumed only after that."""
        offset = 0
        pieces = iter(reading.pieces)
        for piece in pieces:
            size = len(piece)
            if size > DATA_LIMIT or offset + size > reading.total:
                raise RuntimeError(f"the device yielded {size} bytes at {offset} of {reading.total}")
            padding = -size % 8
            self._append(_DATA_RECORD.pack(_DATA_RECORD.size + size + padding, _DATA, 0, slot, 0, offset, size, 0))
            self._append(piece if size >= CHUNK_BYTES else bytes(piece))
            if padding:
                self._append(_PADDING[:padding])
            offset += size
            if at_end and offset == reading.total:
                self._unfinished = pieces
                return
            if self._out_bytes >= CHUNK_BYTES:
                yield self.take_results()
        if offset != reading.total:
            raise RuntimeError(f"the device yielded {offset} bytes of {reading.total}")

    def _finish_read(self) -> None:
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            for _ in unfinished:
                log.error("session %s: READ: the device yielded more than was asked for", self.name)
                break
