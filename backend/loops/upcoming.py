"""What launches will come, as far as the tape says: for devices that reuse memory (`Context.looks_ahead`).

Owns the reading of parameters out of records that have not been replayed yet: a message's, up to its first loop, and those of the iterations of a loop. A deferred group or loop is thus known
in advance. Nothing is checked or resolved here, and nothing depends on it but what stays in memory: a record that makes no sense is the replay's to find, and ends the look ahead.

Source: mission.md S4 point 1 (the order of accesses), S1 points 4 and 8.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.generated_operations import OPERATIONS
from farlane.backend.loops.columns import Columns
from farlane.backend.loops.store import TemplateStore
from farlane.backend.loops.template import REPEAT, Template

MOST = 256  # launches that are looked at

_HEADER = struct.Struct("<IHH")
_U32 = struct.Struct("<I")
_LAUNCH = next(row for row in OPERATIONS.values() if row.name == "LAUNCH")
_REPEAT = OPERATIONS[REPEAT]
_REPEAT_FIELDS = struct.Struct(_REPEAT.format)  # template, bytes of columns, count


class Ahead(NamedTuple):
    """Parameters of launches, in order, and how many iterations of a loop they are."""

    launches: list[bytes]
    iterations: int


def of_message(buffer: bytes, at: int, end: int) -> list[bytes]:
    """The parameters of the launches in buffer[at:end], up to the first loop."""
    found: list[bytes] = []
    while end - at >= _HEADER.size and len(found) < MOST:
        length, code, _ = _HEADER.unpack_from(buffer, at)
        if length < _HEADER.size or length > end - at or code == REPEAT:
            break
        if code == _LAUNCH.code:
            _add(found, buffer, at, length)
        at += length
    return found


def of_loop(templates: TemplateStore, template: Template, columns: Columns, first: int, end: int) -> Ahead:
    """The parameters of the launches of iterations [first, end), as many as are looked at. At least one iteration's, unless that alone has too many."""
    found: list[bytes] = []
    iteration = first
    while iteration < end:
        launches: list[bytes] = []
        body = template.fill(columns.rows(iteration, 1), 0)
        if not _iteration(templates, template, body, launches, MOST - len(found)):
            break
        if not launches:
            break  # a loop of copies
        found += launches
        iteration += 1
    return Ahead(found, iteration - first)


def _iteration(templates: TemplateStore, template: Template, body: bytes, found: list[bytes], most: int) -> bool:
    """Adds an iteration's launches. False when they are more than `most`, or do not make sense."""
    for record in template.records:
        if record.row.code == _LAUNCH.code:
            _add(found, body, record.offset, record.length)
        elif record.inner is not None:
            number, size, count = _REPEAT_FIELDS.unpack_from(body, record.offset + _HEADER.size)
            begin = record.offset + _REPEAT.fixed
            try:
                loop = templates.inner(number, count, memoryview(body)[begin : begin + size])
            except ProtocolError:
                return False
            for iteration in range(count if loop.template.has_launches else 0):
                inner = loop.template.fill(loop.columns.rows(iteration, 1), 0)
                if not _iteration(templates, loop.template, inner, found, most):
                    return False
        if len(found) > most:
            return False
    return True


def _add(found: list[bytes], data: bytes, at: int, length: int) -> None:
    if length >= _LAUNCH.fixed:
        (size,) = _U32.unpack_from(data, at + _LAUNCH.fixed - 4)
        begin = at + _LAUNCH.fixed
        if begin + size <= at + length:
            found.append(data[begin : begin + size])
