"""A loop that sets and reads memory as often as its one input says, its slice made by hand: for tests that send it, whole or mutated."""

from __future__ import annotations

from farlane.analyzer.slices import encode as forms
from farlane.analyzer.slices.form import (
    Argument,
    Block,
    Branch,
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
from farlane.backend.handlers.generated_operations import encode
from tape_client.loops import content, slice_content

COUNTING = Slice(
    entry=0x1000,
    registers=2,
    memory=4,
    inputs=(Input(Origin.REGISTER, 3, 0),),
    blocks=(
        Block((Operation(Code.CONSTANT, 8, 1, (), 1),), Called(0, 1)),
        Block((Operation(Code.SUBTRACT, 8, 0, (0, 1)),), Called(1, 2)),
        Block((), Branch(0, 0, 3)),
        Block((), Leave(0x2000)),
    ),
    calls=(Call(0x1000, "cudaMemset", (Argument(1, 8, 0),)), Call(0x1100, "cudaMemcpy", fills=Place(0, 4))),
)
RECORDS, FILLINGS = [0, 1], [(0, 0, 0, 0)]  # the records of its calls, and what is put into the hole


def template(base: int) -> bytes:
    """The template 0 of its records."""
    return template_of(40, encode("MEMSET", base, 4, 4, 1, 0, 4, 1, 0), encode("READ", base, 4, 4, 1, 1, 0))


def template_of(hole: int, *records: bytes) -> bytes:
    """The template 0, with a hole of 4 bytes for what counts down."""
    whole = content([(hole, 4)], *records)
    return encode("TEMPLATE", 0, 1, len(whole), 0, tail=whole)


def slice_record(whole: bytes, size: int) -> bytes:
    """The slice 0 with this content."""
    return encode("SLICE", 0, 0, size, len(whole), tail=whole)


def definition(template_record: bytes) -> bytes:
    """A template, and the slice that makes its records."""
    data = forms.write(COUNTING)
    return template_record + slice_record(slice_content(data, RECORDS, FILLINGS), len(data))
