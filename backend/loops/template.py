"""A loop's body: a TEMPLATE's content, checked once, and filled for each iteration.

Owns every rule of tape.md about a template that its bytes alone decide. What the records do is the handlers' to know; which
templates a session has is the store's.

Source: protos/tape.md, "Loops".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.generated_operations import OPERATIONS, Operation
from farlane.backend.loops.columns import Header, check_count, read_headers

MAX_NUMBER = 4095
MAX_BODY = 64 << 10
MAX_HOLES = 4096
MAX_LEVELS = 8
MAX_COUNT = 1 << 40
CONTINUED = 1  # REPEAT's flag

_HEADER = struct.Struct("<IHH")
_HOLE = struct.Struct("<IB3s")
_REPEAT_ROW = next(row for row in OPERATIONS.values() if row.name == "REPEAT")
REPEAT = _REPEAT_ROW.code
_REPEAT = struct.Struct(_REPEAT_ROW.format)
_REPEAT_BYTES = _REPEAT_ROW.fixed
_STORE: dict[int, Callable[..., None]] = {
    width: struct.Struct("<" + letter).pack_into for width, letter in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))
}


class Hole(NamedTuple):
    offset: int  # in the body
    width: int
    record: int  # which record it lies in


class Record(NamedTuple):
    """One record of a body. Of a REPEAT: its template and columns, and whether its count is a hole."""

    offset: int
    length: int
    row: Operation
    flags: int
    inner: Template | None = None
    headers: tuple[Header, ...] = ()


class Templates(Protocol):
    """Where inner loops' templates are looked up."""

    def get(self, number: int) -> Template:
        """Raises ProtocolError when there is none."""
        ...


class Template:
    """A checked body. Immutable."""

    __slots__ = (
        "answers",
        "body",
        "contains",
        "has_launches",
        "holes",
        "levels",
        "number",
        "records",
        "size",
        "widths",
    )

    def __init__(
        self, number: int, body: bytes, holes: tuple[Hole, ...], records: tuple[Record, ...], size: int
    ) -> None:
        self.number = number
        self.body = body
        self.holes = holes
        self.records = records
        self.size = size  # of the content it came from
        self.widths = tuple(hole.width for hole in holes)
        self.contains = frozenset(record.inner.number for record in records if record.inner is not None)
        self.answers: bool = any(
            record.inner.answers if record.inner is not None else record.row.result != "none" for record in records
        )  # whether its records yield results
        self.has_launches: bool = any(
            record.inner.has_launches if record.inner is not None else record.row.name == "LAUNCH" for record in records
        )
        self.levels: int = 1 + max((record.inner.levels for record in records if record.inner is not None), default=0)

    def fill(self, rows: Sequence[Sequence[int]], first: int, count: int = 1) -> bytes:
        """The records of iterations, one behind the other: hole h of the i-th gets rows[h][first + i]."""
        if not self.holes:
            return self.body * count
        body = bytearray(self.body * count)
        for hole, row in zip(self.holes, rows, strict=True):
            store, at = _STORE[hole.width], hole.offset
            for value in row[first : first + count]:
                store(body, at, value)
                at += len(self.body)
        return bytes(body)


def read_template(number: int, holes: int, content: memoryview, known: Templates) -> Template:
    """Checks a TEMPLATE's content.

    Raises:
        ProtocolError: it breaks a rule of tape.md.
    """
    if number > MAX_NUMBER:
        raise ProtocolError(f"template {number} is over {MAX_NUMBER}")
    if holes > MAX_HOLES or holes * _HOLE.size > len(content):
        raise ProtocolError(f"template {number} of {len(content)} bytes has {holes} holes")
    body = bytes(content[holes * _HOLE.size :])
    if not 0 < len(body) <= MAX_BODY:
        raise ProtocolError(f"template {number} has a body of {len(body)} bytes")
    records = _records(body, known)
    template = Template(number, body, _holes(content, holes, body, records), records, len(content))
    if template.levels > MAX_LEVELS:
        raise ProtocolError(f"template {number} is a loop of {template.levels} levels")
    _check_inner_counts(template)
    return template


def _records(body: bytes, known: Templates) -> tuple[Record, ...]:
    view = memoryview(body)
    records: list[Record] = []
    at = 0
    while at < len(body):
        if len(body) - at < _HEADER.size:
            raise ProtocolError(f"{len(body) - at} bytes of a template's body where a record should begin")
        length, code, flags = _HEADER.unpack_from(body, at)
        if length < _HEADER.size or length % 8 or length > len(body) - at:
            raise ProtocolError(f"a record of {length} bytes where a template's body has {len(body) - at} left")
        row = OPERATIONS.get(code)
        if row is None:
            raise ProtocolError(f"unknown operation {code:#06x} in a template")
        if not row.loops or (code == REPEAT and flags & CONTINUED):
            raise ProtocolError(f"{row.name} (flags {flags:#x}) has no place in a template")
        row.decode(body, view, at, length, flags)
        if code == REPEAT:
            number, size, _ = _REPEAT.unpack_from(body, at + _HEADER.size)
            inner = known.get(number)
            begin = at + _REPEAT_BYTES
            headers = read_headers(view[begin : begin + size], inner.widths)
            records.append(Record(at, length, row, flags, inner, tuple(headers)))
        else:
            records.append(Record(at, length, row, flags))
        at += length
    return tuple(records)


def _holes(content: memoryview, count: int, body: bytes, records: tuple[Record, ...]) -> tuple[Hole, ...]:
    holes: list[Hole] = []
    end = 0
    number = 0
    allowed: list[tuple[int, int]] = []
    spans = -1  # the record that `allowed` is of
    for index in range(count):
        offset, width, zeros = _HOLE.unpack_from(content, index * _HOLE.size)
        if width not in _STORE or offset % width or zeros != b"\0\0\0":
            raise ProtocolError(f"hole {index}: {width} bytes at {offset}")
        if offset < end or offset + width > len(body):
            raise ProtocolError(f"hole {index} at {offset} is out of order, or beyond the body's {len(body)} bytes")
        end = offset + width
        while offset >= records[number].offset + records[number].length:
            number += 1
        if spans != number:
            allowed, spans = _allowed(body, records[number]), number
        if not any(first <= offset and end <= last for first, last in allowed):
            raise ProtocolError(f"hole {index} at {offset} lies where {records[number].row.name} may have none")
        if any(body[offset:end]):
            raise ProtocolError(f"hole {index} at {offset} is not 0 in the body")
        holes.append(Hole(offset, width, number))
    return tuple(holes)


def _allowed(body: bytes, record: Record) -> list[tuple[int, int]]:
    """The ranges of the body in which a record may have holes."""
    row, start = record.row, record.offset
    spans: list[tuple[int, int]] = []
    at = start + _HEADER.size
    for field in row.fields:
        if field.name == row.length_field or (record.inner is not None and field.name == "template"):
            spans.append((at, start + field.offset))
            at = start + field.offset + struct.calcsize("<" + field.format)
    spans.append((at, start + row.fixed))
    if record.inner is not None:
        spans += [(start + row.fixed + header.begin, start + row.fixed + header.end) for header in record.headers]
    elif row.length_field is not None:
        field = next(field for field in row.fields if field.name == row.length_field)
        size: int = struct.unpack_from("<I", body, start + field.offset)[0]
        first, last = spans.pop()
        spans.append((first, last + size))  # the tail is directly behind the fields
    return [(first, last) for first, last in spans if first < last]


def _check_inner_counts(template: Template) -> None:
    """An inner loop's count, where it is no hole."""
    holes = {(hole.record, hole.offset) for hole in template.holes}
    for number, record in enumerate(template.records):
        if record.inner is None:
            continue
        at = record.offset + _REPEAT_BYTES - 8
        if any((number, at + byte) in holes for byte in range(8)):
            continue
        (count,) = struct.unpack_from("<Q", template.body, at)
        check_repetitions(record.headers, count)


def check_repetitions(headers: Sequence[Header], count: int) -> None:
    """Raises ProtocolError when a REPEAT's count is impossible."""
    if not 0 < count <= MAX_COUNT:
        raise ProtocolError(f"a REPEAT of {count} iterations")
    check_count(headers, count)
