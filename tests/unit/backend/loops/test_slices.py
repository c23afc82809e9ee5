"""SLICEs and WHILEs that break a rule of protos/tape.md, "Slices", end the session."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

import pytest
from farlane.analyzer.slices import encode as forms
from farlane.analyzer.slices.form import (
    Argument,
    Block,
    Call,
    Called,
    Code,
    Input,
    Leave,
    Operation,
    Origin,
    Place,
    Slice,
)
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.generated_operations import encode
from farlane.limits.generated import SLICE_OPERATIONS
from tape_client.loops import NO_RECORD, content, slice_content

WRITTEN, COPIED, WAITED = 0, 1, 2  # calls
# `copy(a, &value, 8); copy(&value, a, 8); wait(); if (..) leave`
SLICE = Slice(
    entry=0x1000,
    registers=1,
    memory=8,
    inputs=(Input(Origin.REGISTER, 3, 0), Input(Origin.FRAME, 16, Place(0, 8))),
    blocks=(
        Block((), Called(WRITTEN, 1)),
        Block((), Called(COPIED, 2)),
        Block((), Called(WAITED, 3)),
        Block((), Leave(0x2000)),
    ),
    calls=(
        Call(0x1000, "cudaMemcpy", (Argument(0, 8, 0), Argument(2, 4, Place(0, 4))), source=Place(0, 8)),
        Call(0x1100, "cudaMemcpy", (Argument(1, 8, 0),), fills=Place(0, 8)),
        Call(0x1200, "cudaStreamSynchronize"),
    ),
)
WRITE, READ, WAIT = 0, 1, 2  # records
ADDRESS, DATA, FROM, RAISED = (8, 8), (48, 8), (56 + 8, 8), (56 + 24, 8)  # holes
HOLES = [ADDRESS, DATA, FROM]
FILLINGS = [(WRITTEN, 0, 0, 0), (WRITTEN, 1, 0, 0), (COPIED, 0, 0, 0)]


def body(size: int = 8) -> list[bytes]:
    return [
        encode("WRITE", 0, 8, 8, 1, 1, 8, tail=bytes(8)),
        encode("READ", 0, size, size, 1, 1, 5),
        encode("STREAM_SYNCHRONIZE", 1, 5),
    ]


@dataclass(frozen=True)
class Given:
    """A TEMPLATE and a SLICE."""

    number: int = 7
    template: int = 3
    body: tuple[bytes, ...] = tuple(body())
    holes: tuple[tuple[int, int], ...] = tuple(HOLES)
    slice_: Slice | bytes = SLICE
    slice_bytes: int | None = None
    records: tuple[int, ...] = (WRITE, READ, WAIT)
    fillings: tuple[tuple[int, int, int, int], ...] = tuple(FILLINGS)
    change: tuple[int, int] | None = None  # of the content
    behind: int = 0

    def encode(self) -> bytes:
        held = content(self.holes, *self.body)
        data = self.slice_ if isinstance(self.slice_, bytes) else forms.write(self.slice_)
        whole = bytearray(slice_content(data, self.records, self.fillings))
        if self.change is not None:
            at, byte = self.change
            whole[at] = byte
        whole = whole[: self.behind] if self.behind < 0 else whole + bytes(self.behind)
        size = len(data) if self.slice_bytes is None else self.slice_bytes
        return encode("TEMPLATE", 3, len(self.holes), len(held), 0, tail=held) + encode(
            "SLICE", self.number, self.template, size, len(whole), tail=bytes(whole)
        )

    def with_filling(self, index: int, *filling: int) -> Given:
        call, part, argument, offset = filling
        changed = [*self.fillings]
        changed[index] = (call, part, argument, offset)
        return replace(self, fillings=tuple(changed))


GIVEN = Given()
WRITTEN_BYTES = len(forms.write(SLICE))  # an odd number
RECORDS_AT = (WRITTEN_BYTES + 7) // 8 * 8
WRONG: dict[str, tuple[Given, str]] = {
    "number": (replace(GIVEN, number=1024), "slice 1024 is over 1023"),
    "template": (replace(GIVEN, template=4), "template 4 was not given"),
    "beyond the content": (replace(GIVEN, slice_bytes=1 << 20), "1048576 bytes, padded, where"),
    "far beyond": (replace(GIVEN, slice_bytes=2**32 - 1), "4294967295 bytes, padded"),
    "no slice": (replace(GIVEN, slice_=b"slice"), "not a slice: it is cut off"),
    "cut slice": (replace(GIVEN, slice_bytes=WRITTEN_BYTES - 1), "not a slice"),
    "a rule of its form": (replace(GIVEN, change=(8, 0)), "not a slice: register 0"),
    "padding of the slice": (replace(GIVEN, change=(RECORDS_AT - 1, 1)), "padding that is not 0"),
    "padding of the records": (replace(GIVEN, change=(RECORDS_AT + 12, 1)), "padding that is not 0"),
    "a record too few": (replace(GIVEN, records=(WRITE, READ), fillings=()), "bytes, padded, where"),
    "a hole too few": (replace(GIVEN, behind=-8), "24 bytes, padded, where 16 are left"),
    "bytes behind": (replace(GIVEN, behind=8), "8 bytes behind its content"),
    "a record that is not there": (replace(GIVEN, records=(WRITE, READ, 3)), "call 2 makes record 3 of 3"),
    "a record made twice": (replace(GIVEN, records=(WRITE, READ, READ)), "the calls 1 and 2 make record 1"),
    "fills without a record": (replace(GIVEN, records=(WRITE, NO_RECORD, WAIT)), "call 1 fills memory and makes no"),
    "fills without a READ": (
        replace(GIVEN, records=(WRITE, WAIT, READ)),
        "fills memory and makes a STREAM_SYNCHRONIZE",
    ),
    "a hole's call": (GIVEN.with_filling(0, 3, 0, 0, 0), "hole 0: call 3 of 3"),
    "a hole's part": (GIVEN.with_filling(0, WRITTEN, 2, 0, 0), "no part 2"),
    "a hole's argument": (GIVEN.with_filling(2, COPIED, 0, 1, 0), "hole 2: the call has no part 0 with the argument 1"),
    "an argument of the source": (GIVEN.with_filling(1, WRITTEN, 1, 1, 0), "no part 1 with the argument 1"),
    "no source": (GIVEN.with_filling(2, COPIED, 1, 0, 0), "no part 1"),
    "behind a register": (GIVEN.with_filling(0, WRITTEN, 0, 0, 1), "8 bytes at 1 of a value of 8"),
    "behind a place": (GIVEN.with_filling(0, WRITTEN, 0, 1, 0), "8 bytes at 0 of a value of 4"),
    "behind the source": (GIVEN.with_filling(1, WRITTEN, 1, 0, 0xFFFF), "8 bytes at 65535 of a value of 8"),
    "another record's hole": (GIVEN.with_filling(2, WRITTEN, 0, 0, 0), "hole 2: it lies in record 1, the call makes"),
    "no record's hole": (
        replace(GIVEN, slice_=SLICE, records=(NO_RECORD, READ, WAIT)),
        "hole 0: the call makes no record",
    ),
    "an entry's padding": (replace(GIVEN, change=(RECORDS_AT + 16 + 6, 1)), "hole 0: fields that are not defined"),
    "a VALUE": (replace(GIVEN, body=(*body()[:2], encode("EVENT_ELAPSED", 16, 17, 5, 0))), "which yields a VALUE"),
    "a loop": (replace(GIVEN, body=(*body()[:2], encode("REPEAT", 1, 0, 1))), "record 2 is a REPEAT"),
    "a condition": (
        replace(GIVEN, body=(*body()[:2], encode("CONDITIONAL", 0, 1, 0, 0, 4, tail=bytes(4)))),
        "record 2 is a CONDITIONAL",
    ),
    "a slot": (replace(GIVEN, holes=(ADDRESS, DATA, (56 + 44, 4))), "a hole in the slot of record 1"),
}


def while_(size: int = 16, number: int = 7, *, continued: bool = False, iterations: int = 0) -> bytes:
    return encode("WHILE", number, 9, iterations, 0, size, tail=bytes(size), flags=int(continued))


@pytest.fixture
def prepared(guest: Any) -> Any:
    held = encode("FENCE", 3, 0)
    assert guest.submit(encode("TEMPLATE", 1, 0, len(held), 0, tail=held)).error == 0
    return guest


def test_what_keeps_the_rules_is_taken(prepared: Any) -> None:
    done = prepared.submit(GIVEN.encode(), while_())
    assert [result.kind for result in done.results] == [3, 2]


@pytest.mark.parametrize(("given", "rule"), WRONG.values(), ids=WRONG)
def test_a_broken_rule_of_a_slice_ends_the_session(prepared: Any, given: Given, rule: str) -> None:
    with pytest.raises(ProtocolError, match=rule):
        prepared.submit(given.encode())


@pytest.mark.parametrize(
    ("records", "rule"),
    [
        ([while_(number=8)], "slice 8 was not given"),
        ([while_(8)], "8 bytes of inputs are not those of slice 7"),
        ([while_(15)], "15 bytes of inputs are not"),
        ([while_(24)], "24 bytes of inputs are not"),
        ([while_(0, continued=True)], "slice 7 cannot be continued"),
        ([while_(), while_(16, continued=True)], "cannot be continued, with 16 bytes"),
        ([while_(), while_(0, 8, continued=True)], "slice 8 cannot be continued"),
        ([while_(), GIVEN.encode(), while_(0, continued=True)], "cannot be continued"),
        ([replace(GIVEN, number=8).encode(), while_()], "slice 7 was not given"),
        ([while_(), replace(GIVEN, number=8).encode(), while_(0, continued=True)], "cannot be continued"),
        ([replace(GIVEN, body=tuple(body(4))).encode(), while_()], "a READ of 4 times 1 bytes for a call that fills 8"),
    ],
)
def test_a_broken_rule_of_a_while_ends_the_session(guest: Any, records: list[bytes], rule: str) -> None:
    assert guest.submit(GIVEN.encode()).error == 0
    with pytest.raises(ProtocolError, match=rule):
        guest.submit(*records)


def test_a_read_may_be_of_another_size_in_each_iteration(guest: Any) -> None:
    """Its width is a hole: what the slice puts there must fit."""
    slice_ = replace(
        SLICE, calls=(SLICE.calls[0], SLICE.calls[1]._replace(arguments=(Argument(2, 8, 0),)), SLICE.calls[2])
    )
    given = replace(GIVEN, slice_=slice_, holes=(ADDRESS, DATA, RAISED))
    for width in (8, 4):
        inputs = struct.pack("<QQ", width, 0)
        record = encode("WHILE", 7, 9, 0, 0, 16, tail=inputs)
        guest.submit(encode("ALLOCATE", guest.base, 256), encode("FREE", guest.base), given.encode())
        if width == 8:
            assert guest.submit(record).results[-1].value & 0xFF == 2, "there is no memory at 0"
        else:
            with pytest.raises(ProtocolError, match="a READ of 4 times 1 bytes"):
                guest.submit(record)


def test_a_record_may_be_made_by_no_call(guest: Any) -> None:
    given = replace(GIVEN, records=(WRITE, READ, NO_RECORD))
    done = guest.submit(given.encode(), while_())
    assert {result.slot for result in done.results} == {9}


def test_slices_are_bounded(guest: Any) -> None:
    long = Slice(0x1000, 1, 0, (), (Block((Operation(Code.CONSTANT, 8, 0),) * SLICE_OPERATIONS, Leave(1)),), ())
    given = replace(GIVEN, slice_=long, records=(), fillings=(), holes=())
    size = len(forms.write(long))
    most = (16 << 20) // (size + -size % 8)
    held = given.encode()
    for _ in range(3):
        guest.submit(held)  # anew
    for number in range(most):
        guest.submit(replace(given, number=number).encode()[-(size + -size % 8 + 24) :])
    with pytest.raises(ProtocolError, match="the session's slices have more than 16777216 bytes"):
        guest.submit(replace(given, number=most).encode()[-(size + -size % 8 + 24) :])
