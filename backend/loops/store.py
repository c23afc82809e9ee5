"""The templates of a session, and where their loops on the tape have got to.

Owns the numbers, which template contains which, and the state that a REPEAT with the flag `continued` goes on from.

Locking: none. One session, one thread at a time.
Source: protos/tape.md, "Loops".
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from farlane.backend.errors import ProtocolError
from farlane.backend.loops.columns import VALUES, Columns, read_headers
from farlane.backend.loops.template import CONTINUED, Template, check_repetitions, read_template

MAX_CONTENT = 16 << 20  # bytes of a session's templates
MAX_CONTINUED = 4096  # bytes of columns that a REPEAT may go on with
_EVALUATED = 64  # templates whose columns are kept as they were evaluated


@dataclass
class _Entry:
    template: Template
    columns: bytes = b""
    next: int | None = None  # the iteration that a continued REPEAT begins with; None: it may not be continued


class Repetition(NamedTuple):
    """Iterations [first, first + count) of a template."""

    template: Template
    columns: Columns
    first: int
    repetitions: int


class TemplateStore:
    """What TEMPLATE and REPEAT of one session's tape work on."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._users: dict[int, int] = {}  # how many templates contain one
        self._evaluated: OrderedDict[int, Columns] = OrderedDict()
        self._bytes = 0

    def get(self, number: int) -> Template:
        return self._entry(number).template

    def _entry(self, number: int) -> _Entry:
        entry = self._entries.get(number)
        if entry is None:
            raise ProtocolError(f"template {number} was not given")
        return entry

    def define(self, number: int, holes: int, content: memoryview) -> Template:
        """A TEMPLATE. Raises ProtocolError."""
        if self._users.get(number):
            raise ProtocolError(f"template {number} is given anew while another one contains it")
        before = self._entries.pop(number, None)  # so that it does not contain itself
        template = read_template(number, holes, content, self)
        if before is not None:
            self._count(before.template, -1)
        self._count(template, 1)
        if self._bytes > MAX_CONTENT:
            raise ProtocolError(f"the session's templates have more than {MAX_CONTENT} bytes")
        self._entries[number] = _Entry(template)
        self._evaluated.pop(number, None)
        return template

    def _count(self, template: Template, change: int) -> None:
        self._bytes += change * template.size
        for inner in template.contains:
            self._users[inner] = self._users.get(inner, 0) + change

    def repeat(self, flags: int, number: int, count: int, columns: memoryview) -> Repetition:
        """A REPEAT that stands on the tape itself. Raises ProtocolError."""
        entry = self._entry(number)
        if flags & CONTINUED:
            if len(columns) or entry.next is None:
                raise ProtocolError(f"template {number} cannot be continued, with {len(columns)} bytes of columns")
            check_repetitions((), count)
            ready = self._evaluated.get(number)
            if ready is None:
                ready = Columns(read_headers(memoryview(entry.columns), entry.template.widths), entry.columns)
        else:
            headers = read_headers(columns, entry.template.widths)
            check_repetitions(headers, count)
            lasting = len(columns) <= MAX_CONTINUED and not any(header.kind == VALUES for header in headers)
            entry.next = 0 if lasting else None
            entry.columns = bytes(columns) if lasting else b""
            ready = Columns(headers, entry.columns if lasting else columns)
        first = entry.next or 0
        self._evaluated.pop(number, None)
        if entry.next is not None:
            entry.next = first + count
            self._evaluated[number] = ready
            if len(self._evaluated) > _EVALUATED:
                self._evaluated.popitem(last=False)
        return Repetition(entry.template, ready, first, count)

    def inner(self, number: int, count: int, columns: memoryview) -> Repetition:
        """A REPEAT in a body, its holes filled. Raises ProtocolError."""
        template = self.get(number)
        headers = read_headers(columns, template.widths)
        check_repetitions(headers, count)
        return Repetition(template, Columns(headers, columns), 0, count)

    def clear(self) -> None:
        self._entries.clear()
        self._users.clear()
        self._evaluated.clear()
        self._bytes = 0
