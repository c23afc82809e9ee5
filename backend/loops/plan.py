"""A template as work for a device: `device.plan.Body`, and the matrix of what its holes hold.

Owns the resolving of handles for all iterations at once, and the unrolling of inner loops whose count is fixed and small: a hole of an
inner loop is then a sum of the outer one's columns. Kept payloads that change from iteration to iteration become places in the host's
memory. Declines (None) what a device cannot be asked to repeat: handles or shapes that change from iteration to iteration, large reads, objects that are
made, handles that are not there. The replay of such a template, record by record, finds
the errors where they belong.

A plan holds the objects behind handles: the plane drops it when one of them may have ended (`plans` in tape.toml).

Source: protos/tape.md, "Loops"; docs/explanation/systems.md, S1 points 4 to 6.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from farlane.backend.device.base import CudaError
from farlane.backend.device.plan import Body, Columns, Hole, Kind, Results, Step
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers import launch as launching
from farlane.backend.loops.operands import Bound, Declined, Operands, Row
from farlane.backend.loops.pace import Pace
from farlane.backend.loops.template import AFFINE, SAME, VALUES, Record, Template
from farlane.backend.objects.payloads import expand
from farlane.backend.objects.resources import RELATIVE, Resources
from farlane.backend.plane import Columns as Given

MAX_STEPS = 256
MAX_ROWS = 1024
MAX_READ = 64 << 10  # bytes of a READ inside of a body
MAX_RESULTS = 256 << 10  # of an iteration's results

_MASK = (1 << 64) - 1
_U64 = struct.Struct("<Q")
_STATUS = struct.Struct("<IHHIi")
_DATA = struct.Struct("<IHHIiQII")
_HEADER_BYTES = 8


class Derived(NamedTuple):
    """A row that is computed from others: constant + sum of row * factor, modulo 2^(8 width)."""

    constant: int
    terms: tuple[tuple[int, int], ...]
    width: int


class Kept(NamedTuple):
    """Two rows that are looked up: where the payload of a row's number lies, and behind it how many bytes it has."""

    source: int


Path = tuple[int, ...]  # a record of the body; or a loop in it, its iteration, and a path in that loop's body


class Plan:
    """A body, with how to compute its columns and results, and how much of it to hand over at once."""

    def __init__(self, template: Template, builder: _Builder) -> None:
        self.body = Body(tuple(builder.steps))
        self.paths = tuple(builder.paths)
        self.names = tuple(builder.names)
        row_bytes = 8 * (len(template.holes) + len(builder.derived)) + len(builder.results)
        self.pace = Pace(row_bytes, len(builder.results) > 0)
        self._given = len(template.holes)
        self._payloads = builder.payloads
        self._derived = tuple(builder.derived)
        self._result_row = np.frombuffer(bytes(builder.results), np.uint8)
        self._slots = tuple(builder.slots)

    @property
    def answers(self) -> bool:
        return len(self._result_row) > 0

    def columns(self, columns: Given, first: int, count: int) -> Columns:
        """The matrix of iterations [first, first + count)."""
        matrix = np.empty((self._given + len(self._derived), count), np.uint64)
        if self._given:
            columns.fill(matrix[: self._given], first)
        for index, row in enumerate(self._derived, self._given):
            if row is None:
                continue  # the second row of what is in front of it
            if isinstance(row, Kept):
                self._payloads.places(matrix[row.source], matrix[index : index + 2])
                continue
            total = np.full(count, row.constant, np.uint64)
            for source, factor in row.terms:
                total += matrix[source] * np.uint64(factor)
            matrix[index] = total if row.width == 8 else total & np.uint64((1 << 8 * row.width) - 1)
        return matrix

    def results(self, matrix: Columns) -> Results:
        """Result records of the iterations, complete but for the bytes of READs."""
        count = matrix.shape[1]
        results = np.empty((count, len(self._result_row)), np.uint8)
        results[:] = self._result_row
        for at, row in self._slots:
            results[:, at : at + 4] = matrix[row].astype("<u4").view(np.uint8).reshape(count, 4)
        return results


def plan(template: Template, resources: Resources, constants: Mapping[int, int]) -> Plan | None:
    """How a device could repeat the template, with constants in some of its holes; None: it cannot."""
    if resources.poisoned:
        return None
    builder = _Builder(resources, [hole.width for hole in template.holes])
    try:
        builder.add(template, [constants.get(index, Row(index)) for index in range(len(template.holes))], ())
    except (Declined, CudaError, ProtocolError):
        return None
    return Plan(template, builder)


class _Builder:
    def __init__(self, resources: Resources, widths: Sequence[int]) -> None:
        self._resources = resources
        self._widths = list(widths)
        self.payloads = resources.payloads
        self._known: dict[Derived, Row] = {}
        self.derived: list[Derived | Kept | None] = []
        self.steps: list[Step] = []
        self.paths: list[Path] = []
        self.names: list[str] = []
        self.results = bytearray()
        self.slots: list[tuple[int, int]] = []  # where in the results, and the row it is in

    def add(self, template: Template, bound: Sequence[Bound], path: Path) -> None:
        """The template's records, its holes bound."""
        holes: dict[int, list[tuple[int, int, Bound]]] = {}
        for hole, value in zip(template.holes, bound, strict=True):
            record = template.records[hole.record]
            holes.setdefault(hole.record, []).append((hole.offset - record.offset, hole.width, value))
        for number, record in enumerate(template.records):
            data = template.body[record.offset : record.offset + record.length]
            here = Operands(data, holes.get(number, ()))
            if record.inner is not None:
                self._unroll(record, here, (*path, number))
                continue
            if len(self.steps) >= MAX_STEPS:
                raise Declined
            self.steps.append(self._step(record, here))
            self.paths.append((*path, number))
            self.names.append(record.row.name)

    # Inner loops ------------------------------------------------------------------------------------------------

    def _unroll(self, record: Record, data: Operands, path: Path) -> None:
        inner = record.inner
        assert inner is not None
        count = data.constant(16, 8)
        if not count or any(header.kind == VALUES and header.number != count for header in record.headers):
            raise Declined  # that REPEAT breaks a rule
        if count * len(inner.records) > MAX_STEPS - len(self.steps):
            raise Declined
        values = record.row.fixed  # where the columns begin
        for iteration in range(count):
            bound: list[Bound] = []
            for index in range(len(inner.holes)):
                header, at = record.headers[index], iteration
                while header.kind == SAME and at >= header.lag:
                    at -= header.lag
                    header = record.headers[header.number]
                begin = values + header.begin
                if header.kind == AFFINE:
                    start, terms = data.sum(begin, 8)
                    step, more = data.sum(begin + 8, 8)
                    merged = dict(terms)
                    for row, factor in more:
                        merged[row] = merged.get(row, 0) + at * factor & _MASK
                    bound.append(self._row(start + at * step, merged, header.width))
                else:
                    if header.kind != SAME:
                        at %= header.number
                    constant, terms = data.sum(begin + at * header.width, header.width)
                    bound.append(self._row(constant, dict(terms), header.width))
            self.add(inner, bound, (*path, iteration))

    def _row(self, constant: int, terms: dict[int, int], width: int) -> Bound:
        mask = (1 << 8 * width) - 1
        terms = {row: factor for row, factor in terms.items() if factor}
        if not terms:
            return constant & mask
        if not constant and len(terms) == 1:
            ((row, factor),) = terms.items()
            if factor == 1 and self._widths[row] <= width:
                return Row(row)
        derived = Derived(constant & _MASK, tuple(sorted(terms.items())), width)
        known = self._known.get(derived)
        if known is None:
            if len(self._widths) >= MAX_ROWS:
                raise Declined
            known = self._known[derived] = Row(len(self._widths))
            self.derived.append(derived)
            self._widths.append(width)
        return known

    def _kept(self, source: int) -> int:
        """The first of the two rows of a `Kept`."""
        if len(self._widths) + 2 > MAX_ROWS:
            raise Declined
        place = len(self._widths)
        self.derived += [Kept(source), None]
        self._widths += [8, 8]
        return place

    # Steps ------------------------------------------------------------------------------------------------------

    def _step(self, record: Record, data: Operands) -> Step:
        name = record.row.name
        resources = self._resources
        if name == "LAUNCH":
            fixed = data.fixed(0, record.row.fixed)
            *fields, size = struct.unpack_from("<10I", fixed, _HEADER_BYTES)
            function, shape, stream = launching.launch(resources, record.flags, *fields)
            operands, holes = data.part(record.row.fixed, record.row.fixed + size)
            return self._made(Kind.LAUNCH, operands, holes, stream=stream, function=function, shape=shape)
        if name == "MEMSET":
            stream = resources.streams.get(data.constant(48, 4))
            data.zero(52)
            return self._made(Kind.SET, *self._address(data, 8, 48, 0), stream=stream)
        if name == "COPY":
            stream = resources.streams.get(data.constant(56, 4))
            data.zero(60)
            operands, holes = self._address(data, 8, 56, 0)
            return self._made(Kind.COPY, *self._resolve(operands, holes, 16, 24, 32), stream=stream)
        if name in ("WRITE", "WRITE_KEPT"):
            return self._write(record, data)
        if name in ("ALLOCATE", "FREE"):
            return self._made(Kind[name], *data.part(_HEADER_BYTES, record.row.fixed))
        if name == "READ":
            return self._read(data)
        if name in ("FENCE", "DEVICE_SYNCHRONIZE"):
            data.zero(12)
            return self._answered(data, 8, Step(Kind.NOTHING))
        if name == "STREAM_SYNCHRONIZE":
            return self._answered(data, 12, Step(Kind.NOTHING, stream=resources.streams.get(data.constant(8, 4))))
        if name == "EVENT_SYNCHRONIZE":
            return self._answered(data, 12, Step(Kind.NOTHING, event=resources.events.get(data.constant(8, 4))))
        if name == "EVENT_RECORD":
            data.fixed(16, 20)
            data.zero(20)
            event, stream = resources.events.get(data.constant(8, 4)), resources.streams.get(data.constant(12, 4))
            return self._made(Kind.RECORD, b"", (), stream=stream, event=event)
        if name == "STREAM_WAIT_EVENT":
            stream, event = resources.streams.get(data.constant(8, 4)), resources.events.get(data.constant(12, 4))
            return self._made(Kind.NOTHING, b"", (), stream=stream, event=event)
        raise Declined

    def _made(self, kind: Kind, operands: bytes, holes: tuple[Hole, ...], **objects: Any) -> Step:
        end = len(self.results)
        return Step(kind, operands, holes, result_at=end, result_end=end, **objects)

    def _write(self, record: Record, data: Operands) -> Step:
        stream = self._resources.streams.get(data.constant(40, 4))
        operands, holes = self._address(data, 8, 40, 0)
        if record.row.name == "WRITE_KEPT":
            number, row = data.whole(44, 4)
            if row is not None:
                place = self._kept(row)
                holes += (Hole(32, 8, place), Hole(40, 8, place + 1))
                return self._made(Kind.PUT, operands + bytes(16), holes, stream=stream)
            raw: bytes = bytes(self.payloads.get(number))
        else:
            packed, changing = data.part(48, 48 + data.constant(44, 4))
            if record.flags:
                if changing:
                    raise Declined
                raw = bytes(expand(memoryview(packed), record.flags, data.constant(24, 8) * data.constant(32, 8)))
            else:
                raw = packed
                holes += tuple(Hole(hole.at + 32, hole.width, hole.row) for hole in changing)
        return self._made(Kind.WRITE, operands + raw, holes, stream=stream)

    def _read(self, data: Operands) -> Step:
        stream = self._resources.streams.get(data.constant(40, 4))
        width, height = data.constant(24, 8), data.constant(32, 8)
        size = width * height
        if not 0 < size <= MAX_READ:
            raise Declined
        operands, holes = self._address(data, 8, 40, 0)
        slot, row = data.whole(44, 4)
        at = len(self.results)
        if row is not None:
            self.slots.append((at + 8, row))
        padding = -size % 8
        self._add_results(_DATA.pack(_DATA.size + size + padding, 3, 0, slot, 0, 0, size, 0) + bytes(size + padding))
        return Step(Kind.READ, operands, holes, stream=stream, result_at=at + _DATA.size, result_end=len(self.results))

    def _answered(self, data: Operands, slot_at: int, step: Step) -> Step:
        """A step with a STATUS of 0."""
        slot, row = data.whole(slot_at, 4)
        at = len(self.results)
        if row is not None:
            self.slots.append((at + 8, row))
        self._add_results(_STATUS.pack(_STATUS.size, 1, 0, slot, 0))
        return step._replace(result_at=at, result_end=len(self.results))

    def _add_results(self, record: bytes) -> None:
        self.results += record
        if len(self.results) > MAX_RESULTS:
            raise Declined

    def _address(self, data: Operands, begin: int, end: int, at: int) -> tuple[bytes, tuple[Hole, ...]]:
        """Operands of a record, the address at `at` followed by pitch, width and height."""
        operands, holes = data.part(begin, end)
        width_at = 32 if end == 56 else 16  # COPY's two addresses share their extent
        return self._resolve(operands, holes, at, at + 8, width_at)

    def _resolve(
        self, operands: bytes, holes: tuple[Hole, ...], address_at: int, pitch_at: int, width_at: int
    ) -> tuple[bytes, tuple[Hole, ...]]:
        """A variable-relative address becomes an absolute one, for all iterations."""
        if any(hole.at < address_at + 8 and hole.at + hole.width > address_at for hole in holes):
            return operands, holes  # a device finds one that is relative in no allocation
        (address,) = _U64.unpack_from(operands, address_at)
        if not address & RELATIVE:
            return operands, holes
        spans = [(pitch_at, 8), (width_at, 16)]
        if any(hole.at < at + size and hole.at + hole.width > at for hole in holes for at, size in spans):
            raise Declined
        (pitch,), (width, height) = _U64.unpack_from(operands, pitch_at), struct.unpack_from("<QQ", operands, width_at)
        resolved = self._resources.rows(address, pitch, width, height).address
        return operands[:address_at] + _U64.pack(resolved) + operands[address_at + 8 :], holes
