"""Loops and columns for the Python client: the contents of TEMPLATE, REPEAT and SLICE records.

Owns their layout alone; the records around them are `generated_operations`'. Finding loops in a program is the shim's.

Source: protos/tape.md, "Loops" and "Slices".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_COLUMN = struct.Struct("<BBHI")
_AFFINE = struct.Struct("<QQ")
_HOLE = struct.Struct("<IB3x")
_FILLING = struct.Struct("<HBBHxx")
NO_RECORD = 0xFFFFFFFF
_MASK = (1 << 64) - 1
_LETTERS = {1: "B", 2: "H", 4: "I", 8: "Q"}


def content(holes: Sequence[tuple[int, int]], *records: bytes) -> bytes:
    """A TEMPLATE's content: holes as (offset in the body, width), and the records, whose bytes there become 0."""
    body = bytearray(b"".join(records))
    for offset, width in holes:
        body[offset : offset + width] = bytes(width)
    return b"".join(_HOLE.pack(offset, width) for offset, width in holes) + body


def slice_content(
    slice_bytes: bytes, records: Sequence[int], fillings: Sequence[tuple[int, int, int, int]] = ()
) -> bytes:
    """A SLICE's content: for each call its record (NO_RECORD: none), for each hole (call, part, argument, offset)."""
    numbers = struct.pack(f"<{len(records)}I", *records)
    return _padded(slice_bytes) + _padded(numbers) + b"".join(_FILLING.pack(*filling) for filling in fillings)


def affine(start: int, step: int) -> bytes:
    """start + k step in iteration k."""
    return _COLUMN.pack(0, 0, 0, 0) + _AFFINE.pack(start & _MASK, step & _MASK)


def values(width: int, numbers: Sequence[int]) -> bytes:
    """A value of `width` bytes for each iteration."""
    return _COLUMN.pack(1, 0, 0, len(numbers)) + _packed(width, numbers)


def periodic(width: int, numbers: Sequence[int]) -> bytes:
    """These values, again and again."""
    return _COLUMN.pack(2, 0, 0, len(numbers)) + _packed(width, numbers)


def same(column: int, width: int = 8, first: Sequence[int] = ()) -> bytes:
    """What another column held len(first) iterations ago, and before that these values."""
    return _COLUMN.pack(3, len(first), 0, column) + _packed(width, first)


def _packed(width: int, numbers: Sequence[int]) -> bytes:
    return _padded(struct.pack(f"<{len(numbers)}{_LETTERS[width]}", *numbers))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
