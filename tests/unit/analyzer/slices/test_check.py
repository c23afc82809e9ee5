"""Slices from an unknown writer: every rule is checked, damaged bytes give an error or a slice that can be evaluated."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from farlane.analyzer.slices import encode
from farlane.analyzer.slices.arithmetic import StuckError
from farlane.analyzer.slices.check import SliceError, check
from farlane.analyzer.slices.form import (
    Argument,
    Block,
    Branch,
    Call,
    Called,
    Code,
    Input,
    Jump,
    Leave,
    Operation,
    Origin,
    Place,
    Slice,
)
from farlane.limits.generated import SLICE_MEMORY, SLICE_REGISTERS
from slice_reference import Evaluation, Left, Made

# k = rbx; e = [rsp+8]; do { launch(k, e); copy to e; ++k; } while (e > 0.5 && k < 10);
GOOD = Slice(
    0x1234,
    6,
    16,
    (Input(Origin.REGISTER, 3, 0), Input(Origin.FRAME, 8, Place(0, 8)), Input(Origin.GLOBAL, 0x4010, Place(8, 4))),
    (
        Block((Operation(Code.LOAD, 8, 1, (), 0),), Called(0, 1)),
        Block((), Called(1, 2)),
        Block(
            (
                Operation(Code.CONSTANT, 8, 2, (), 1),
                Operation(Code.ADD, 4, 0, (0, 2)),
                Operation(Code.LOAD, 8, 3, (), 0),
                Operation(Code.CONSTANT, 8, 4, (), 0x3FE << 52),
                Operation(Code.F_LESS, 8, 5, (4, 3)),
            ),
            Branch(5, 3, 4),
        ),
        Block((Operation(Code.CONSTANT, 8, 4, (), 10), Operation(Code.LESS, 4, 5, (0, 4))), Branch(5, 5, 4)),
        Block((), Leave(0x2000)),
        Block((), Jump(0)),
    ),
    (
        Call(0x1234, "launch", (Argument(0, 4, 0), Argument(8, 8, Place(0, 8)))),
        Call(0x1300, "cudaMemcpy", (Argument(1, 8, 1),), None, Place(0, 8)),
    ),
    True,
)


def values(each: Input) -> bytes:
    size = each.to.size if isinstance(each.to, Place) else 8
    return (5).to_bytes(8, "little")[:size]


def test_a_good_one_is_evaluated() -> None:
    check(GOOD)
    evaluation = Evaluation(GOOD, values)
    events = []
    for event in evaluation.run():
        if isinstance(event, Made):
            events.append((event.call.site, event.arguments[0][0] if event.call.name == "launch" else None))
            if event.call.fills:
                evaluation.fill(event.call.fills, (0x3FF << 52).to_bytes(8, "little"))
        else:
            assert event == Left(0x2000)
    assert events == [each for k in range(5, 10) for each in ((0x1234, k), (0x1300, None))]
    assert evaluation.iterations == 5


def test_bytes_and_back() -> None:
    data = encode.write(GOOD)
    assert encode.read(data) == GOOD
    for cut in range(len(data)):
        with pytest.raises(SliceError):
            encode.read(data[:cut])
    with pytest.raises(SliceError):
        encode.read(data + b"\0")


def with_operation(operation: Operation) -> Slice:
    return replace(GOOD, blocks=(Block((operation,), GOOD.blocks[0].end), *GOOD.blocks[1:]))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (with_operation(Operation(Code.ADD, 4, 6, (0, 1))), "register 6"),
        (with_operation(Operation(Code.ADD, 4, 0, (0, 9))), "register 9"),
        (with_operation(Operation(Code.ADD, 3, 0, (0, 1))), "width"),
        (with_operation(Operation(Code.ADD, 4, 0, (0,))), "operands"),
        (with_operation(Operation(Code.ADD, 4, 0, (0, 1), 7)), "no immediate"),
        (with_operation(Operation(Code.F_ADD, 2, 0, (0, 1))), "width"),
        (with_operation(Operation(Code.LOAD, 8, 0, (), 9)), "a place"),
        (with_operation(Operation(Code.STORE, 8, -1, (0,), -1)), "a place"),
        (with_operation(Operation(Code.STORE, 8, 1, (0,), 0)), "no target"),
        (with_operation(Operation(Code.CONSTANT, 8, 0, (), 1 << 64)), "64 bits"),
        (replace(GOOD, floating=False), "not declared"),
        (replace(GOOD, blocks=()), "no blocks"),
        (replace(GOOD, registers=SLICE_REGISTERS + 1), "registers"),
        (replace(GOOD, memory=SLICE_MEMORY + 1), "memory"),
        (replace(GOOD, memory=8), "a place"),
        (replace(GOOD, blocks=(*GOOD.blocks[:5], Block((), Jump(6)))), "block 6"),
        (replace(GOOD, blocks=(*GOOD.blocks[:5], Block((), Jump(1)))), "cycle"),
        *(
            (replace(GOOD, blocks=(*GOOD.blocks[:5], Block((Operation(Code.LOAD_AT, 8, 2, (0,), named),), Jump(0)))), rule)
            for named, rule in ((7 << 16, "shorter"), (8 | 9 << 16, "a place"), (1 << 32 | 8 << 16, "a place"))
        ),
        (replace(GOOD, blocks=(*GOOD.blocks[:5], Block((), Called(2, 0)))), "call 2"),
        (replace(GOOD, inputs=(Input(Origin.REGISTER, 0, 0),)), "register 0"),
        (replace(GOOD, inputs=(Input(Origin.REGISTER, 3, 6),)), "register 6"),
        (replace(GOOD, inputs=(Input(Origin.FRAME, -8, Place(0, 8)),)), "outside of the frame"),
        (replace(GOOD, inputs=(Input(Origin.FRAME, 65532, Place(0, 8)),)), "outside of the frame"),
        (replace(GOOD, inputs=(Input(Origin.GLOBAL, 0, Place(0, 8)),)), "no address"),
        (replace(GOOD, inputs=(Input(Origin.BEHIND_REGISTER, 0, Place(0, 8)),)), "behind an address"),
        (replace(GOOD, inputs=(Input(Origin.BEHIND_REGISTER, 3 | 5000 << 32, Place(0, 8)),)), "behind an address"),
        (replace(GOOD, inputs=(Input(Origin.BEHIND_FRAME, 65532, Place(0, 8)),)), "behind an address"),
        (replace(GOOD, inputs=(Input(Origin.BEHIND_FRAME, 8, 0),)), "from a register"),
        (replace(GOOD, inputs=(Input(Origin.BIAS, 1, 0),)), "bias"),
        (replace(GOOD, inputs=(Input(Origin.BIAS, 0, Place(0, 9)),)), "longer than a register"),
        (replace(GOOD, calls=(Call(1, "a", (Argument(0, 8, 7),)), GOOD.calls[1])), "register 7"),
        (replace(GOOD, calls=(Call(1, "a", (Argument(0, 8, 0), Argument(0, 8, 0))), GOOD.calls[1])), "twice"),
        (replace(GOOD, calls=(Call(1, "a", (), Place(9, 8)), GOOD.calls[1])), "a place"),
        (replace(GOOD, calls=(Call(1, "a" * 256), GOOD.calls[1])), "name"),
        (replace(GOOD, blocks=(Block((Operation(Code.NOT, 8, 0, (0,)),) * 4097, GOOD.blocks[0].end), *GOOD.blocks[1:])), "operations"),
    ],
)  # fmt: skip
def test_each_rule(bad: Slice, words: str) -> None:
    with pytest.raises(SliceError, match=words):
        check(bad)


def test_damaged_bytes() -> None:
    data = encode.write(GOOD)
    draw = random.Random(5)
    kept = 0
    for _ in range(20_000):
        damaged = bytearray(data)
        for _ in range(draw.choice((1, 1, 2, 5))):
            damaged[draw.randrange(len(damaged))] = draw.choice((0, 1, 2, 7, 8, 255, draw.getrandbits(8)))
        try:
            found = encode.read(bytes(damaged))
        except SliceError:
            continue
        kept += 1
        assert encode.write(found) == bytes(damaged)
        evaluation = Evaluation(found, values)
        try:
            for event in evaluation.run():
                if isinstance(event, Made) and event.call.fills:
                    evaluation.fill(event.call.fills, bytes(draw.getrandbits(8) for _ in range(event.call.fills.size)))
                if evaluation.iterations > 50:
                    break
        except StuckError:
            pass
    assert kept > 500
