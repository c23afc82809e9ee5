"""The generated decoders read back what was written. What breaks tape.md never comes to them (crate `tape`, rows.rs)."""

from __future__ import annotations

import struct

from farlane.backend.handlers.generated_operations import OPERATIONS, Operation, encode
from hypothesis import given
from hypothesis import strategies as st

LIMITS = {"B": (0, 0xFF), "H": (0, 0xFFFF), "I": (0, 2**32 - 1), "Q": (0, 2**64 - 1), "i": (-(2**31), 2**31 - 1)}


@st.composite
def records(draw: st.DrawFn) -> tuple[Operation, bytes, tuple[object, ...]]:
    """An operation, a valid record of it, the arguments its handler gets."""
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
    return operation, encode(operation.name, *values, tail=tail, flags=flags), tuple(arguments)


@given(records())
def test_what_was_written_is_read(sample: tuple[Operation, bytes, tuple[object, ...]]) -> None:
    operation, record, arguments = sample
    assert len(record) % 8 == 0
    assert struct.unpack_from("<IH", record) == (len(record), operation.code)
    decoded = tuple(bytes(value) if isinstance(value, memoryview) else value for value in operation.decode(record))
    assert decoded == arguments
