"""Device contract: repeating a loop's body (`Context.repeat`) is issuing its steps one by one."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from farlane.backend.device.base import LaunchShape
from farlane.backend.device.plan import Body, Hole, Kind, Step, Stop
from kernels import MIX

pytestmark = pytest.mark.needs("repeat")

ONE = LaunchShape((1, 1, 1), (1, 1, 1), 0)


def rows(address: int, size: int = 4) -> bytes:
    return struct.pack("<QQQQ", address, size, size, 1)


def matrix(*columns: list[int]) -> Any:
    return np.array(columns, np.uint64)


def no_results(count: int) -> Any:
    return np.empty((count, 0), np.uint8)


def mix(subject: Any, word: int, value: int, *holes: Hole, shape: LaunchShape = ONE) -> Step:
    function = subject.context.function(subject.module(MIX), "mix")
    operands = struct.pack("<QI", word, value)
    return Step(Kind.LAUNCH, operands, holes, stream=subject.stream, function=function, shape=shape)


@pytest.mark.needs("content", "kernels")
def test_steps_in_order_with_holes_of_every_width(subject: Any) -> None:
    """Set, launch, copy, write, read; results hold what memory held in each iteration."""
    address = subject.allocate(4096)
    count = 50
    body = Body(
        (
            Step(Kind.SET, rows(address) + struct.pack("<II", 0, 1), (Hole(32, 1, 0),), subject.stream),
            mix(subject, address, 0, Hole(8, 4, 1)),
            Step(Kind.COPY, struct.pack("<QQQQQQ", 0, 4, address, 4, 4, 1), (Hole(0, 8, 2),), subject.stream),
            Step(Kind.WRITE, rows(address + 2048) + b"\0\0cd", (Hole(32, 2, 1),), subject.stream),
            Step(Kind.READ, rows(address), (), subject.stream, result_at=4, result_end=8),
            Step(Kind.NOTHING, stream=subject.stream, result_end=8),
        )
    )
    columns = matrix(
        [k % 256 for k in range(count)],
        [1000 * k for k in range(count)],
        [address + 256 + 4 * k for k in range(count)],
    )
    results = np.full((count, 8), 0xAA, np.uint8)
    assert subject.context.repeat(body, columns, results) == Stop(count)
    expected = [((k % 256) * 0x01010101 * 3 + 1000 * k) % 2**32 for k in range(count)]
    assert results.tobytes() == b"".join(b"\xaa" * 4 + struct.pack("<I", number) for number in expected)
    assert subject.read(address + 256, 4 * count) == struct.pack(f"<{count}I", *expected)
    assert subject.read(address + 2048, 4) == struct.pack("<H", 49000) + b"cd"


@pytest.mark.needs("content")
@pytest.mark.parametrize(("pitches", "height"), [((4, 4), 3), ((8, 4), 3), ((4, 8), 3), ((16, 8), 1)])
def test_rows(subject: Any, pitches: tuple[int, int], height: int) -> None:
    first, second = subject.allocate(256), subject.allocate(256)
    subject.write(first, bytes(range(64)))
    copy = struct.pack("<QQQQQQ", second, pitches[0], first, pitches[1], 4, height)
    assert subject.context.repeat(
        Body((Step(Kind.COPY, copy, (), subject.stream),)), np.empty((0, 1), np.uint64), no_results(1)
    ) == Stop(1)
    for row in range(height):
        assert subject.read(second + row * pitches[0], 4) == bytes(range(row * pitches[1], row * pitches[1] + 4))
    fill = struct.pack("<QQQQII", second, 16, 6, 2, 0xBEEF, 2)
    assert subject.context.repeat(
        Body((Step(Kind.SET, fill, (), subject.stream),)), np.empty((0, 1), np.uint64), no_results(1)
    ) == Stop(1)
    assert subject.read(second, 6) == subject.read(second + 16, 6) == b"\xef\xbe" * 3


def test_it_stops_in_front_of_what_is_wrong(subject: Any) -> None:
    """A copy that leaves its allocation is not done, and not judged: the replay does it, and finds the error."""
    address = subject.allocate(4096)
    good, bad = rows(address) + struct.pack("<II", 1, 1), rows(0) + struct.pack("<II", 2, 1)
    body = Body((Step(Kind.SET, good, (), subject.stream), Step(Kind.SET, bad, (Hole(0, 8, 0),), subject.stream)))
    columns = matrix([address + 4000 + 16 * k for k in range(20)])
    assert subject.context.repeat(body, columns, no_results(20)) == Stop(6, 1)


@pytest.mark.parametrize(
    "operands",
    [
        struct.pack("<QQQQII", 0, 4, 4, 1, 1, 3),
        struct.pack("<QQQQII", 0, 4, 3, 1, 1, 2),
        struct.pack("<QQQQII", 0, 2, 4, 2, 1, 1),
        struct.pack("<QQQQII", 0, 2**63, 4, 2**62, 1, 1),
        struct.pack("<QQQQII", 0, 4, 2**64 - 4, 1, 1, 1),
        struct.pack("<QQQQII", 0, 4, 0, 1, 1, 1),
        struct.pack("<QQQQII", 1 << 63, 4, 4, 1, 1, 1),
        struct.pack("<QQQQII", 2**64 - 2**49, 4, 4, 1, 1, 1),
    ],
    ids=["element", "width", "pitch", "overflow", "size", "nothing", "relative", "wrap"],
)
def test_operands_that_are_left_to_the_replay(subject: Any, operands: bytes) -> None:
    address = subject.allocate(4096)
    moved = ((int.from_bytes(operands[:8], "little") + address) % 2**64).to_bytes(8, "little") + operands[8:]
    body = Body((Step(Kind.NOTHING), Step(Kind.SET, moved, (), subject.stream)))
    assert subject.context.repeat(body, np.empty((0, 3), np.uint64), no_results(3)) == Stop(0, 1)


@pytest.mark.ruins
@pytest.mark.needs("kernels", "precise")
def test_a_fault_ends_it(subject: Any) -> None:
    address = subject.allocate(4096)
    body = Body((mix(subject, 0, 1, Hole(0, 8, 0)), mix(subject, address + 4, 1)))
    stop = subject.context.repeat(body, matrix([address] * 7 + [0] + [address] * 3), no_results(11))
    assert (stop.iterations, stop.step, stop.error.code, stop.error.sticky) == (7, 0, 700, True)
    assert subject.read(address, 8) == struct.pack("<II", *[sum(3**k for k in range(7))] * 2)


@pytest.mark.needs("kernels")
def test_a_launch_that_is_refused_is_left_to_the_replay(subject: Any) -> None:
    body = Body((mix(subject, 0, 1, shape=LaunchShape((1, 1, 1), (1, 1, 1), 1 << 20)),))
    assert subject.context.repeat(body, np.empty((0, 3), np.uint64), no_results(3)) is None
    function = subject.context.function(subject.module(MIX), "mix")
    body = Body((Step(Kind.LAUNCH, bytes(4), (), stream=subject.stream, function=function, shape=ONE),))
    assert subject.context.repeat(body, np.empty((0, 3), np.uint64), no_results(3)) is None


def test_events_are_recorded(subject: Any) -> None:
    context = subject.context
    start, end = context.create_event(0), context.create_event(0)
    body = Body(tuple(Step(Kind.RECORD, stream=subject.stream, event=event) for event in (start, end)))
    assert context.repeat(body, np.empty((0, 9), np.uint64), no_results(9)) == Stop(9)
    context.synchronize()
    assert 0 <= context.elapsed_ms(start, end) < 1000


def test_allocations_that_came_and_went(subject: Any) -> None:
    body = Body(
        (
            Step(
                Kind.SET,
                bytes(32) + struct.pack("<II", 1, 1),
                (Hole(0, 8, 0), Hole(16, 8, 1), Hole(24, 8, 2)),
                subject.stream,
            ),
        )
    )
    first = subject.allocate(256)
    columns = matrix([first], [4], [1])
    assert subject.context.repeat(body, columns, no_results(1)) == Stop(1)
    second = subject.allocate(256)
    assert subject.context.repeat(body, matrix([second], [4], [1]), no_results(1)) == Stop(1)
    subject.context.free(first)
    assert subject.context.repeat(body, columns, no_results(1)) == Stop(0, 0)


@pytest.mark.needs("content", "allocations_repeat")
def test_allocations_in_the_body(subject: Any) -> None:
    """Made and ended in each iteration, at places that change; what is there in between is used, what is not is not."""
    kept = subject.allocate(4096)
    place = kept + (1 << 20)
    body = Body(
        (
            Step(Kind.ALLOCATE, struct.pack("<QQ", 0, 512), (Hole(0, 8, 0),)),
            Step(Kind.COPY, struct.pack("<QQQQQQ", 0, 4, 0, 4, 4, 1), (Hole(0, 8, 1), Hole(16, 8, 0)), subject.stream),
            Step(Kind.SET, rows(0) + struct.pack("<II", 7, 1), (Hole(0, 8, 0),), subject.stream),
            Step(Kind.FREE, bytes(8), (Hole(0, 8, 0),)),
            Step(Kind.SET, rows(0) + struct.pack("<II", 9, 1), (Hole(0, 8, 2),), subject.stream),
        )
    )
    subject.write(kept, b"\xff" * 64)
    places = [place + 512 * (k % 3) for k in range(16)]
    targets = [kept + 4 * k for k in range(16)]
    columns = matrix(places, targets, [kept + 1024] * 12 + [places[12]] + [kept] * 3)
    assert subject.context.repeat(body, columns, no_results(16)) == Stop(12, 4)  # it was freed
    assert subject.read(kept, 64) == bytes(4 * 13) + b"\xff" * (64 - 4 * 13)  # new memory is zero, each time
    assert subject.context.repeat(body, columns[:, 13:], no_results(3)) == Stop(3)
    subject.context.allocate(places[0], 512)
    assert subject.context.repeat(body, columns, no_results(16)) == Stop(0, 0)  # it is there already


@pytest.mark.needs("content")
def test_bytes_that_lie_in_the_hosts_memory(subject: Any) -> None:
    address = subject.allocate(64)
    data = np.arange(32, dtype=np.uint8)
    at = data.__array_interface__["data"][0]
    operands = rows(0, 8) + bytes(16)  # holes are zero
    body = Body((Step(Kind.PUT, operands, (Hole(0, 8, 0), Hole(32, 8, 1), Hole(40, 8, 2)), subject.stream),))
    columns = matrix([address + 8 * k for k in range(5)], [at + 4 * k for k in range(5)], [8, 8, 8, 7, 8])
    assert subject.context.repeat(body, columns, no_results(5)) == Stop(3, 0)
    assert subject.read(address, 24) == bytes([*range(8), *range(4, 12), *range(8, 16)])
