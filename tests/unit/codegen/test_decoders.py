"""The generated decoders: they read back what was written, and refuse every record that breaks tape.md."""

from __future__ import annotations

import struct

import pytest
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.generated_operations import OPERATIONS, Operation, encode
from hypothesis import given
from hypothesis import strategies as st

LIMITS = {"B": (0, 0xFF), "H": (0, 0xFFFF), "I": (0, 2**32 - 1), "Q": (0, 2**64 - 1), "i": (-(2**31), 2**31 - 1)}


@st.composite
def records(draw: st.DrawFn) -> tuple[Operation, bytes, tuple[object, ...], int]:
    """An operation, a valid record of it, the arguments its handler gets, the record's flags."""
    operation = draw(st.sampled_from(list(OPERATIONS.values())))
    tail = draw(st.binary(max_size=70)) if operation.tail else b""
    values: list[int | bytes] = []
    arguments: list[object] = []
    for field in operation.fields:
        if field.name == operation.length_field:
            values.append(len(tail))
            continue
        if field.format.endswith("s"):
            size = int(field.format[:-1])
            drawn: list[int | bytes] = [draw(st.binary(min_size=size, max_size=size))]
        elif field.name == "reserved":
            drawn = [0]
        else:
            drawn = [draw(st.integers(*LIMITS[letter])) for letter in field.format]
        values += drawn
        if field.name not in ("reserved", "slot"):
            arguments += drawn
    if operation.tail:
        arguments.append(tail)
    flags = draw(st.integers(0, 0xFFFF)) & operation.flags
    return operation, encode(operation.name, *values, tail=tail, flags=flags), tuple(arguments), flags


def decode(operation: Operation, record: bytes, before: int = 0) -> tuple[object, ...]:
    length, _, flags = struct.unpack_from("<IHH", record)
    buffer = bytes(before) + record
    arguments = operation.decode(buffer, memoryview(buffer), before, length, flags)
    return tuple(bytes(value) if isinstance(value, memoryview) else value for value in arguments)


@given(records(), st.integers(0, 3))
def test_what_was_written_is_read(sample: tuple[Operation, bytes, tuple[object, ...], int], before: int) -> None:
    operation, record, arguments, _ = sample
    assert len(record) % 8 == 0
    assert struct.unpack_from("<IH", record) == (len(record), operation.code)
    assert decode(operation, record, 8 * before) == arguments


@given(records(), st.sampled_from([-8, 8, 16]))
def test_wrong_length_is_refused(sample: tuple[Operation, bytes, tuple[object, ...], int], change: int) -> None:
    operation, record, _, _ = sample
    length = len(record) + change
    record = struct.pack("<I", max(length, 0)) + (record + bytes(16))[4:]
    with pytest.raises(ProtocolError, match=f"malformed {operation.name} record at byte 0"):
        decode(operation, record)


@given(records(), st.integers(1, 0xFFFF))
def test_undefined_flags_are_refused(sample: tuple[Operation, bytes, tuple[object, ...], int], flags: int) -> None:
    operation, record, arguments, _ = sample
    record = record[:6] + struct.pack("<H", flags) + record[8:]
    if flags & ~operation.flags:
        with pytest.raises(ProtocolError, match="length or flags"):
            decode(operation, record)
    else:
        assert decode(operation, record) == arguments


@given(records(), st.integers(1, 2**32 - 1))
def test_reserved_fields_must_be_zero(sample: tuple[Operation, bytes, tuple[object, ...], int], value: int) -> None:
    operation, record, arguments, _ = sample
    for field in operation.fields:
        if field.name == "reserved":
            spoiled = record[: field.offset] + struct.pack("<I", value) + record[field.offset + 4 :]
            with pytest.raises(ProtocolError, match="reserved is not 0"):
                decode(operation, spoiled)
            return
    assert decode(operation, record) == arguments


@given(records(), st.integers(0, 2**32 - 1))
def test_tail_must_be_as_long_as_the_record_says(
    sample: tuple[Operation, bytes, tuple[object, ...], int], size: int
) -> None:
    operation, record, arguments, _ = sample
    offsets = {field.name: field.offset for field in operation.fields}
    if operation.length_field is None:
        assert decode(operation, record) == arguments
        return
    at = offsets[operation.length_field]
    spoiled = record[:at] + struct.pack("<I", size) + record[at + 4 :]
    if (operation.fixed + size + 7) & -8 == len(record):
        assert len(bytes(decode(operation, spoiled)[-1])) == size  # type: ignore[arg-type]
    else:
        with pytest.raises(ProtocolError, match="length of the tail"):
            decode(operation, spoiled)
