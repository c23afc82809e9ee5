"""Sessions of several processes that share a device's memory: exact counts, and what becomes of a session that does not keep to the rules.

The sessions are this process's, with the sockets and files that processes would have. tests/randomized/test_schedules.py has processes.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.backend.device.base import CudaError
from farlane.backend.device.sim import Oversubscription, SimDevice
from farlane.backend.device.sim.processes import channel, listener, overrun
from farlane.backend.device.sim.processes.channel import Ends, Kind
from farlane.backend.device.sim.processes.listener import Member, SharedDevice

sys.path.insert(0, str(Path(__file__).parent))
from test_switching import GRANULE, Session, alone

GRANULES = 8


class Process:
    """The process of a session, as the system would see it: each look finds it to have computed, where `computes`, for too long."""

    def __init__(self) -> None:
        self.computes = self.stopped = False
        self.seen: list[str] = []

    def look(self, granted: bool) -> int:
        return 10**9 if self.computes and not self.stopped else 0

    def stop_overrun(self) -> bool:
        stops, self.stopped = self.computes and not self.stopped, self.computes
        self.seen += ["stop"] * stops
        return stops

    def enter(self) -> None:
        self.seen += ["go on"] * self.stopped
        self.stopped = False


class Host:
    """A listener of eight granules. `ended`: the sessions that it has ended, and why."""

    def __init__(self) -> None:
        self.device = SharedDevice(GRANULES * GRANULE)
        self.ended: dict[Member, str | None] = {}
        self.members: list[Member] = []
        self.processes: dict[Member, Process] = {}
        self.devices: list[SimDevice] = []

    def member(self, priority: int = 0) -> tuple[Member, Ends]:
        """And the ends of its process."""
        member = self.device.new_member()
        ends = Ends(*map(os.dup, member.ends))
        member.started()
        self.processes[member] = Process()
        member.begin(self.processes[member], lambda why: self.ended.setdefault(member, why) and None)
        member.prioritize(priority)
        self.members.append(member)
        return member, ends

    def session(self, priority: int = 0) -> tuple[Session, Member]:
        member, ends = self.member(priority)
        shared = Oversubscription(shared=GRANULES * GRANULE)
        device = SimDevice(threads=2, total_memory=1 << 30, oversubscription=shared, ends=tuple(ends))
        self.devices.append(device)
        return Session(device), member

    def raw(self) -> Raw:
        return Raw(self, *self.member())

    @property
    def counts(self) -> dict[str, int]:
        [counts] = self.device.report().values()
        return counts

    def works(self) -> None:
        """A session gets all of the memory, and has it right."""
        session, member = self.session()
        session.fill(7, 5)
        assert session.read(0, 7 * GRANULE) == alone(7, 5)
        assert member not in self.ended

    def why(self, raw: Raw) -> str | None:
        """The listener ends this session."""
        deadline = time.monotonic() + 30
        while raw.member not in self.ended:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        raw.ended()
        return self.ended[raw.member]

    def close(self) -> None:
        for device in self.devices:
            device.close()
        for member in self.members:
            member.close()
        assert self.device.physical.free_granules == GRANULES


class Raw:
    """A session's process that says what it likes."""

    def __init__(self, host: Host, member: Member, ends: Ends) -> None:
        self.host, self.member = host, member
        self.turns, self.memory = socket.socket(fileno=ends.turns), socket.socket(fileno=ends.memory)
        self.file = ends.file
        self.turns.settimeout(10)
        self.memory.settimeout(10)

    def ask(self, kind: Kind, number: int = 0) -> channel.Message:
        self.turns.send(channel.packet(kind, number))
        return channel.read(self.turns.recv(channel.PACKET_BYTES))

    def asked(self, kind: Kind) -> channel.Message:
        """The listener's next message of this kind."""
        while (message := channel.read(self.memory.recv(channel.PACKET_BYTES))).kind is not kind:
            pass
        return message

    def ended(self) -> None:
        """Waits until the listener has nothing of it any more."""
        self.close()
        self.host.members.remove(self.member)
        self.member.close()

    def close(self) -> None:
        self.turns.close()
        self.memory.close()
        if self.file >= 0:
            os.close(self.file)
        self.file = -1


@pytest.fixture
def host() -> Iterator[Host]:
    found = Host()
    yield found
    found.close()


def held(member: Member) -> int:
    return channel.held_bytes(member.ends.file)


@pytest.mark.parametrize("granules", range(1, 8))
def test_exactly_what_is_missing_leaves(granules: int, host: Host) -> None:
    (first, one), (second, other) = host.session(), host.session(5)
    first.fill(4, 1)  # 5 with its variables
    second.fill(granules, 2)  # one more with its own
    missing = max(0, 5 + granules + 1 - GRANULES)
    assert host.counts["granules"] == one.counts.savings.granules == missing
    assert host.counts["bytes_saved"] <= missing * GRANULE
    second.rest()
    for member in (one, other):
        assert held(member) <= member.granules * GRANULE
    assert one.granules + other.granules <= GRANULES
    assert first.read(0, 4 * GRANULE) == alone(4, 1)
    assert second.read(0, granules * GRANULE) == alone(granules, 2)
    assert not host.ended


def test_what_leaves_comes_back(host: Host) -> None:
    (first, one), (second, other) = host.session(), host.session(5)
    first.fill(5, 1)
    second.fill(4, 2)
    second.rest()
    first.mix(0, 0, 5 * GRANULE // 4)
    first.context.free(first.base)
    first.rest()
    second.mix(0, 0, GRANULE)  # which has the first one leave the device
    assert 0 < one.counts.savings.bytes_restored <= 3 * GRANULE
    assert one.granules == 1
    assert held(one) <= GRANULE
    assert first.counts == one.counts.report()
    assert other.counts.priority == 5


def test_a_session_alone_asks_once(host: Host) -> None:
    session, member = host.session()
    session.fill(2, 1)
    for _ in range(50):
        session.mix(0, GRANULE, 256)
        session.rest()
    session.read(0, GRANULE)
    assert member._grant == 1


def test_one_of_a_higher_priority_that_is_idle_costs_nothing(host: Host) -> None:
    (low, _), (high, _) = host.session(), host.session(9)
    high.fill(2, 2)
    high.rest()
    low.fill(3, 1)
    for _ in range(20):
        low.mix(0, GRANULE, 256)
    found = host.counts
    assert (found["switches"], found["granules"], found["bytes_saved"], found["bytes_restored"]) == (0, 0, 0, 0)
    assert found["turns"] <= 4


def test_small_allocations_that_end_leave_nothing_in_the_file(host: Host) -> None:
    session, member = host.session()
    for number in range(200):
        session.allocate(number * 4096, 4096)
        session.write(number * 4096, bytes([number]) * 4096)
    for number in range(200):
        session.context.free(session.base + number * 4096)
    host.works()  # has it leave the device
    assert held(member) <= member.granules * GRANULE <= GRANULE


def test_a_session_that_ends_gives_back_everything(host: Host) -> None:
    session, member = host.session()
    session.fill(7, 1)
    session.context.close()
    assert (member.granules, held(member), host.device.physical.free_granules) == (0, 0, GRANULES)
    host.works()


def test_a_process_that_ends_inside_its_turn(host: Host) -> None:
    raw = host.raw()
    assert raw.ask(Kind.ENTER).kind is Kind.GRANTED
    assert len(raw.ask(Kind.TAKE, 6).frames) == 6
    os.pwrite(raw.file, bytes(GRANULE), 0)
    waits = threading.Thread(target=host.works)
    waits.start()
    raw.asked(Kind.RECALL)  # and does not leave
    raw.ended()
    waits.join(30)
    assert not waits.is_alive()
    assert host.ended == {raw.member: None}


def test_a_process_that_ends_while_it_waits(host: Host) -> None:
    first, second = host.raw(), host.raw()
    first.ask(Kind.ENTER)
    second.turns.send(channel.packet(Kind.ENTER))
    first.asked(Kind.RECALL)
    second.ended()
    first.turns.send(channel.packet(Kind.LEAVE, 1))
    host.works()


def taking(host: Host, granules: int) -> Raw:
    """A session that has so many granules, and has left the device."""
    raw = host.raw()
    raw.ask(Kind.ENTER)
    raw.ask(Kind.TAKE, granules)
    raw.turns.send(channel.packet(Kind.LEAVE, 1))
    return raw


def test_one_that_does_not_give_up_in_time(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "GIVE_UP_SECONDS", 0.3)
    raw = taking(host, 5)
    host.works()
    assert host.ended == {raw.member: "it did not give up 5 granules of device memory in time"}


def test_one_that_reads_nothing(host: Host) -> None:
    raw = taking(host, 5)
    for _ in range(5000):  # more than a socket holds
        raw.member._task.stop()
    host.works()
    assert host.ended == {raw.member: "it does not read what it is asked for"}


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("fewer", "it gave up 4 granules of device memory in the place of 5"),
        ("another's", "it gave back granules that it does not have"),
        ("twice", "it gave back granules that it does not have"),
        ("keeps", "it holds 2048 KiB of device memory, and has been given 0"),
        ("much", f"it says that it saved {1 << 40} bytes of 5 granules"),
        ("nothing", "a message of 4 bytes"),
    ],
)
def test_one_that_gives_up_something_else(how: str, why: str, host: Host) -> None:
    raw = taking(host, 5)
    frames = sorted(raw.member._frames)
    if how == "keeps":
        os.pwrite(raw.file, bytes(GRANULE), 1 << 30)
    thread = threading.Thread(target=host.works)
    thread.start()
    raw.asked(Kind.GIVE_UP)
    given = {
        "fewer": frames[:4],
        "another's": [*frames[:4], next(each for each in range(0, 8 * GRANULE, GRANULE) if each not in frames)],
        "twice": [*frames[:4], frames[0]],
    }
    packet = channel.packet(Kind.GAVE_UP, 0, 1 << 40 if how == "much" else 0, given.get(how, frames))
    raw.memory.send(packet[:4] if how == "nothing" else packet)
    thread.join(30)
    assert not thread.is_alive()
    assert [*host.ended] == [raw.member]
    assert host.ended[raw.member] == why
    assert held(raw.member) == 0


def test_one_that_holds_more_than_it_was_given(host: Host) -> None:
    raw = taking(host, 1)
    os.pwrite(raw.file, bytes(GRANULE + 4096), 0)
    session, _ = host.session()
    session.fill(1, 1)  # it takes memory: the listener looks
    assert host.ended == {raw.member: "it holds 2052 KiB of device memory, and has been given 2048"}
    for change in (lambda: os.ftruncate(raw.file, 1), lambda: os.pwrite(raw.file, b"x", listener.FILE_BYTES)):
        with pytest.raises(OSError, match=r"not permitted|too large"):
            change()


@pytest.mark.parametrize("seed", range(64))
def test_messages_of_a_session_that_has_been_taken_over(seed: int, host: Host) -> None:
    source = random.Random(seed)
    raw = host.raw()
    if seed % 2:
        raw.ask(Kind.ENTER)
        raw.ask(Kind.TAKE, 3)
    raw.turns.setblocking(False)
    raw.memory.setblocking(False)
    for _ in range(40):
        kind = source.choice([*Kind, 0, 99])
        number = source.choice((0, 1, 2, 9, 1 << 31))
        frames = source.choice(([], [0], [0, 0], [2 * GRANULE, 3 * GRANULE], [GRANULE * ((1 << 32) - 1)]))
        data = channel.packet(kind, number, source.choice((0, 5, (1 << 64) - 1)), frames)
        if source.random() < 0.2:
            data = source.randbytes(source.randrange(60))
        end = source.choice((raw.turns, raw.turns, raw.memory))
        try:
            end.send(data)
            end.recv(channel.PACKET_BYTES)
        except OSError:
            pass  # nothing to read, or the listener reads no more
    raw.ended()
    assert host.device.physical.free_granules == GRANULES
    session, member = host.session()
    session.fill(1, seed)
    assert session.read(0, GRANULE) == alone(1, seed)
    assert member not in host.ended


def test_a_message_that_may_not_come_now(host: Host) -> None:
    for kind, why in (
        (Kind.TAKE, "a message TAKE, without the device"),
        (Kind.LEAVE, "a message LEAVE, without the device"),
        (Kind.GIVE_UP, "a message GIVE_UP, without the device"),
    ):
        raw = host.raw()
        raw.turns.send(channel.packet(kind, 1))
        assert host.why(raw) == why
    raw = host.raw()
    raw.ask(Kind.ENTER)
    raw.turns.send(channel.packet(Kind.TAKE, channel.MOST_FRAMES + 1))
    assert host.why(raw) == f"it asks for {channel.MOST_FRAMES + 1} granules at once"


def test_more_than_there_is(host: Host) -> None:
    raw = host.raw()
    raw.ask(Kind.ENTER)
    assert raw.ask(Kind.TAKE, GRANULES + 1).kind is Kind.REFUSED
    assert len(raw.ask(Kind.TAKE, GRANULES).frames) == GRANULES
    assert not host.ended


def test_a_session_that_is_interrupted_waits_no_longer(host: Host) -> None:
    (session, member), raw = host.session(), host.raw()
    session.allocate(0, GRANULE)
    session.rest()
    raw.ask(Kind.ENTER)  # and keeps the device
    errors = []

    def write() -> None:
        with pytest.raises(CudaError) as raised:
            session.write(0, b"x")
        errors.append(raised.value.message)

    waits = threading.Thread(target=write)
    waits.start()
    raw.asked(Kind.RECALL)
    session.context.interrupt()
    waits.join(30)
    assert errors == ["the session has been interrupted"]
    assert member not in host.ended


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_one_that_computes_without_the_device_is_stopped_until_its_turn(host: Host) -> None:
    inside, computes = host.raw(), host.raw()
    process = host.processes[computes.member]
    inside.ask(Kind.ENTER)
    process.computes = True
    inside.asked(Kind.RECALL)  # the listener asks in its place
    assert process.seen == ["stop"]
    time.sleep(3 * overrun.LOOK_SECONDS)
    assert process.seen == ["stop"], "the device is another one's"
    inside.turns.send(channel.packet(Kind.LEAVE, 1))
    wait(lambda: process.seen == ["stop", "go on"])
    assert inside.ask(Kind.ENTER).kind is Kind.GRANTED  # behind its turn
    wait(lambda: process.seen[2:] == ["stop"])  # it computes on
    wait(lambda: computes.member.counts.process_stops == 2)
    assert not host.ended


def test_one_that_was_stopped_at_the_end_of_its_turn_gets_another(host: Host) -> None:
    inside, raw = host.raw(), host.raw()
    process = host.processes[raw.member]
    inside.ask(Kind.ENTER)
    process.computes = process.stopped = True
    inside.asked(Kind.RECALL)
    inside.turns.send(channel.packet(Kind.LEAVE, 1))
    wait(lambda: process.seen == ["go on"])


def test_one_that_computes_while_no_other_wants_the_device(host: Host) -> None:
    idle, computes = host.raw(), host.raw()
    idle.ask(Kind.ENTER)
    idle.turns.send(channel.packet(Kind.LEAVE, 1))
    computes.ask(Kind.ENTER)
    process = host.processes[computes.member]
    process.computes = True
    time.sleep(3 * overrun.LOOK_SECONDS)
    computes.turns.send(channel.packet(Kind.LEAVE, 1))
    time.sleep(3 * overrun.LOOK_SECONDS)
    assert process.seen == []


def test_one_that_was_stopped_gives_up_granules_all_the_same(host: Host) -> None:
    raw = taking(host, 5)
    process = host.processes[raw.member]
    process.computes = True
    works = threading.Thread(target=host.works)
    works.start()  # which takes all of the memory
    asked = raw.asked(Kind.GIVE_UP)
    time.sleep(3 * overrun.LOOK_SECONDS)
    assert not process.stopped
    raw.memory.send(channel.packet(Kind.GAVE_UP, 0, 0, sorted(raw.member._frames)[: asked.number]))
    works.join(30)
    assert not works.is_alive()
    assert not host.ended


@pytest.mark.parametrize("asks", [False, True])
def test_one_that_was_stopped_ends(asks: bool, host: Host) -> None:
    inside, raw = host.raw(), host.raw()
    process = host.processes[raw.member]
    inside.ask(Kind.ENTER)
    process.computes = True
    if asks:  # itself, too
        raw.turns.send(channel.packet(Kind.ENTER))
    wait(lambda: process.stopped)
    raw.member.release()
    assert not process.stopped
    time.sleep(3 * overrun.LOOK_SECONDS)
    assert process.seen == ["stop", "go on"]
    raw.ended()
    assert inside.member not in host.ended


def test_one_that_says_that_it_ends_is_stopped_all_the_same(host: Host) -> None:
    inside, raw = host.raw(), host.raw()
    process = host.processes[raw.member]
    raw.memory.send(channel.packet(Kind.INTERRUPT))
    raw.ask(Kind.END)
    inside.ask(Kind.ENTER)
    process.computes = True
    wait(lambda: process.stopped)
