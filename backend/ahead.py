"""Running ahead: iterations of a loop that the guest has not come to, done so that they can be undone.

Owns the check of RUN_AHEAD's columns, the doing of iterations (whole ones, as long as the guest's time lasts and nothing else has come from it), what
they yield, and the state of memory behind each read, to which KEEP_AHEAD goes back. The guest compares what its program calls with what was done here, and says
how much of it stands; nothing that fails, or that cannot be undone, is ever kept.

Declines (no iteration is done): a device that makes no checkpoints, other operations than launches and copies, an error that was not told
yet, a poisoned allocation. A stretch is what lies between two reads. The first iteration is done whatever it takes, unless it is known to be
too slow; a kernel that does not end is abandoned after `PATIENCE_SECONDS`.

Rows are sent while iterations go on. A message costs about `MESSAGE_COST`, and what waits to be sent makes the guest learn later that
its loop has ended: at the age t, messages of what sqrt(2 t MESSAGE_COST) yield cost least. So it is with looks at what the guest has sent.

Locking: none but the watchdog's. One session, one thread at a time.
Source: protos/tape.md, "Running ahead".
"""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from farlane.backend.device.base import Context, CudaError
from farlane.backend.errors import DeadTransport, ProtocolError
from farlane.backend.handlers.memory import Reading
from farlane.backend.loops.template import Record, Template
from farlane.backend.objects.resources import Resources

log = logging.getLogger("farlane.replay")

MAX_ITERATIONS = 1024
MAX_RESULT = 1 << 20
MAX_POINTS_BYTES = 64 << 20  # of all checkpoints
PATIENCE_SECONDS = 0.5
HISTORY = 8  # values that a computed hole can look back to
MESSAGE_COST = 200_000  # nanoseconds of both sides
LOOK_COST = 25_000  # the same of a look at what the guest has sent
LONG = 1_000_000  # nanoseconds: in such an iteration, a look behind each read
MOST_SENT = 64 << 10  # bytes: more are sent at once

_AFFINE, _PERIODIC, _COMPUTED = 0, 2, 4
_HEADER = struct.Struct("<BBHI")
_U64 = struct.Struct("<Q")
_TWO = struct.Struct("<QQ")
_OPERANDS = struct.Struct("<BB6s")
_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")
_MASK = (1 << 64) - 1
_ALLOWED = frozenset(("LAUNCH", "MEMSET", "COPY", "WRITE", "WRITE_KEPT", "READ"))
_STORE = {1: struct.Struct("<B"), 2: struct.Struct("<H"), 4: struct.Struct("<I"), 8: _U64}

Issue = Callable[[bytes, memoryview, Record], "Reading | None"]


class Stop(Exception):
    """The iteration cannot be done ahead."""


class Known(NamedTuple):
    """A hole that can be told in advance: start + k step, or a table."""

    offset: int
    width: int
    start: int
    step: int
    table: tuple[int, ...]

    def value(self, iteration: int) -> int:
        if self.table:
            return self.table[iteration % len(self.table)]
        return (self.start + self.step * iteration) & ((1 << 8 * self.width) - 1)


class Computed(NamedTuple):
    """A hole that is an operation on what reads have returned."""

    offset: int
    width: int
    code: int
    a: int
    b: int


class Stretch(NamedTuple):
    """Records up to and with a READ, and the computed holes in them."""

    records: tuple[Record, ...]
    size: int  # of what the READ yields
    computed: tuple[Computed, ...]


def compute(code: int, width: int, left: int, right: int) -> int:
    """An operation on two values, as the guest's processor does it. Raises Stop where the result is no finite number."""
    if code == 0:
        return left & ((1 << 8 * width) - 1)
    number = _DOUBLE if width == 8 else _FLOAT
    try:
        (a,), (b,) = (number.unpack(value.to_bytes(width, "little")) for value in (left, right))
        if code == 1:
            value = -a
        elif code == 2:
            value = a + b
        elif code == 3:
            value = a - b
        elif code == 4:
            value = a * b
        else:
            value = a / b
            if code == 6:
                value = -value
        if value - value != 0.0:
            raise Stop
        # Of two narrow numbers the wide result, rounded once more, is the narrow one.
        return int.from_bytes(number.pack(value), "little")
    except (ZeroDivisionError, OverflowError):
        raise Stop from None


class Ahead:
    """What one session has done ahead."""

    def __init__(self) -> None:
        self.last_read: int | None = None  # what the last READ returned; None: it has failed, or there was none
        self._points: list[Any] | None = None
        self._took: dict[int, int] = {}  # nanoseconds of a template's last iteration
        self._stretches: dict[int, tuple[Template, tuple[tuple[tuple[Record, ...], int], ...] | None]] = {}
        self._watchdog = Watchdog()

    # The operations ---------------------------------------------------------------------------------------------

    def run(
        self,
        resources: Resources,
        issue: Issue,
        stop: Callable[[], bool],
        template: Template,
        count: int,
        nanoseconds: int,
        columns: memoryview,
    ) -> Iterator[bytes]:
        """RUN_AHEAD. `issue` does one record; `stop` says whether the guest has sent something else.

        Yields:
            Rows, whole ones, as they are there.

        Raises:
            ProtocolError: it breaks a rule of tape.md.
        """
        if self._points is not None:
            raise ProtocolError("RUN_AHEAD where KEEP_AHEAD is due")
        if not 1 <= count <= MAX_ITERATIONS:
            raise ProtocolError(f"RUN_AHEAD of {count} iterations")
        history, known, computed = _read_columns(template, columns)
        split = self._split(template)
        total = count * (8 * len(computed) + sum((size + 7) & ~7 for _, size in split or ()))
        if total > MAX_RESULT:
            raise ProtocolError(f"RUN_AHEAD that yields {total} bytes")
        self._points = []
        if split and self.last_read is not None and not resources.poisoned:
            history[-1] = self.last_read
            stretches = _with_holes(split, computed)
            return self._run(resources, issue, stop, template, stretches, known, history, count, nanoseconds)
        return iter(())

    def keep(self, resources: Resources, reads: int) -> None:
        """KEEP_AHEAD. Raises ProtocolError."""
        points, self._points = self._points, None
        if points is None:
            raise ProtocolError("KEEP_AHEAD without RUN_AHEAD")
        if reads > max(0, len(points) - 1):
            raise ProtocolError(f"KEEP_AHEAD of {reads} reads where {max(0, len(points) - 1)} were done")
        if points and reads < len(points) - 1 and not resources.context.restore(points[reads]):
            raise ProtocolError("allocations between RUN_AHEAD and KEEP_AHEAD")

    @property
    def pending(self) -> bool:
        """KEEP_AHEAD is due."""
        return self._points is not None

    def close(self) -> None:
        self._points = None
        self._watchdog.close()

    # Doing ------------------------------------------------------------------------------------------------------

    def _run(
        self,
        resources: Resources,
        issue: Issue,
        stop: Callable[[], bool],
        template: Template,
        stretches: Sequence[Stretch],
        known: Sequence[Known],
        history: list[int],
        count: int,
        nanoseconds: int,
    ) -> Iterator[bytes]:
        context = resources.context
        took = self._took.get(template.number, 0)
        if took > nanoseconds:
            self._took[template.number] = took // 2  # look again some day
            return
        point = context.checkpoint()
        if point is None:
            return
        points = self._points = [point]
        most = MAX_POINTS_BYTES // max(1, context.checkpoint_bytes)
        begin = now = sent = looked = time.perf_counter_ns()
        done = 0
        out = bytearray()
        try:
            while done < count and len(points) + len(stretches) <= most:
                if done and now - begin + took > nanoseconds:
                    break
                if (now - looked) ** 2 >= 2 * LOOK_COST * (now - begin):
                    looked = now
                    if stop():
                        break
                body = bytearray(template.body)
                for hole in known:
                    _STORE[hole.width].pack_into(body, hole.offset, hole.value(done))
                self._watchdog.arm(context)
                try:
                    self._iteration(
                        context, issue, stop if took > LONG else None, body, stretches, history, points, out
                    )
                finally:
                    self._watchdog.disarm()
                done += 1
                started, now = now, time.perf_counter_ns()
                took = now - started
                if len(out) >= MOST_SENT or (now - sent) ** 2 > 2 * MESSAGE_COST * (now - begin):
                    yield bytes(out)
                    out.clear()
                    sent = now
        except (ProtocolError, DeadTransport):
            raise
        except Exception as error:
            if not isinstance(error, (Stop, CudaError)):
                log.exception("running ahead")
            del points[done * len(stretches) + 1 :]
            context.restore(points[-1])
            took = max(took, time.perf_counter_ns() - now)
        before = self._took.get(template.number)
        self._took[template.number] = took if before is None else min(took, 2 * before)
        if out:
            yield bytes(out)

    def _iteration(
        self,
        context: Context,
        issue: Issue,
        stop: Callable[[], bool] | None,
        body: bytearray,
        stretches: Sequence[Stretch],
        history: list[int],
        points: list[Any],
        out: bytearray,
    ) -> None:
        """One iteration; its row is added to `out` when all of it is done."""
        values, reads = bytearray(), bytearray()
        for index, stretch in enumerate(stretches):
            if index and stop is not None and stop():
                raise Stop
            for hole in stretch.computed:
                value = compute(hole.code, hole.width, history[-hole.a], history[-hole.b])
                _STORE[hole.width].pack_into(body, hole.offset, value)
                values += _U64.pack(value)
            data = bytes(body)
            view = memoryview(data)
            for record in stretch.records:
                reading = issue(data, view, record)
            if reading is None:
                raise Stop
            content = b"".join(reading.pieces)
            if len(content) != stretch.size:
                raise Stop
            reads += content
            reads += bytes(-len(content) % 8)
            history.append(int.from_bytes(content, "little") if len(content) in (4, 8) else 0)
            del history[:-HISTORY]
            point = context.checkpoint(points[-1])
            if point is None:
                raise Stop
            points.append(point)
        out += values
        out += reads

    def _split(self, template: Template) -> tuple[tuple[tuple[Record, ...], int], ...] | None:
        """The template's records from read to read, with what the reads yield; None: it cannot be done ahead."""
        kept = self._stretches.get(template.number)
        if kept is not None and kept[0] is template:
            return kept[1]
        found = _stretches(template)
        self._stretches[template.number] = (template, found)
        return found


def _stretches(template: Template) -> tuple[tuple[tuple[Record, ...], int], ...] | None:
    found: list[tuple[tuple[Record, ...], int]] = []
    records: list[Record] = []
    shapes = [(record.offset + 24, record.offset + 40) for record in template.records if record.row.name == "READ"]
    if any(begin < hole.offset + hole.width and hole.offset < end for hole in template.holes for begin, end in shapes):
        return None  # the size of a read changes
    for record in template.records:
        if record.row.name not in _ALLOWED:
            return None
        records.append(record)
        if record.row.name == "READ":
            width, height = _TWO.unpack_from(template.body, record.offset + 24)
            if not 0 < width * height <= MAX_RESULT:
                return None
            found.append((tuple(records), width * height))
            records = []
    return tuple(found) if found and not records else None


def _with_holes(split: Sequence[tuple[tuple[Record, ...], int]], computed: Sequence[Computed]) -> tuple[Stretch, ...]:
    stretches = []
    begin = 0
    for records, size in split:
        end = records[-1].offset + records[-1].length
        stretches.append(Stretch(records, size, tuple(hole for hole in computed if begin <= hole.offset < end)))
        begin = end
    return tuple(stretches)


def _read_columns(template: Template, columns: memoryview) -> tuple[list[int], list[Known], list[Computed]]:
    """What the last reads returned, and the columns. Raises ProtocolError."""
    at, size = 8 * HISTORY, len(columns)
    if size < at:
        raise ProtocolError(f"RUN_AHEAD with {size} bytes of columns")
    history = list(struct.unpack_from(f"<{HISTORY}Q", columns, 0))
    known: list[Known] = []
    computed: list[Computed] = []
    for index, hole in enumerate(template.holes):
        if size - at < _HEADER.size:
            raise ProtocolError(f"columns for {index} of {len(template.holes)} holes")
        kind, lag, reserved, number = _HEADER.unpack_from(columns, at)
        at += _HEADER.size
        values = number * hole.width if kind == _PERIODIC else 8 if kind == _COMPUTED else 16
        if kind not in (_AFFINE, _PERIODIC, _COMPUTED) or lag or reserved or (number and kind == _AFFINE):
            raise ProtocolError(f"column {index} of RUN_AHEAD: kind {kind}, lag {lag}, number {number}")
        if values > size - at or (kind == _PERIODIC and not number):
            raise ProtocolError(f"column {index} of RUN_AHEAD has {values} bytes of values where {size - at} are left")
        if kind == _AFFINE:
            start, step = _TWO.unpack_from(columns, at)
            known.append(Known(hole.offset, hole.width, start, step, ()))
        elif kind == _PERIODIC:
            unit = _STORE[hole.width]
            table = tuple(unit.unpack_from(columns, at + place * hole.width)[0] for place in range(number))
            known.append(Known(hole.offset, hole.width, 0, 0, table))
        else:
            a, b, zeros = _OPERANDS.unpack_from(columns, at)
            wrong = number > 6 or not (1 <= a <= HISTORY and 1 <= b <= HISTORY) or any(zeros)
            if wrong or hole.width not in (4, 8):
                raise ProtocolError(f"column {index} of RUN_AHEAD: operation {number} on {a} and {b}")
            computed.append(Computed(hole.offset, hole.width, number, a, b))
        at += (values + 7) & ~7
    if at != size:
        raise ProtocolError(f"{size - at} bytes behind the columns of RUN_AHEAD")
    return history, known, computed


class Watchdog:
    """Makes work tentative, and abandons a launch that lasts: nobody has asked for it. One thread for a session that runs ahead."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._context: Context | None = None
        self._deadline = 0.0
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def arm(self, context: Context) -> None:
        with self._lock:
            context.tentative(True)
            self._context = context
            self._deadline = time.monotonic() + PATIENCE_SECONDS
        if self._thread is None:
            thread = threading.Thread(target=self._watch, name="farlane-ahead", daemon=True)
            thread.start()
            self._thread = thread

    def disarm(self) -> None:
        with self._lock:
            context, self._context = self._context, None
            if context is not None:
                context.tentative(False)

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(PATIENCE_SECONDS / 4):
            with self._lock:
                if self._context is not None and time.monotonic() >= self._deadline:
                    self._context.abandon()
