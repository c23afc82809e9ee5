"""Reads the result records of the tape (protos/tape.md, "Results") for the Python client.

The bytes come from a host that is not trusted: every length is checked, and whatever breaks the page raises `ResultError`.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from farlane.limits.generated import RECORD_BYTES

_PREFIX = struct.Struct("<IHHIi")
_VALUE = struct.Struct("<Q")
_DATA = struct.Struct("<QII")


class ResultError(Exception):
    """Bytes that are no result records."""


class Kind(enum.IntEnum):
    """The kinds of result records."""

    STATUS = 1
    VALUE = 2
    DATA = 3


@dataclass(frozen=True)
class Result:
    """One result record; `error` is a cudaError_t. `value` is a VALUE's, `offset` and `data` are a DATA's."""

    kind: Kind
    slot: int
    error: int
    value: int = 0
    offset: int = 0
    data: bytes = b""


def parse_results(results: bytes) -> Iterator[Result]:
    """Yields the records. Raises ResultError at the first one that is malformed."""
    at = 0
    while at < len(results):
        left = len(results) - at
        if left < _PREFIX.size:
            raise ResultError(f"truncated result record ({left} bytes left)")
        length, kind, flags, slot, error = _PREFIX.unpack_from(results, at)
        if length % 8 or not _PREFIX.size <= length <= min(left, RECORD_BYTES):
            raise ResultError(f"result record of {length} bytes where {left} are left")
        if flags:
            raise ResultError(f"result record with unknown flags ({flags:#06x})")
        yield _parse(results[at + _PREFIX.size : at + length], kind, slot, error)
        at += length


def _parse(body: bytes, kind: int, slot: int, error: int) -> Result:
    if kind == Kind.STATUS and not body:
        return Result(Kind.STATUS, slot, error)
    if kind == Kind.VALUE and len(body) == _VALUE.size:
        return Result(Kind.VALUE, slot, error, value=_VALUE.unpack(body)[0])
    if kind == Kind.DATA and len(body) >= _DATA.size:
        offset, data_bytes, reserved = _DATA.unpack_from(body)
        if reserved:
            raise ResultError(f"result record whose reserved field is {reserved:#x}")
        if (_DATA.size + data_bytes + 7) & -8 != len(body):
            raise ResultError(f"{data_bytes} bytes of data in {len(body) - _DATA.size}")
        if error and data_bytes:
            raise ResultError(f"result record with error {error} and data")
        return Result(Kind.DATA, slot, error, offset=offset, data=body[_DATA.size : _DATA.size + data_bytes])
    raise ResultError(f"result record of kind {kind} with {len(body)} bytes")
