"""Running ahead on the simulated device: what is done, kept and undone; what is declined; what a computed hole holds."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from farlane.backend import ahead
from farlane.backend.device import registry
from farlane.backend.errors import ProtocolError
from farlane.backend.host.host import TAPE_VERSION_MAX, Greeting, Host
from farlane.backend.host.session import Session
from farlane.backend.objects.images import digest_of
from tape_client import generated_operations as operations
from tape_client.results import parse_results

PTX = b"""
.version 7.5
.target sm_75
.address_size 64
// value = value * factor + 1
.visible .entry step(.param .u64 value, .param .f64 factor)
{
    .reg .b64 %rd<2>; .reg .f64 %f<4>;
    ld.param.u64 %rd1, [value];
    ld.param.f64 %f1, [factor];
    ld.global.f64 %f2, [%rd1];
    fma.rn.f64 %f3, %f2, %f1, 0d3FF0000000000000;
    st.global.f64 [%rd1], %f3;
    ret;
}
.visible .entry endless(.param .u64 value, .param .f64 factor) { LOOP: bra LOOP; }
"""
AT_FACTOR = 56  # of a launch: behind the fixed part and the address
HOUR = 3_600_000_000_000


class Guest:
    """What a guest sends, and what it gets."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.base = session.resources.context.window.base
        self.group = self.messages = 0
        digest = digest_of(PTX)
        self.send(
            operations.allocate(self.base, 4096)
            + operations.module_begin(len(PTX), digest)
            + operations.module_chunk(PTX)
            + operations.module_end(digest)
            + operations.module_open(16, digest)
            + operations.function_open(16, 16, b"step")
            + operations.function_open(17, 16, b"endless")
        )

    def send(self, tape: bytes) -> list[bytes]:
        """The DATA of the READs in it, and what the RUN_AHEADs yield."""
        self.group += 1
        replies = [
            (b"".join(map(bytes, reply.results)), reply.error)
            for reply in self.session.submit(self.group, tape, 0, len(tape), True)
        ]
        assert not any(error for _, error in replies)
        self.messages = len(replies)
        found: dict[int, bytes] = {}
        for result in parse_results(b"".join(data for data, _ in replies)):
            assert not result.error
            assert result.offset == len(found.get(result.slot, b""))
            found[result.slot] = found.get(result.slot, b"") + bytes(result.data)
        return list(found.values())

    def run(self, *arguments: Any, **named: Any) -> bytes:
        """What a read, and a RUN_AHEAD behind it, yield: of the latter."""
        return b"".join(self.send(self.read() + run(*arguments, **named))[1:])

    def set(self, value: float) -> bytes:
        return operations.write(self.base, 8, 8, 1, 1, struct.pack("<d", value))

    def launch(self, factor: float, function: int = 16) -> bytes:
        parameters = struct.pack("<Qd", self.base, factor)
        return operations.launch(function, 1, (1, 1, 1), (1, 1, 1), 0, parameters)

    def read(self, slot: int = 1) -> bytes:
        return operations.read(self.base, 8, 8, 1, 1, slot)

    def value(self) -> float:
        (data,) = self.send(self.read())
        (value,) = struct.unpack("<d", data)
        return float(value)

    def template(self, number: int = 0, function: int = 16, fields: bytes = b"") -> bytes:
        """A launch with its factor as a hole, and a read."""
        body = self.launch(0.0, function) + fields + self.read(0)
        return operations.template(number, 1, struct.pack("<IBxxx", AT_FACTOR, 8) + body)


def affine(value: float) -> bytes:
    return bytes(8) + struct.pack("<dQ", value, 0)


def computed(code: int, a: int, b: int) -> bytes:
    return struct.pack("<BBHI", 4, 0, 0, code) + bytes((a, b)) + bytes(6)


def run(count: int, column: bytes, history: tuple[float, ...] = (), nanoseconds: int = HOUR) -> bytes:
    values = [0.0] * (8 - len(history)) + list(history)
    return operations.run_ahead(0, count, nanoseconds, 2, struct.pack("<8d", *values) + column)


def rows(data: bytes, computed_holes: int = 0) -> list[tuple[float, ...]]:
    return list(struct.iter_unpack(f"<{computed_holes + 1}d", data))


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host(registry.open_device("sim"), quota=1 << 24)
    yield host
    host.close()


@pytest.fixture
def guest(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guest]:
    monkeypatch.setattr(ahead, "PATIENCE_SECONDS", 60.0)  # a kernel may be compiled first
    session = host.admit(Greeting(1, TAPE_VERSION_MAX)).session
    yield Guest(session)
    session.close()


def expected(value: float, factor: float, times: int) -> list[float]:
    found = []
    for _ in range(times):
        value = value * factor + 1.0
        found.append(value)
    return found


@pytest.mark.parametrize("kept", [0, 1, 3, 5])
def test_what_is_kept_has_happened_and_the_rest_has_not(guest: Guest, kept: int) -> None:
    guest.send(guest.set(1.0) + guest.template())
    data = guest.run(5, affine(2.0))
    assert [row[0] for row in rows(data)] == expected(1.0, 2.0, 5)
    guest.send(operations.keep_ahead(kept))
    assert guest.value() == [1.0, *expected(1.0, 2.0, 5)][kept]


def test_computed_holes_follow_what_is_read(guest: Guest) -> None:
    """The factor is the quotient of the last two values, of which the guest knows only one."""
    guest.send(guest.set(3.0) + guest.template())
    data = guest.run(4, computed(5, 1, 2), (99.0, 1.5, 77.0))
    values = [1.5, 3.0]
    for factor, value in rows(data, 1):
        assert factor == values[-1] / values[-2]
        assert value == values[-1] * factor + 1.0
        values.append(value)
    assert len(values) == 6
    guest.send(operations.keep_ahead(2))
    assert guest.value() == values[3]


def test_an_iteration_that_is_not_finite_is_not_done(guest: Guest) -> None:
    guest.send(guest.set(1e200) + guest.template())
    data = guest.run(9, computed(4, 1, 2), (1e-200, 0.0))  # 1e200 * 1e-200, then it explodes
    done = rows(data, 1)
    assert 0 < len(done) < 9
    assert all(math.isfinite(number) for row in done for number in row)
    guest.send(operations.keep_ahead(len(done)))
    assert guest.value() == done[-1][1]


def test_a_fault_ahead_leaves_no_trace(guest: Guest) -> None:
    body = operations.memset(guest.base, 4, 4, 1, 0, 4, 1) + guest.launch(2.0) + guest.read(0)
    # The address of the memset leaves the allocation in the third iteration.
    content = struct.pack("<IBxxx", 8, 8) + body[:8] + bytes(8) + body[16:]
    guest.send(guest.set(1.0) + operations.template(0, 1, content))
    column = bytes(8) + struct.pack("<QQ", guest.base + 2048, 1024)
    data = guest.run(5, column)
    assert [row[0] for row in rows(data)] == expected(1.0, 2.0, 2)
    guest.send(operations.keep_ahead(2))
    assert guest.value() == expected(1.0, 2.0, 2)[-1]


def test_time_ends_it(guest: Guest) -> None:
    guest.send(guest.set(1.0) + guest.template())
    data = guest.run(1000, affine(0.5), nanoseconds=1)
    assert len(rows(data)) == 1, "the first one is done whatever it takes"
    guest.send(operations.keep_ahead(1))
    data = guest.run(1000, affine(0.5), nanoseconds=1)
    assert rows(data) == [], "it is known now"
    guest.send(operations.keep_ahead(0))
    assert guest.value() == 1.5


def test_rows_come_as_they_are_there(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "MESSAGE_COST", 1)
    guest.send(guest.set(1.0) + guest.template())
    data = guest.run(300, affine(0.5))
    assert [row[0] for row in rows(data)] == expected(1.0, 0.5, 300)
    assert guest.messages > 100, "in the replies to the group, of which each is worth a message"
    guest.send(operations.keep_ahead(300))


@pytest.mark.parametrize("looks", [0, 1, 5])
def test_what_comes_from_the_guest_ends_it(guest: Guest, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "LOOK_COST", 0)  # behind each iteration
    guest.send(guest.set(1.0) + guest.template())
    answers = iter([False] * looks)
    guest.session.watch(lambda: next(answers, True))
    done = rows(guest.run(100, affine(2.0)))
    assert [row[0] for row in done] == expected(1.0, 2.0, looks)
    guest.send(operations.keep_ahead(looks))
    assert guest.value() == [1.0, *expected(1.0, 2.0, looks)][looks]


def test_an_iteration_in_which_something_comes_is_not_done(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "LOOK_COST", 0)
    monkeypatch.setattr(ahead, "LONG", -1)  # and behind each read
    body = 2 * (guest.launch(2.0) + guest.read(0))
    guest.send(guest.set(1.0) + operations.template(0, 0, body))
    answers = iter([False, False, False])
    guest.session.watch(lambda: next(answers, True))
    data = guest.run(100, b"")
    assert rows(data, 1) == [tuple(expected(1.0, 2.0, 2))], "the second one was half done"
    guest.send(operations.keep_ahead(2))
    assert guest.value() == expected(1.0, 2.0, 2)[-1]


def test_a_kernel_that_does_not_end_is_abandoned(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PATIENCE_SECONDS", 0.5)
    guest.send(guest.set(1.0) + guest.template(function=17))
    data = guest.run(3, affine(2.0))
    assert rows(data) == []
    guest.send(operations.keep_ahead(0))
    guest.send(guest.launch(2.0))
    assert guest.value() == 3.0, "launches run again"


def test_other_operations_are_not_done_ahead(guest: Guest) -> None:
    for extra in (operations.event_create(16, 0), operations.device_synchronize(7), operations.free(guest.base)):
        guest.send(guest.set(1.0) + guest.template(fields=extra))
        data = guest.run(5, affine(2.0))
        assert rows(data) == []
        guest.send(operations.keep_ahead(0))
    assert guest.value() == 1.0


def test_too_much_memory_is_not_kept(guest: Guest) -> None:
    guest.send(guest.set(1.0) + guest.template() + operations.allocate(guest.base + (1 << 20), 1 << 20))
    data = guest.run(5, affine(2.0))
    assert rows(data) == []
    guest.send(operations.keep_ahead(0))


def test_without_a_read_in_front_nothing_is_done(guest: Guest) -> None:
    guest.send(guest.set(1.0) + guest.template())
    assert guest.send(run(5, affine(2.0))) == []
    guest.send(operations.keep_ahead(0))


def test_allocations_in_between_are_refused(guest: Guest) -> None:
    guest.send(guest.set(1.0) + guest.template())
    guest.send(guest.read() + run(5, affine(2.0)))
    with pytest.raises(ProtocolError, match="allocations"):
        guest.send(operations.allocate(guest.base + 8192, 4096) + operations.keep_ahead(1))


@pytest.mark.parametrize("width", [4, 8])
def test_operations_are_those_of_the_processor(width: int) -> None:
    kind, letter, unsigned = {4: (np.float32, "f", "I"), 8: (np.float64, "d", "Q")}[width]
    source = random.Random(width)
    operators = [lambda a, b: -a, np.add, np.subtract, np.multiply, np.divide, lambda a, b: -(a / b)]
    stopped = 0
    for _ in range(4000):
        a, b = (kind(source.choice((-1, 1)) * source.random() * 2.0 ** source.randrange(-150, 128)) for _ in "ab")
        if source.random() < 0.02:
            b = kind(0.0)
        bits = [struct.unpack(unsigned, struct.pack(letter, value))[0] for value in (a, b)]
        assert ahead.compute(0, width, *bits) == bits[0]
        for code, operator in enumerate(operators, 1):
            with np.errstate(all="ignore"):
                wanted = operator(a, b)
            try:
                found = ahead.compute(code, width, *bits)
            except ahead.Stop:
                assert not np.isfinite(wanted)
                stopped += 1
            else:
                assert struct.pack(unsigned, found) == struct.pack(letter, wanted), (code, a, b)
    assert stopped
