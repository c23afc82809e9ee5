"""A loop's body, as the plane has checked it: what plans are made of.

Owns nothing: the rules of tape.md are the plane's (backend/plane/src/replay/loops).

Source: protos/tape.md, "Loops".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from farlane.backend.handlers.generated_operations import OPERATIONS, Operation

if TYPE_CHECKING:
    from farlane.backend.plane import PlainTemplate

AFFINE, VALUES, PERIODIC, SAME = range(4)


class Hole(NamedTuple):
    offset: int  # in the body
    width: int
    record: int  # which record it lies in


class Header(NamedTuple):
    """A column: where its values are, in the columns' bytes."""

    kind: int
    lag: int
    number: int
    width: int
    begin: int
    end: int  # without padding


class Record(NamedTuple):
    """One record of a body; of a REPEAT, its template and columns."""

    offset: int
    length: int
    row: Operation
    flags: int
    inner: Template | None
    headers: tuple[Header, ...]


class Template(NamedTuple):
    number: int
    body: bytes
    holes: tuple[Hole, ...]
    records: tuple[Record, ...]

    @classmethod
    def of(cls, plain: PlainTemplate) -> Template:
        """The template that the plane describes."""
        number, body, holes, records = plain
        return cls(
            number,
            body,
            tuple(Hole(*hole) for hole in holes),
            tuple(
                Record(
                    offset,
                    length,
                    OPERATIONS[code],
                    flags,
                    None if inner is None else cls.of(inner),
                    tuple(Header(*header) for header in headers),
                )
                for offset, length, code, flags, inner, headers in records
            ),
        )
