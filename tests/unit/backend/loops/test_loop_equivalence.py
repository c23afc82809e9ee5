"""A REPEAT is exactly the records that it stands for: random loops, replayed both ways on the same device.

The records are made here, by the letter of tape.md and apart from the code under test. Results, errors and memory must agree, whether
the loop is walked record by record, checked in bulk (null) or run by the dispatch loop (sim).
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from farlane.backend.device import registry
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting
from farlane.backend.host.host import Host
from farlane.backend.objects.images import digest_of
from session_replies import answers

pytestmark = pytest.mark.usefixtures("early_plans")
MEMORY = 1 << 14
LONGEST = 6000
VARIABLE = 1 << 63 | 30 << 32
IMAGE = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .global .align 4 .b8 v[256];

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

// The sum depends on the order of blocks.
.visible .entry sum(.param .u64 word, .param .f32 value)
{
    .reg .b32 %r<4>; .reg .f32 %f<5>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [word];
    ld.param.f32 %f1, [value];
    mov.u32 %r1, %ctaid.x;
    cvt.rn.f32.u32 %f2, %r1;
    mul.f32 %f3, %f1, %f2;
    red.global.add.f32 [%rd1], %f3;
    ret;
}

// Every thread its own word: worth many CPU threads.
.visible .entry wide(.param .u64 word, .param .u32 value)
{
    .reg .b32 %r<7>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [word];
    ld.param.u32 %r1, [value];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    and.b32 %r5, %r5, 1023;
    mul.wide.u32 %rd2, %r5, 4;
    add.s64 %rd3, %rd1, %rd2;
    add.s32 %r6, %r5, %r1;
    st.global.u32 [%rd3], %r6;
    ret;
}
"""
DIGEST = digest_of(IMAGE)
KERNELS = [b"mix", b"sum", b"wide"]


# The reference: templates as lists, their records made one by one ------------------------------------------------------


@dataclass
class Column:
    kind: int
    width: int
    values: list[int] = field(default_factory=list)
    start: int = 0
    step: int = 0
    number: int = 0

    def encode(self) -> bytes:
        letter = {1: "B", 2: "H", 4: "I", 8: "Q"}[self.width]
        lag = len(self.values) if self.kind == 3 else 0
        number = self.number if self.kind == 3 else len(self.values)
        data = struct.pack(f"<{len(self.values)}{letter}", *self.values)
        if self.kind == 0:
            number, data = 0, struct.pack("<QQ", self.start, self.step)
        return struct.pack("<BBHI", self.kind, lag, 0, number) + data + bytes(-len(data) % 8)


def value(columns: list[Column], index: int, k: int) -> int:
    column = columns[index]
    if column.kind == 0:
        return (column.start + k * column.step) % 2 ** (8 * column.width)
    if column.kind == 1:
        return column.values[k]
    if column.kind == 2:
        return column.values[k % len(column.values)]
    return column.values[k] if k < len(column.values) else value(columns, column.number, k - len(column.values))


@dataclass
class Loop:
    """A REPEAT: in a body, or on the tape."""

    template: Template
    columns: list[Column]
    count: int

    def encode(self, flags: int = 0) -> bytes:
        data = b"".join(column.encode() for column in self.columns)
        return encode("REPEAT", self.template.number, len(data), self.count, tail=data, flags=flags)


@dataclass
class Template:
    number: int
    body: list[bytes | Loop]
    holes: list[tuple[int, int]]
    counts: set[int] = field(default_factory=set)  # which holes are counts of inner loops

    def encode(self) -> bytes:
        content = b"".join(struct.pack("<IB3x", *hole) for hole in self.holes)
        whole = bytearray(b"".join(part.encode() if isinstance(part, Loop) else part for part in self.body))
        for offset, width in self.holes:
            whole[offset : offset + width] = bytes(width)
        content += bytes(whole)
        return encode("TEMPLATE", self.number, len(self.holes), len(content), 0, tail=content)

    def iteration(self, values: list[int], templates: dict[int, Template]) -> list[bytes]:
        whole = bytearray(b"".join(part.encode() if isinstance(part, Loop) else part for part in self.body))
        for (offset, width), number in zip(self.holes, values, strict=True):
            whole[offset : offset + width] = number.to_bytes(width, "little")
        records = []
        at = 0
        while at < len(whole):
            length, code = struct.unpack_from("<IH", whole, at)
            record = bytes(whole[at : at + length])
            records += expanded(record, templates) if code == 0x61 else [record]
            at += length
        return records


def expanded(record: bytes, templates: dict[int, Template], first: int = 0) -> list[bytes]:
    """The records that a REPEAT's bytes stand for."""
    number, size, count = struct.unpack_from("<IIQ", record, 8)
    template = templates[number]
    columns, at = [], 24
    for _, width in template.holes:
        kind, lag, _, numbers = struct.unpack_from("<BBHI", record, at)
        at += 8
        if kind == 0:
            start, step = struct.unpack_from("<QQ", record, at)
            columns.append(Column(0, width, start=start, step=step))
            at += 16
        else:
            amount = lag if kind == 3 else numbers
            values = [int.from_bytes(record[at + width * i : at + width * (i + 1)], "little") for i in range(amount)]
            columns.append(Column(kind, width, values, number=numbers))
            at += (width * amount + 7) // 8 * 8
    assert at == 24 + size
    records: list[bytes] = []
    for k in range(first, first + count):
        if len(records) > LONGEST or count > LONGEST:
            raise TooLong
        records += template.iteration([value(columns, index, k) for index in range(len(columns))], templates)
    return records


# Random loops ----------------------------------------------------------------------------------------------------------


class TooLong(Exception):
    """More records than a test should take."""


class Maker:
    """Random loops for the memory at `base`: the same for every base, with the same seed."""

    def __init__(self, seed: int, base: int) -> None:
        self.rng = random.Random(seed)
        self.base = base
        self.templates: dict[int, Template] = {}
        self.faults = self.rng.random() < 0.15
        self.mistakes = self.rng.random() < 0.5
        self.passing = 0  # an allocation that the body at hand makes and ends

    def address(self) -> int:
        kind = self.rng.random()
        if self.mistakes and kind < 0.1:
            return self.base + MEMORY - 16 - 4 * self.rng.randrange(60)
        if self.passing and kind > 0.8:
            return self.passing + self.rng.randrange(0, 1024, 4)
        if kind < 0.15:
            return VARIABLE + self.rng.randrange(3) * 16
        return self.base + self.rng.randrange(0, MEMORY // 2, 4)

    def record(self) -> tuple[bytes, list[tuple[int, int]]]:
        """A record, and where it may have holes (offset, width)."""
        rng = self.rng
        width, height = rng.choice([4, 8, 16]), rng.choice([1, 1, 2, 3])
        pitch = rng.choice([width, 16, 32])
        stream = rng.choice([1, 2, 16])
        slot = rng.randrange(1, 1000)
        kind = rng.choice(
            ["mix"] * 4 + ["sum", "wide", "set", "set", "copy", "write", "write", "kept", "kept", "packed", "read", "read"]
            + ["fence", "sync", "stream", "event", "record", "wait", "free", "allocate", "value", "query"]
        )  # fmt: skip
        if kind == "mix":
            grid, place = (1, 1, 1), self.base + rng.randrange(0, 1024, 4)
            if self.faults and rng.random() < 0.2:
                place = self.base + (1 << 32)
            parameters = struct.pack("<QIH", place, rng.randrange(16), rng.randrange(9))
            return self.launch(20, grid, 1, parameters, stream), [(48, 8), (56, 4), (60, 2), (60, 1)]
        if kind == "sum":
            parameters = struct.pack("<Qf", self.base + rng.randrange(0, 64, 4), rng.random())
            return self.launch(21, (rng.choice([1, 7]), 1, 1), 1, parameters, stream), [(48, 8)]
        if kind == "wide":
            parameters = struct.pack("<QI", self.base + rng.randrange(0, 64, 4), rng.randrange(99))
            return self.launch(22, (rng.choice([2, 40]), 1, 1), 128, parameters, stream), [(48, 8), (56, 4), (16, 4)]
        address = self.address()
        if kind == "set":
            element = rng.choice([1, 2, 4])
            record = encode("MEMSET", address, pitch, width, height, rng.randrange(2**32), element, stream, 0)
            return record, [(8, 8), (40, 4), (32, 8)]
        if kind == "copy":
            record = encode("COPY", address, pitch, self.address(), rng.choice([width, 64]), width, height, stream, 0)
            return record, [(8, 8), (24, 8), (40, 8)]
        if kind == "write":
            data = rng.randbytes(width * height)
            record = encode("WRITE", address, pitch, width, height, stream, len(data), tail=data)
            return record, [(8, 8), (48, 4), (48, 1), (16, 8)]
        if kind == "packed":
            block = bytes([0x1F, 0x07, 0x01, 0x00, 40, 0x50]) + bytes([7]) * 5  # LZ4: 64 times 7
            return encode("WRITE", address, 64, 64, 1, stream, len(block), tail=block, flags=1), [(8, 8)]
        if kind == "kept":
            return encode("WRITE_KEPT", address, pitch, 8, 2, stream, 5), [(8, 8), (44, 4)]
        if kind == "read":
            return encode("READ", address, pitch, width, height, stream, slot), [(8, 8), (44, 4), (24, 8)]
        simple = {
            "fence": (encode("FENCE", slot, 0), [(8, 4)]),
            "sync": (encode("DEVICE_SYNCHRONIZE", slot, 0), [(8, 4)]),
            "stream": (encode("STREAM_SYNCHRONIZE", rng.choice([1, 16, 99]), slot), [(12, 4)]),
            "event": (encode("EVENT_SYNCHRONIZE", 17, slot), [(12, 4)]),
            "record": (encode("EVENT_RECORD", 17, stream, 0, 0), []),
            "wait": (encode("STREAM_WAIT_EVENT", stream, 17), []),
            "free": (encode("FREE", self.base + MEMORY), [(8, 8)]),
            "allocate": (encode("ALLOCATE", self.base + 4 * MEMORY + 512 * rng.randrange(9), 512), [(8, 8), (16, 8)]),
            "value": (encode("MODULE_QUERY", slot, 0, bytes(32)), []),
            "query": (encode("STREAM_QUERY", stream, slot), [(12, 4)]),
        }
        if kind in ("free", "allocate", "value") and (kind == "value" or rng.random() < 0.7):
            return simple["fence"]  # MODULE_QUERY has no place in a body
        return simple[kind]

    def launch(self, function: int, grid: Any, block: int, parameters: bytes, stream: int) -> bytes:
        return encode("LAUNCH", function, stream, *grid, block, 1, 1, 0, len(parameters), tail=parameters)

    def columns(self, template: Template, count: int) -> list[Column]:
        """Columns that keep most fields plausible: what a hole holds now, and a little more in each iteration."""
        rng = self.rng
        originals = []
        whole = b"".join(part.encode() if isinstance(part, Loop) else part for part in template.body)
        for offset, width in template.holes:
            originals.append(int.from_bytes(whole[offset : offset + width], "little"))
        columns: list[Column] = []
        for index, ((_, width), original) in enumerate(zip(template.holes, originals, strict=True)):
            mask = 2 ** (8 * width) - 1

            def near(original: int = original, mask: int = mask) -> int:
                return (original + rng.choice([0, 0, 4, 8, 16])) & mask

            if index in template.counts:
                columns.append(Column(2, width, [rng.randrange(1, 4) for _ in range(rng.randrange(1, 3))]))
                continue
            kind = rng.choice([0, 0, 1, 2, 3])
            others = [
                at for at, (_, other) in enumerate(template.holes) if other == width and at not in template.counts
            ]
            if kind == 3 and (others != [index]):
                lag = rng.choice([0, 1, 1, 2, 3])
                usable = [at for at in others if lag or at < index]
                if usable:
                    columns.append(Column(3, width, [near() for _ in range(lag)], number=rng.choice(usable)))
                    continue
            if kind == 0 or kind == 3:
                columns.append(Column(0, width, start=original, step=rng.choice([0, 0, 4, 4, 2**64 - 4, 8])))
            elif kind == 1:
                columns.append(Column(1, width, [near() for _ in range(count)]))
            else:
                columns.append(Column(2, width, [near() for _ in range(rng.randrange(1, 4))]))
        return columns

    def template(self, number: int, depth: int) -> Template:
        rng = self.rng
        body: list[bytes | Loop] = []
        holes: list[tuple[int, int]] = []
        at = 0
        template_counts: set[int] = set()
        size = rng.choice([600, 1024, 5000, 5000, 1 << 21] if self.mistakes else [1024, 5000])
        self.passing = self.base + 2 * MEMORY + 256 * rng.randrange(40) if rng.random() < 0.4 else 0
        fixed = {0: encode("ALLOCATE", self.passing, size), -1: encode("FREE", self.passing)} if self.passing else {}
        parts = rng.randrange(1, 5)
        for index in (*fixed.keys() - {-1}, *range(1, 1 + parts), *fixed.keys() - {0}):
            part: bytes | Loop
            if index in fixed:
                part, places = fixed[index], [(8, 8)] if self.mistakes and rng.random() < 0.2 else []
                data = part
            elif depth and rng.random() < 0.5:
                inner = rng.choice(list(self.templates.values()))
                count = rng.choice([1, 2, 3, 20])
                part = Loop(inner, self.columns(inner, count), count)
                places = [(24 + spot, width) for spot, width in inner_places(part)]
                if not any(column.kind == 1 for column in part.columns):
                    places.append((16, 8))
                data = part.encode()
            else:
                part, places = self.record()
                data = part
            end = 0
            for offset, width in sorted(places):
                if offset >= end and rng.random() < 0.4 and offset % width == 0:
                    if isinstance(part, Loop) and offset == 16:
                        template_counts.add(len(holes))
                    holes.append((at + offset, width))
                    end = offset + width
            body.append(part)
            at += len(data)
        template = Template(number, body, holes, template_counts)
        self.templates[number] = template
        return template


def inner_places(loop: Loop) -> list[tuple[int, int]]:
    """Where an inner loop's columns may have holes, from their start."""
    places, at = [], 0
    for column in loop.columns:
        at += 8
        if column.kind == 0:
            places += [(at, 8), (at + 8, 8)]
            at += 16
        else:
            places += [(at + column.width * index, column.width) for index in range(min(len(column.values), 3))]
            at += (column.width * len(column.values) + 7) // 8 * 8
    return places


# The test ------------------------------------------------------------------------------------------------------------


class Side:
    """A session: what it answered, and what is left in its memory."""

    def __init__(self, host: Host) -> None:
        self.admission = host.admit(Greeting(1, TAPE_VERSION_MAX))
        self.session = self.admission.session
        self.base = self.admission.window.base
        self.group = 0
        names = [encode("FUNCTION_OPEN", 20 + n, 16, len(name), 0, tail=name) for n, name in enumerate(KERNELS)]
        opening = [
            encode("ALLOCATE", self.base, MEMORY),
            encode("STREAM_CREATE", 16, 0, 0, 0),
            encode("EVENT_CREATE", 17, 0),
            encode("MODULE_BEGIN", len(IMAGE), DIGEST),
            encode("MODULE_CHUNK", len(IMAGE), 0, tail=IMAGE),
            encode("MODULE_END", DIGEST),
            encode("MODULE_OPEN", 16, 0, DIGEST),
            *names,
            encode("VARIABLE_OPEN", 30, 16, 256, 1, 0, tail=b"v"),
            encode("PAYLOAD_KEEP", 5, 16, 16, 0, tail=bytes(range(16))),
            *(encode("PAYLOAD_KEEP", 5 + 4 * n, 16, 16, 0, tail=bytes(range(n, n + 16))) for n in range(1, 12)),
            encode("PAYLOAD_KEEP", 53, 12, 12, 0, tail=bytes(12)),
        ]
        assert self.submit(*opening) == (b"", 0, False)

    def submit(self, *records: bytes) -> tuple[bytes, int, bool]:
        self.group += 1
        data = b"".join(records)
        results = []
        for reply in answers(self.session, self.group, data):
            results.append(reply.results)
        return b"".join(results), reply.error, reply.sticky

    def attempt(self, records: list[bytes]) -> tuple[bytes, int, bool] | str:
        try:
            return self.submit(*records)
        except ProtocolError:
            return "refused"

    def memory(self) -> list[bytes]:
        context = self.session.resources.context
        if self.session.closed:
            return []
        rows = self.session.resources.rows
        return [
            b"".join(bytes(piece) for piece in context.read(rows(address, size, size, 1), context.default_stream(1)))
            for address, size in ((self.base, MEMORY), (VARIABLE, 256))
        ]


@pytest.fixture(params=["null", "sim"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    host = Host(registry.open_device(request.param), quota=1 << 20)
    yield host
    host.close()


def counted(host: Host, side: Side) -> int:
    return int(getattr(side.session.resources.context, "launches", 0))


def compare(host: Host, seed: int, native: Counter[str]) -> None:
    looped, plain = Side(host), Side(host)
    real = looped.session.resources.context.repeat

    def repeat(body: Any, columns: Any, results: Any) -> Any:
        stop = real(body, columns, results)
        native["none" if stop is None else "stopped" if stop.iterations < columns.shape[1] else "whole"] += 1
        if stop is not None and stop.iterations:
            native.update(step.kind.name for step in body.steps)
        return stop

    looped.session.resources.context.repeat = repeat  # type: ignore[method-assign]
    if seed % 2:  # Python does the records: the device is handed loops that allocate, too
        for side in (looped, plain):
            side.session.resources.context.direct.disable()
    makers = [Maker(seed, side.base) for side in (looped, plain)]
    for number in range(4):
        tapes = []
        for side, maker in zip((looped, plain), makers, strict=True):
            template = maker.template(number, depth=number)
            count = maker.rng.choice([1, 7, 40, 300] if number < 2 else [1, 7, 40])
            loop = Loop(template, maker.columns(template, count), count)
            again = not any(column.kind == 1 for column in loop.columns) and maker.rng.random() < 0.5
            if side is looped:
                tapes.append([template.encode(), loop.encode()])
                if again:
                    tapes[-1].append(encode("REPEAT", number, 0, count, flags=1))
            else:
                try:
                    tapes.append(expanded(loop.encode(), maker.templates))
                    if again:
                        tapes[-1] += expanded(loop.encode(), maker.templates, first=count)
                except TooLong:
                    tapes.append([])
        if not tapes[1] or sum(map(len, tapes[1])) > 1 << 20:
            looped.submit(tapes[0][0])
            continue
        got, expected = looped.attempt(tapes[0]), plain.attempt(tapes[1])
        if expected == "refused":
            assert got == "refused", f"seed {seed}, loop {number}"
            native["refused"] += 1
            break
        assert got == expected, f"seed {seed}, loop {number}"
        native["sticky" if expected[2] else "error" if expected[1] else "fine"] += 1
        assert looped.memory() == plain.memory(), f"seed {seed}, loop {number}"
        assert counted(host, looped) == counted(host, plain), f"seed {seed}, loop {number}"
        if expected[2]:
            break
    for side in (looped, plain):
        host.end(side.session, "test")


@pytest.mark.parametrize("block", range(6))
def test_random_loops(host: Host, block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * 12, block * 12 + 12):
        compare(host, seed, seen)
    # The generator must reach what it is there for.
    assert seen["whole"] > 5
    assert seen["fine"] > 10
    if host.device.name == "sim":
        assert seen["ALLOCATE"] > 0


def test_a_loop_entered_with_other_streams_and_shapes(host: Host) -> None:
    """Each pair has a plan of its own; one that is not there is an error of each record."""
    looped, plain = Side(host), Side(host)
    rng = random.Random(1)
    for number in range(60):
        stream, blocks, count = rng.choice([1, 2, 16, 99]), rng.choice([1, 2, 40]), rng.choice([5, 30, 70])
        columns = [Column(0, 4, start=stream), Column(0, 4, start=blocks), Column(0, 4, start=number, step=3)]
        outcomes = []
        for side in (looped, plain):
            parameters = struct.pack("<QI", side.base, 0)
            record = encode("LAUNCH", 22, 1, 1, 1, 1, 128, 1, 1, 0, len(parameters), tail=parameters)
            setting = encode("MEMSET", side.base + 64, 0, 4, 1, 7, 1, 16, 0)
            template = Template(7, [record, setting], [(12, 4), (16, 4), (56, 4)])
            loop = Loop(template, columns, count)
            if side is looped:
                outcomes.append(side.submit(*([template.encode()] if number == 0 else []), loop.encode()))
            else:
                outcomes.append(side.submit(*expanded(loop.encode(), {7: template})))
        assert outcomes[0] == outcomes[1], f"entry {number}"
        assert looped.memory() == plain.memory(), f"entry {number}"
        assert counted(host, looped) == counted(host, plain), f"entry {number}"
    assert len(looped.session._replay.plans(7)) == 9, "of three streams and three shapes"
    for side in (looped, plain):
        host.end(side.session, "test")
