"""A WHILE is exactly the records of the calls that its slice decides: random slices, beside the reference evaluator.

The reference (analyzer/slices/evaluate.py) drives the same records, which are sent one by one. Results, errors, why the loop stops, and memory must
agree, wherever WHILEs with bounds cut the loop.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from farlane.analyzer.slices import encode as forms
from farlane.analyzer.slices.arithmetic import StuckError
from farlane.analyzer.slices.form import (
    SHAPES,
    STORES,
    Argument,
    Block,
    Branch,
    Call,
    Called,
    Code,
    End,
    Input,
    Jump,
    Leave,
    Operation,
    Origin,
    Place,
    Slice,
)
from farlane.backend.device import registry
from farlane.backend.device.options import DeviceOptions
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.host import Host
from slice_reference import Evaluation, Left
from tape_client.loops import NO_RECORD, content, slice_content

BOUND, LEFT, ERROR, STUCK = range(4)
ROUNDS = 300
SLOT = 21
WORDS = 64
REGISTERS, MEMORY = 10, 48
INDEX, MASK = REGISTERS, REGISTERS + 1  # set before each call: a number below 64
INTERESTING = [0, 1, 2, 3, 7, 63, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 0x3FF0000000000000, 0x3F800000]
IMAGE = b"""
.version 7.5
.target sm_75
.address_size 64

// word[at] = 3 * word[at] + value: no two orders give the same
.visible .entry mix(.param .u64 word, .param .u32 at, .param .u16 value)
{
    .reg .b16 %rs<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [word];
    ld.param.u32 %r1, [at];
    ld.param.u16 %rs1, [value];
    cvt.u32.u16 %r2, %rs1;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r3, [%rd3];
    mad.lo.s32 %r3, %r3, 3, %r2;
    st.global.u32 [%rd3], %r3;
    ret;
}
"""


@dataclass
class Made:
    """A call, its record and the holes in it: (offset, width, part, argument, offset in the value)."""

    call: Call
    record: bytes | None
    holes: list[tuple[int, int, int, int, int]]


class Maker:
    """Random slices and the records that their calls make."""

    def __init__(self, rng: random.Random, base: int) -> None:
        self.rng, self.base = rng, base

    def place(self, size: int) -> Place:
        return Place(self.rng.randrange(MEMORY - size + 1), size)

    def argument(self, number: int, width: int) -> tuple[Argument, int]:
        """A value of so many bytes or more, and where in it the hole's begin."""
        rng = self.rng
        whole = rng.choice([size for size in (1, 2, 4, 8) if size >= width])
        offset = rng.randrange(whole - width + 1)
        value: int | Place = self.place(whole) if rng.random() < 0.3 else rng.randrange(REGISTERS)
        return Argument(number, whole, value), offset

    def made(self) -> Made:
        rng, base = self.rng, self.base
        kind = rng.choice(["launch", "launch", "read", "read", "read", "write", "set", "wait", "none"])
        if kind == "launch":
            parameters = struct.pack("<QIH2x", base, 0, 0)
            record = encode("LAUNCH", 16, 1, 1, 1, 1, 1, 1, 1, 0, len(parameters), tail=parameters)
            value, offset = self.argument(10, 2)
            call = Call(0x1000, "launch", (Argument(9, 4, INDEX), value))
            return Made(call, record, [(56, 4, 0, 0, 0), (60, 2, 0, 1, offset)])
        if kind == "read":
            size = rng.choice([1, 4, 8, 12, 40])
            record = encode("READ", base + rng.randrange(4 * WORDS - size), size, size, 1, 1, 0)
            call = Call(0x1100, "cudaMemcpy", (), fills=self.place(size) if rng.random() < 0.8 else None)
            if rng.random() < 0.1:  # of what is not there
                value, offset = self.argument(1, 4)
                return Made(call._replace(arguments=(value,)), record, [(12, 4, 0, 0, offset)])
            return Made(call, record, [])
        if kind == "write":
            record = encode("WRITE", base + 8 * rng.randrange(WORDS // 2), 8, 8, 1, 1, 8, tail=bytes(8))
            return Made(Call(0x1200, "cudaMemcpy", (), source=self.place(8)), record, [(48, 8, 1, 0, 0)])
        if kind == "set":
            record = encode("MEMSET", base, 0, 4, 1, 0, 4, 1, 0)
            value, offset = self.argument(1, 4)
            if rng.random() < 0.1:  # of what is not there: the next result tells it
                return Made(Call(0x1300, "cudaMemset", (value,)), record, [(12, 4, 0, 0, offset)])
            return Made(Call(0x1300, "cudaMemset", (value,)), record, [(40, 4, 0, 0, offset)])
        if kind == "wait":
            return Made(Call(0x1400, "cudaStreamSynchronize"), encode("STREAM_SYNCHRONIZE", 1, 0), [])
        return Made(Call(0x1500, "cudaGetLastError"), None, [])

    def operation(self) -> Operation:
        rng = self.rng
        code = rng.choice([*Code, Code.LOAD, Code.LOAD, Code.STORE, Code.CONSTANT, Code.ADD, Code.SUBTRACT])
        if code.name.startswith(("DIVIDE", "REMAINDER", "LOAD_AT", "STORE_AT")) and rng.random() < 0.7:
            code = Code.SUBTRACT
        count, widths = SHAPES[code]
        width = rng.choice(sorted(widths))
        target = -1 if code in STORES else rng.randrange(REGISTERS)
        immediate = 0
        if code == Code.CONSTANT:
            immediate = rng.choice(INTERESTING)
        elif code in (Code.LOAD, Code.STORE):
            immediate = rng.randrange(MEMORY - width + 1)
        elif code in (Code.LOAD_AT, Code.STORE_AT):
            offset = rng.randrange(MEMORY - width + 1)
            immediate = offset | rng.randrange(width, MEMORY - offset + 1) << 16
        return Operation(code, width, target, tuple(rng.randrange(REGISTERS) for _ in range(count)), immediate)

    def block(self, at: int, blocks: int, calls: int) -> Block:
        rng = self.rng
        operations = [self.operation() for _ in range(rng.randrange(6))]
        later = [*range(at + 1, blocks), 0]
        end: End
        kind = rng.random()
        if at == 0 or kind < 0.55:
            operations += [
                Operation(Code.CONSTANT, 8, MASK, (), WORDS - 1),
                Operation(Code.AND, 8, INDEX, (rng.randrange(REGISTERS), MASK)),
            ]
            end = Called(rng.randrange(calls), rng.choice(later))
        elif kind < 0.85:
            again = at if rng.random() < 0.2 else rng.choice(later)  # a loop of host code
            end = Branch(rng.randrange(REGISTERS), again, rng.choice(later))
        else:
            end = Jump(rng.choice(later)) if kind < 0.93 else Leave(0x2000)
        return Block(tuple(operations), end)

    def slice(self, calls: list[Made]) -> Slice:
        blocks = self.rng.randrange(2, 12)
        return Slice(
            entry=0x1000,
            registers=REGISTERS + 2,
            memory=MEMORY,
            inputs=(
                *(Input(Origin.REGISTER, 3, number) for number in range(REGISTERS)),
                Input(Origin.FRAME, 16, Place(0, MEMORY)),
            ),
            blocks=tuple(self.block(at, blocks, len(calls)) for at in range(blocks)),
            calls=tuple(made.call for made in calls),
            floating=True,
        )


@dataclass
class Story:
    """What a guest sees of a loop."""

    reason: int
    iterations: int
    results: list[Any]
    error: int


def reference(guest: Any, slice_: Slice, calls: list[Made], inputs: list[bytes], bound: int) -> Story:
    """The records one by one, those without a result with the next one that has one."""
    values = iter(inputs)
    evaluation = Evaluation(slice_, lambda _: next(values))
    results: list[Any] = []
    waiting: list[bytes] = []

    def story(reason: int) -> Story:
        if evaluation.iterations > bound:
            reason = BOUND
        left = guest.submit(*waiting)
        assert not left.results
        return Story(reason, min(evaluation.iterations, bound), results, left.error)

    try:
        for event in evaluation.run():
            if evaluation.iterations > bound:
                return story(BOUND)
            if isinstance(event, Left):
                return story(LEFT)
            made = calls[slice_.calls.index(event.call)]
            if made.record is None:
                continue
            record = bytearray(made.record)
            for at, width, part, argument, offset in made.holes:
                source = event.source if part else event.arguments[event.call.arguments[argument].number]
                assert source is not None
                record[at : at + width] = source[offset : offset + width]
            slot = {"cudaMemcpy": 44, "cudaStreamSynchronize": 12}.get(event.call.name)
            if slot is None or event.call.source is not None:
                waiting.append(bytes(record))
                continue
            record[slot : slot + 4] = struct.pack("<I", SLOT)
            done = guest.submit(*waiting, bytes(record))
            waiting = []
            results += done.results
            if any(result.error for result in done.results):
                return story(ERROR)
            if event.call.fills is not None:
                evaluation.fill(event.call.fills, b"".join(result.data for result in done.results))
    except StuckError:
        return story(STUCK)
    raise AssertionError("a slice ends by an event")


def decided(guest: Any, inputs: list[bytes], bounds: list[int]) -> Story:
    """By WHILEs in one group."""
    data = b"".join(inputs)
    records = [encode("WHILE", 0, SLOT, bounds[0], 0, len(data), tail=data)]
    records += [encode("WHILE", 0, SLOT, bound, 0, 0, flags=1) for bound in bounds[1:]]
    done = guest.submit(*records)
    values = [result.value for result in done.results if result.kind == 2]
    assert len(values) == len(bounds)
    assert values == sorted(values, key=lambda value: value >> 8)
    results = [result for result in done.results if result.kind != 2]
    return Story(values[-1] & 0xFF, values[-1] >> 8, results, done.error)


@pytest.fixture
def host(how: str) -> Iterator[Host]:
    bounded = DeviceOptions(memory=2 << 20, policy="future") if how == "little memory" else None
    host = Host(registry.open_device("null" if how == "null" else "sim", bounded), quota=8 << 20)
    yield host
    host.close()


@pytest.mark.parametrize("how", ["null", "sim", "checks", "little memory"])
def test_a_while_is_its_records(new_guest: Any, how: str) -> None:
    rng = random.Random(23)
    guest = new_guest(("memory",) if how == "checks" else ())
    guest.submit(encode("ALLOCATE", guest.base, 1024))
    guest.open_module(image=IMAGE)
    guest.open_function(name=b"mix")
    maker = Maker(rng, guest.base)
    reasons: Counter[int] = Counter()
    told = filled = 0
    for round_ in range(ROUNDS):
        calls = [maker.made() for _ in range(rng.randrange(1, 6))]
        for place, made in enumerate(calls):  # so that each call is told from the others
            made.call = made.call._replace(site=0x1000 + place)
        slice_ = maker.slice(calls)
        order = [place for place, made in enumerate(calls) if made.record is not None]
        rng.shuffle(order)
        records, holes, fillings = [encode("FENCE", 1, 0)], [], []  # a record that no call makes
        numbers = [NO_RECORD] * len(calls)
        for place in order:
            start = sum(map(len, records))
            numbers[place] = len(records)
            record = calls[place].record
            assert record is not None
            records.append(record)
            for at, width, part, argument, offset in calls[place].holes:
                holes.append((start + at, width))
                fillings.append((place, part, argument, offset))
        inputs = [struct.pack("<Q", rng.choice([*INTERESTING, rng.getrandbits(64)])) for _ in range(REGISTERS)]
        inputs.append(rng.randbytes(MEMORY))
        memory = rng.randbytes(4 * WORDS)
        fresh = encode("WRITE", guest.base, 0, len(memory), 1, 1, len(memory), tail=memory)
        look = encode("READ", guest.base, 0, 4 * WORDS, 1, 1, 9)
        bounds = [rng.randrange(1, 9) for _ in range(rng.randrange(1, 5))]

        held, data = content(holes, *records), forms.write(slice_)
        whole = slice_content(data, numbers, fillings)
        given = (
            encode("TEMPLATE", 0, len(holes), len(held), 0, tail=held),
            encode("SLICE", 0, 0, len(data), len(whole), tail=whole),
        )
        assert guest.submit(*given, fresh).error == 0
        expected = reference(guest, slice_, calls, inputs, sum(bounds))
        expected_memory = guest.submit(look).results
        assert guest.submit(fresh).error == 0
        assert decided(guest, inputs, bounds) == expected, f"slice {round_}"
        assert guest.submit(look).results == expected_memory, f"slice {round_}"
        reasons[expected.reason] += 1
        told += any(result.error for result in expected.results)
        filled += sum(result.kind == 3 for result in expected.results)
    assert min(reasons[reason] for reason in range(4)) > 2, reasons
    assert told > 2
    assert filled > 100
