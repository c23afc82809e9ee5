"""WHILE by the rules of protos/tape.md, "Slices": a loop that counts a value of the device's memory down, decided by its slice."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from farlane.analyzer.slices import encode as forms
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
from farlane.backend.device import registry
from farlane.backend.errors import DeadTransport, ProtocolError
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.host import Host
from session_replies import answers
from tape_client.loops import content, slice_content

BOUND, LEFT, ERROR, STUCK = range(4)
SLOT = 77
LEGACY = 1
IMAGE = b"""
.version 7.5
.target sm_75
.address_size 64

// *word -= step; a step of 666 reads what is not there
.visible .entry down(.param .u64 word, .param .u32 step)
{
    .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [word];
    ld.param.u32 %r1, [step];
    setp.eq.u32 %p, %r1, 666;
    @%p mov.u64 %rd1, 64;
    ld.global.u32 %r2, [%rd1];
    sub.s32 %r2, %r2, %r1;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""
ON_SIM = pytest.mark.parametrize("host", ["sim"], indirect=True)  # the null device computes nothing
LAUNCHED, COPIED = 0, 1  # calls
STEP, TURNS, READ, SCRATCH, LIMIT = range(5)  # registers
LAUNCH_BYTES = 64  # the record of the launch


def op(code: Code, target: int, *operands: int, width: int = 8, immediate: int = 0) -> Operation:
    return Operation(code, width, target, operands, immediate)


def counting(fills: bool = True) -> Slice:
    """`do { down(word, step); copy(&value, word, 4); turns++; } while (value && turns != limit)`, step and limit inputs."""
    return Slice(
        entry=0x1000,
        registers=5,
        memory=4,
        inputs=(Input(Origin.REGISTER, 3, STEP), Input(Origin.REGISTER, 12, LIMIT)),
        blocks=(
            Block((), Called(LAUNCHED, 1)),
            Block((), Called(COPIED, 2)),
            Block(
                (
                    op(Code.LOAD, READ, width=4),
                    op(Code.CONSTANT, SCRATCH, immediate=1),
                    op(Code.ADD, TURNS, TURNS, SCRATCH),
                ),
                Branch(READ, 3, 4),
            ),
            Block((op(Code.EQUAL, SCRATCH, TURNS, LIMIT),), Branch(SCRATCH, 4, 0)),
            Block((), Leave(0x1234)),
        ),
        calls=(
            Call(0x1000, "launch", (Argument(9, 4, STEP),)),
            Call(0x1100, "cudaMemcpy", fills=Place(0, 4) if fills else None),
        ),
    )


def slice_record(number: int, slice_: Slice | bytes, records: list[int], *fillings: Any, template: int = 0) -> bytes:
    data = slice_ if isinstance(slice_, bytes) else forms.write(slice_)
    whole = slice_content(data, records, fillings)
    return encode("SLICE", number, template, len(data), len(whole), tail=whole)


def template(number: int, holes: list[tuple[int, int]], *records: bytes) -> bytes:
    whole = content(holes, *records)
    return encode("TEMPLATE", number, len(holes), len(whole), 0, tail=whole)


def while_(
    inputs: bytes = b"", *, iterations: int = 0, microseconds: int = 0, continued: bool = False, number: int = 5
) -> bytes:
    fields = (number, SLOT, iterations, microseconds, len(inputs))
    return encode("WHILE", *fields, tail=inputs, flags=int(continued))


def inputs(step: int, limit: int = 0) -> bytes:
    return struct.pack("<QQ", step, limit)


class Loop:
    """A session with the loop `counting`, and its records one by one."""

    def __init__(self, guest: Any, slice_: Slice | None = None) -> None:
        self.guest = guest
        guest.submit(encode("ALLOCATE", guest.base, 4096))
        guest.open_module(image=IMAGE)
        guest.open_function(name=b"down")
        self.records = [self.launch(0), self.copy(0)]
        self.definition = (
            template(0, [(56, 4)], *self.records),
            slice_record(5, slice_ or counting(), [0, 1], (LAUNCHED, 0, 0, 0)),
        )
        assert guest.submit(*self.definition).error == 0

    def launch(self, step: int) -> bytes:
        parameters = struct.pack("<QI", self.guest.base, step)
        return encode("LAUNCH", 16, LEGACY, 1, 1, 1, 1, 1, 1, 0, len(parameters), tail=parameters)

    def copy(self, slot: int = SLOT, size: int = 4) -> bytes:
        return encode("READ", self.guest.base, size, size, 1, LEGACY, slot)

    def value(self, value: int) -> bytes:
        return encode("MEMSET", self.guest.base, 4, 4, 1, value, 4, LEGACY, 0)


def outcome(done: Any) -> tuple[int, int, list[bytes]]:
    """(reason, iterations, what was read) of the one WHILE in a group."""
    *data, value = done.results
    assert {result.slot for result in done.results} == {SLOT}
    assert (value.kind, value.error) == (2, 0)
    return value.value & 0xFF, value.value >> 8, [result.data for result in data if result.kind == 3]


@pytest.fixture(params=["null", "sim"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    host = Host(registry.open_device(request.param), quota=1 << 20)
    yield host
    host.close()


@pytest.fixture
def guest(new_guest: Callable[[], Any]) -> Any:
    return new_guest()


@pytest.fixture
def computes(host: Host) -> bool:
    return host.device.name == "sim"


def read_words(values: list[int]) -> list[bytes]:
    return [struct.pack("<I", value) for value in values]


def test_a_loop_ends_by_what_it_reads(guest: Any, computes: bool) -> None:
    loop = Loop(guest)
    done = outcome(guest.submit(loop.value(12), while_(inputs(3))))
    assert done == ((LEFT, 4, read_words([9, 6, 3, 0])) if computes else (LEFT, 1, read_words([0])))
    assert guest.submit(loop.copy()).results[0].data == bytes(4)


@ON_SIM
def test_it_stops_at_its_bound_and_goes_on(guest: Any) -> None:
    loop = Loop(guest)
    assert outcome(guest.submit(loop.value(12), while_(inputs(3), iterations=2))) == (BOUND, 2, read_words([9, 6]))
    assert guest.submit(loop.copy()).results[0].data == read_words([6])[0], "nothing is done behind its bound"
    assert outcome(guest.submit(while_(continued=True, iterations=1))) == (BOUND, 3, read_words([3]))
    for data in ([b"\0" * 4], []):
        assert outcome(guest.submit(while_(continued=True))) == (LEFT, 4, data)
    assert outcome(guest.submit(loop.value(9), while_(inputs(3)))) == (LEFT, 3, read_words([6, 3, 0]))


@ON_SIM
def test_several_in_one_group(guest: Any) -> None:
    loop = Loop(guest)
    done = guest.submit(
        loop.value(12), while_(inputs(1), iterations=2), while_(continued=True, iterations=3), loop.value(7)
    )
    told = [(result.value & 0xFF, result.value >> 8) for result in done.results if result.kind == 2]
    assert told == [(BOUND, 2), (BOUND, 5)]
    assert [result.data for result in done.results if result.kind == 3] == read_words([11, 10, 9, 8, 7])


def test_a_value_of_the_program_ends_it(guest: Any, computes: bool) -> None:
    loop = Loop(guest)
    limit = 3 if computes else 1
    assert outcome(guest.submit(loop.value(1000), while_(inputs(1, limit))))[:2] == (LEFT, limit)


def endless(*operations: Operation) -> Slice:
    """Reads, and never leaves."""
    slice_ = counting()
    return replace(slice_, blocks=(*slice_.blocks[:2], Block(operations, Jump(0))))


@pytest.mark.parametrize("calls", [True, False])
def test_time_bounds_it(guest: Any, calls: bool) -> None:
    slice_ = endless() if calls else replace(counting(), blocks=(Block((), Jump(0)),))
    loop = Loop(guest, slice_)
    begun = time.monotonic()
    reason, iterations, _ = outcome(guest.submit(loop.value(1), while_(inputs(0), microseconds=20_000)))
    assert reason == BOUND
    assert iterations > 100
    assert 0.02 <= time.monotonic() - begun < 5
    again, more, _ = outcome(guest.submit(while_(continued=True, microseconds=1)))
    assert again == BOUND
    assert more > iterations, "each WHILE does an iteration"


@pytest.mark.parametrize("calls", [True, False])
def test_interruption_ends_it(guest: Any, calls: bool) -> None:
    slice_ = endless() if calls else replace(counting(), blocks=(Block((), Jump(0)),))
    loop = Loop(guest, slice_)
    interrupted = []

    def interrupt() -> None:
        interrupted.append(time.monotonic())
        guest.session.interrupt()

    timer = threading.Timer(0.1, interrupt)
    timer.start()
    with pytest.raises(DeadTransport):
        list(answers(guest.session, guest.group + 1, loop.value(1) + while_(inputs(0))))
    assert time.monotonic() - interrupted[0] < 0.1


def test_an_error_of_a_result_stops_it(guest: Any) -> None:
    loop = Loop(guest)
    guest.submit(encode("FREE", guest.base))
    guest.submit(template(0, [(56, 4)], loop.launch(0), loop.copy(0)), loop.definition[1])
    done = guest.submit(while_(inputs(1)))
    assert done.results[0].kind == 3
    assert done.results[0].error != 0
    assert outcome(done)[:2] == (ERROR, 1)
    if not done.sticky:
        assert outcome(guest.submit(while_(continued=True))) == (ERROR, 1, [])


def test_a_deferred_error_is_told_by_the_next_result(guest: Any) -> None:
    """As it is when the records are sent: by the READ, which then brings nothing."""
    loop = Loop(guest)
    broken = encode("LAUNCH", 99, LEGACY, 1, 1, 1, 1, 1, 1, 0, 12, tail=bytes(12))
    guest.submit(template(0, [(56, 4)], broken, loop.copy(0)), loop.definition[1])
    one_by_one = guest.submit(broken, loop.copy())
    done = guest.submit(while_(inputs(1)))
    assert done.results[0].error == one_by_one.results[0].error != 0
    assert (outcome(done), done.message) == ((ERROR, 1, [b""]), one_by_one.message)


def test_a_status_that_is_an_error_stops_it(guest: Any) -> None:
    loop = Loop(guest)
    slice_ = replace(counting(), calls=(Call(0x1000, "launch"), Call(0x1100, "cudaStreamSynchronize")))
    for stream, expected in ((LEGACY, (LEFT, 1)), (99, (ERROR, 1))):
        body = [loop.launch(1), encode("STREAM_SYNCHRONIZE", stream, 0)]
        assert guest.submit(template(0, [], *body), slice_record(5, slice_, [0, 1])).error == 0
        done = guest.submit(while_(inputs(1)))
        assert [result.kind for result in done.results] == [1, 2]
        assert done.results[0].error == (0 if expected[0] == LEFT else 400)
        assert outcome(done)[:2] == expected


def test_a_division_by_0_stops_it(guest: Any) -> None:
    slice_ = endless(op(Code.CONSTANT, SCRATCH, immediate=0), op(Code.DIVIDE, READ, READ, SCRATCH))
    loop = Loop(guest, slice_)
    reason, iterations, data = outcome(guest.submit(loop.value(5), while_(inputs(1))))
    assert (reason, iterations, len(data)) == (STUCK, 1, 1)
    assert outcome(guest.submit(while_(continued=True))) == (STUCK, 1, [])


@ON_SIM
def test_a_fault_of_a_kernel_stops_it(guest: Any) -> None:
    loop = Loop(guest)
    done = guest.submit(loop.value(5), while_(inputs(666)))
    assert done.sticky
    assert [result.error for result in done.results] == [done.error, 0]
    assert outcome(done) == (ERROR, 1, [b""])
    for record in (while_(continued=True), while_(inputs(1))):
        (lost,) = guest.submit(record).results
        assert (lost.kind, lost.slot, lost.error, lost.value) == (2, SLOT, done.error, 0)
    assert guest.submit(encode("DEVICE_RESET", 9, 0)).results[0].error == 0
    with pytest.raises(ProtocolError, match="cannot be continued"):
        guest.submit(while_(continued=True))


@ON_SIM
def test_results_come_while_it_goes_on(guest: Any) -> None:
    loop = Loop(guest)
    guest.submit(loop.value(100_000))
    begun, moments, read = time.monotonic(), [], 0
    for reply in answers(guest.session, guest.group + 1, while_(inputs(1))):
        moments.append(time.monotonic() - begun)
        read += len(reply.results)
    assert read == 100_000 * 40 + 24
    assert len(moments) > 10
