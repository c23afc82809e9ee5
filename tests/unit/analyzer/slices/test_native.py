"""The host's evaluator of slices (frontend/shim/crates/slices) beside the reference: the same bytes are slices, the same calls are made."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from farlane.analyzer.slices.arithmetic import StuckError
from farlane.analyzer.slices.check import SliceError
from farlane.analyzer.slices.encode import read, write
from farlane.analyzer.slices.form import (
    FLOATING,
    HAS_IMMEDIATE,
    SHAPES,
    STORES,
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
from slice_reference import Evaluation, Left, Made

SHIM = Path(__file__).parents[4] / "frontend/shim"
SPECIAL = [
    0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63, (1 << 63) - 1, (1 << 64) - 1,
    0x3F800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7FA00001, 0xFFC12345, 0x00000001, 0x4F000000, 0xCF000000, 0x3FC00000,
    0x3FF0000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x7FF0000000000001, 0xFFFFABCD12345678,
    0x41E0000000000000, 0xC1E0000000000000, 0x43E0000000000000, 0xC3E0000000000000, 0x3FE0000000000000, 0x47EFFFFFF0000000,
    0x36A0000000000000, 0x8000000000000001,
]  # fmt: skip


class Native:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n")


@pytest.fixture(scope="module")
def native() -> Iterator[Native]:
    command = ["cargo", "run", "--quiet", "--locked", "--package", "slices", "--example", "evaluate"]
    with subprocess.Popen(command, cwd=SHIM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Native(process)


def agree(native: Native, slice_: Slice, inputs: list[bytes], brought: random.Random, steps: int) -> None:
    """Both make the same calls, up to a number of them; so does the simplified slice, from the first iteration on."""
    assert native.ask(f"slice {write(slice_).hex()}") == "ok"
    assert native.ask("begin " + " ".join(data.hex() for data in inputs)) == "ok"
    state = brought.getstate()
    follow(native, slice_, inputs, brought, steps)
    assert native.ask("simplify") == "ok"
    brought.setstate(state)
    follow(native, slice_, inputs, brought, steps)


def follow(native: Native, slice_: Slice, inputs: list[bytes], brought: random.Random, steps: int) -> None:
    values = iter(inputs)
    reference = Evaluation(slice_, lambda _: next(values))
    events = reference.run()
    for _ in range(steps):
        said = "again"
        while said == "again":
            said = native.ask("step")
        try:
            event = next(events)
        except StuckError:
            assert said.startswith("stuck")
            return
        if isinstance(event, Left):
            assert said == f"left {event.address}"
            return
        assert said == expected(slice_, event)
        if event.call.fills is not None:
            data = brought.randbytes(event.call.fills.size)
            assert native.ask(f"fill {data.hex()}") == "ok"
            reference.fill(event.call.fills, data)


def expected(slice_: Slice, made: Made) -> str:
    source = "-" if made.source is None else made.source.hex()
    arguments = [f" {number}={value.hex()}" for number, value in made.arguments.items()]
    return f"called {slice_.calls.index(made.call)} {source}{''.join(arguments)}"


@pytest.mark.parametrize("code", [code for code in Code if code not in HAS_IMMEDIATE], ids=lambda code: code.name)
def test_each_operation(native: Native, code: Code) -> None:
    """On pairs of special values and on random ones, all widths."""
    operands, widths = SHAPES[code]
    chosen = random.Random(code)
    for width in sorted(widths):
        call = Call(1, "f", (Argument(0, 8, 3),))
        blocks = (
            Block((Operation(code, width, 3, tuple(range(operands))),), Called(0, 1)),
            Block((), Leave(5)),
        )
        inputs = tuple(Input(Origin.REGISTER, number + 6, number) for number in range(3))
        slice_ = Slice(1, 4, 0, inputs, blocks, (call,), code in FLOATING)
        assert native.ask(f"slice {write(slice_).hex()}") == "ok"
        for _ in range(150):
            values = [chosen.choice(SPECIAL) if chosen.random() < 0.7 else chosen.getrandbits(64) for _ in range(3)]
            agree(native, slice_, [value.to_bytes(8, "little") for value in values], chosen, 2)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_elements_of_arrays(native: Native, width: int) -> None:
    """Sums of an array that a loop of the slice goes over, forward and out of it."""
    count, size = 5, 5 * width
    body = (
        Operation(Code.LOAD_AT, width, 2, (0,), 8 | size << 16),
        Operation(Code.ADD, width, 1, (1, 2)),
        Operation(Code.STORE_AT, width, -1, (1, 0), 8 | size << 16),
        Operation(Code.CONSTANT, 8, 3, (), width),
        Operation(Code.ADD, 8, 0, (0, 3)),
        Operation(Code.BELOW, 8, 4, (0, 5)),
    )
    call = Call(1, "f", (Argument(0, width, 1), Argument(1, size, Place(8, size))))
    blocks = (Block((), Jump(1)), Block(body, Branch(4, 1, 2)), Block((), Called(0, 3)), Block((), Leave(5)))
    inputs = (
        *(Input(Origin.REGISTER, number, to) for number, to in ((3, 0), (5, 5))),
        Input(Origin.FRAME, 8, Place(8, size)),
    )
    slice_, chosen = Slice(1, 6, 8 + size, inputs, blocks, (call,)), random.Random(width)
    for start, end in ((0, size), (width, size), (0, 1), (0, size + 1), (size, 0), (1, size), (1 << 63, 0), (0, 0)):
        given = [start.to_bytes(8, "little"), end.to_bytes(8, "little"), chosen.randbytes(size)]
        agree(native, slice_, given, chosen, 2)
    assert native.ask("step") == "left 5"
    assert count * width == size


def test_what_does_not_end_is_stuck(native: Native) -> None:
    blocks = (Block((), Jump(1)), Block((), Jump(1)))
    agree(native, Slice(1, 0, 0, (), blocks, ()), [], random.Random(1), 1)
    assert native.ask("step").startswith("stuck")


def random_slice(chosen: random.Random) -> Slice:
    registers, memory = chosen.randint(4, 20), chosen.randint(16, 64)
    calls = tuple(
        Call(
            chosen.getrandbits(40),
            chosen.choice(["launch", "cudaMemcpy"]),
            tuple(
                Argument(number, *chosen.choice([(4, chosen.randrange(registers)), (8, Place(chosen.randrange(8), 8))]))
                for number in range(chosen.randint(0, 5))
            ),
            chosen.choice([None, Place(0, 8)]),
            chosen.choice([None, Place(chosen.randrange(8), chosen.randint(1, 8))]),
        )
        for _ in range(chosen.randint(1, 3))
    )
    count = chosen.randint(2, 6)
    blocks = []
    for index in range(count):
        operations = tuple(random_operation(chosen, registers, memory) for _ in range(chosen.randint(0, 12)))
        later = [*range(index + 1, count), 0]
        inner = [*later, index] if chosen.random() < 0.2 else later  # a loop without a call
        ends = [
            Jump(later[0]),
            Branch(chosen.randrange(registers), chosen.choice(inner), chosen.choice(later)),
            Called(chosen.randrange(len(calls)), later[0]),
        ]
        blocks.append(Block(operations, Leave(7) if index == count - 1 else chosen.choice(ends)))
    inputs = (
        Input(Origin.REGISTER, 3, 0),
        Input(Origin.FRAME, 8, Place(0, 16)),
        Input(Origin.GLOBAL, 0x4000, Place(4, 4)),
        Input(Origin.BEHIND_REGISTER, 3 | 8 << 32, Place(0, 12)),
        Input(Origin.BEHIND_FRAME, 16 | 4 << 32, Place(2, 3)),
        Input(Origin.BIAS, 0, 1),
    )
    return Slice(1, registers, memory, inputs, tuple(blocks), calls, True)


def random_operation(chosen: random.Random, registers: int, memory: int) -> Operation:
    code = chosen.choice(list(Code))
    operands, widths = SHAPES[code]
    width = chosen.choice(sorted(widths))
    immediate = chosen.choice(SPECIAL) if code == Code.CONSTANT else 0
    if code in (Code.LOAD, Code.STORE):
        immediate = chosen.randrange(memory - width + 1)
    if code in (Code.LOAD_AT, Code.STORE_AT):
        size = chosen.randint(width, memory)
        immediate = chosen.randrange(memory - size + 1) | size << 16
    target = -1 if code in STORES else chosen.randrange(registers)
    return Operation(code, width, target, tuple(chosen.randrange(registers) for _ in range(operands)), immediate)


def test_random_slices(native: Native) -> None:
    for seed in range(300):
        chosen = random.Random(seed)
        slice_ = random_slice(chosen)
        if any(
            block.end == Jump(0) or (isinstance(block.end, Branch) and 0 in block.end[1:]) for block in slice_.blocks
        ):
            continue  # it may go on without a call
        agree(native, slice_, [chosen.randbytes(size) for size in (8, 16, 4, 12, 3, 8)], chosen, 40)


def test_the_same_bytes_are_slices(native: Native) -> None:
    taken = 0
    for seed in range(1500):
        chosen = random.Random(seed)
        data = bytearray(write(random_slice(chosen)))
        for _ in range(chosen.randint(0, 3)):
            data[chosen.randrange(len(data))] = chosen.choice([0, 1, 2, 3, 8, 255, chosen.randrange(256)])
        if not chosen.randrange(6):
            del data[chosen.randrange(len(data)) :]
        try:
            read(bytes(data))
            good = True
        except SliceError:
            good = False
        assert (native.ask(f"slice {data.hex()}") == "ok") == good, (seed, data.hex())
        taken += good
    assert 200 < taken < 1400
