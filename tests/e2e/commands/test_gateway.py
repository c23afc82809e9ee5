"""A gateway leads real programs to its hosts: what that costs, who is let in, and what becomes of hosts and gateways.

Hosts and gateway are in this process (fleet_here), and the guests are programs. Counts are exact.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from farlane.backend.security import tokens
from farlane.fleet.gateway.gateway import AT_ONCE
from farlane.fleet.gateway.roster import Roster
from farlane.fleet.placement import spread
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost
from farlane.v1 import session_pb2 as pb
from fleet_here import QUOTA, FleetHere
from steady import Steady
from waiting import eventually

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("gateway")]

SOURCE = Path(__file__).parents[1] / "calls" / "programs" / "round_trips.cu"
STEADY = Path(__file__).parents[2] / "fleet" / "programs" / "steady.cu"
OPEN = "/farlane.v1.SessionService/Open"
SCENARIOS = ("first_kernel", "many_launches", "copy_5_mib", "synchronize_twice")


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [SOURCE], "round_trips", Build()))


@pytest.fixture(scope="module")
def steady(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [STEADY], "steady", Build()))


@pytest.fixture
def fleet() -> Iterator[FleetHere]:
    made = FleetHere()
    yield made
    made.close()


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[FleetHere]:
    made = FleetHere(folder=tmp_path / "gateway", grace=5.0, device="sim")
    yield made
    made.close()


def hello(**fields: object) -> pb.Hello:
    return pb.Hello(tape_version_min=1, tape_version_max=6, program="t", mode="calls", **fields)  # type: ignore[arg-type]


class Wire:
    """A guest by hand: what it says first, what it shows, and the answer."""

    def __init__(self, url: str, first: pb.Hello, token: str = "") -> None:
        self._said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._channel = grpc.insecure_channel(url.removeprefix("grpc://"))
        shown = [("authorization", f"Bearer {token}")] if token else []
        method = self._channel.stream_stream(OPEN, response_deserializer=pb.HostMessage.FromString)
        self._said.put(pb.GuestMessage(hello=first).SerializeToString())
        self.call = method(iter(self._said.get, None), metadata=shown)
        self.answer: pb.HostMessage = next(self.call)

    @property
    def refusal(self) -> str:
        assert self.answer.WhichOneof("kind") == "refusal", self.answer
        return self.answer.refusal.message

    def close(self) -> None:
        self._said.put(None)
        with contextlib.suppress(grpc.RpcError):
            list(self.call)
        self._channel.close()


@contextlib.contextmanager
def wire(url: str, first: pb.Hello, token: str = "") -> Iterator[Wire]:
    made = Wire(url, first, token)
    try:
        yield made
    finally:
        made.close()


def done(outcome: Outcome) -> Outcome:
    assert (outcome.status, outcome.stdout) == (0, "PASS\n"), outcome.stdout + outcome.stderr
    return outcome


@pytest.mark.parametrize("mode", ["calls", "loops", "none"])
def test_a_redirect_costs_one_round_trip_and_none_afterwards(program: str, fleet: FleetHere, mode: str) -> None:
    with EmbeddedHost("null") as host:
        for scenario in SCENARIOS:
            direct, led = (
                [done(guest.run([program, scenario], mode)).report.round_trips for _ in range(2)][-1]
                for guest in (Guest(host.url), Guest(fleet.url))
            )
            assert led == direct + 1, scenario


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_no_data_goes_through_the_gateway(program: str, fleet: FleetHere, transport: str) -> None:
    done(Guest(fleet.url, transport).run([program, "copy_5_mib"]))
    eventually(lambda: fleet.roster.state().hosts[0].free_memory == fleet.roster.state().hosts[0].capacity.memory)
    totals = [member.host.totals([]) for member in fleet.members.values()]
    assert sorted(total.opened for total in totals) == [0, 1]
    assert sum(total.counts.get("bytes_in", 0) + total.counts.get("bytes_out", 0) for total in totals) > 5 << 20
    gateway = fleet.gateway.totals([])
    assert (gateway.opened, gateway.counts) == (0, {})


def test_tls_and_tokens(program: str, encrypted: FleetHere) -> None:
    """The guest trusts the gateway by its authority, the host by the gateway's word; limits come with the guest."""
    access = encrypted.access(encrypted.token("alice", memory=3 << 20, priority=4))
    guest = Guest(encrypted.url, access=access)
    assert done(guest.run([program, "first_kernel"])).report.round_trips == 1 + 1
    place = encrypted.places[0]
    assert encrypted.folder is not None
    (led,) = [json.loads(line) for line in encrypted.folder.audit.read_text().splitlines()]
    assert (led["event"], led["who"], led["program"]) == ("led", "alice", "round_trips")
    assert (led["session"], led["to"]) == (f"alice.{place.number}", place.target.url)
    assert place.target.url.startswith("farlane+tls://")
    assert place.target.certificate
    assert [each.name for each in tokens.read(encrypted.folder)] == ["alice"], "the host's is no token of the gateway"
    outcome = guest.run([program, "copy_5_mib"])
    assert outcome.status != 0, "its token's memory holds at the host, too"
    refused = Guest(encrypted.url, access=encrypted.access("farlane-guess")).run([program, "first_kernel"])
    assert "does not know the guest's token" in refused.stderr
    assert len(encrypted.places) == 2


def test_a_drained_hosts_sessions_move_and_may_move_again(steady: str, tmp_path: Path) -> None:
    """By TLS, with sessions in processes of their own: no program notices more than a longer call."""
    fleet = FleetHere(folder=tmp_path / "gateway", grace=20.0, device="sim", processes=True)
    try:
        access = fleet.access(fleet.token("alice", sessions=2, memory=64 << 20))
        sessions = [Steady(Guest(fleet.url, access=access), steady) for _ in range(2)]
        before = [place.host for place in fleet.places]
        assert sorted(before) == ["h0", "h1"]
        assert fleet.drain("h0") == ["h1"]
        eventually(lambda: not fleet.members["h0"].held())
        assert len(fleet.members["h1"].held()) == 2
        eventually(lambda: fleet.members["h0"].awaited == 0)
        fleet.roster.set_open("h0", True)
        assert fleet.drain("h1") == ["h0", "h0"]
        eventually(lambda: [host.sessions for host in fleet.roster.state().hosts] == [2, 0])
        for session, moves in zip(sessions, [2, 1] if before[0] == "h0" else [1, 2], strict=True):
            status, output, errors = session.let_go()
            assert (status, output, errors.count("was resumed after")) == (0, "PASS\n", moves), errors
        eventually(lambda: all(host.free_memory == host.capacity.memory for host in fleet.roster.state().hosts))
    finally:
        fleet.close()


def test_a_token_that_is_revoked_ends_its_sessions_on_their_hosts(steady: str, encrypted: FleetHere) -> None:
    alice, bob = (
        Steady(Guest(encrypted.url, access=encrypted.access(encrypted.token(name))), steady)
        for name in ("alice", "bob")
    )
    assert encrypted.folder is not None
    tokens.revoke(encrypted.folder, "alice")
    status, output, errors = alice.ended()
    assert (status, "error 46" in output) == (1, True)
    assert "the guest's token (alice) was revoked" in errors
    assert bob.let_go()[:2] == (0, "PASS\n")


def test_a_host_takes_the_session_of_the_gateway_alone(program: str, fleet: FleetHere) -> None:
    (url,) = {member.target.url for member in list(fleet.members.values())[:1]}
    outcome = Guest(url).run([program, "first_kernel"])
    assert "only by the ticket that the fleet's gateway gives" in outcome.stderr
    with wire(fleet.url, hello(follows=True)) as gateway:
        found = gateway.answer.elsewhere
        for token in ("", "farlane-guess", found.token[:-2]):
            with wire(found.url, hello(), token) as guess:
                assert "only by the ticket" in guess.refusal
        with wire(found.url, hello(), found.token) as first:
            assert first.answer.WhichOneof("kind") == "welcome"
            with wire(found.url, hello(), found.token) as second:
                assert "was used already" in second.refusal
        eventually(lambda: not any(member.held() for member in fleet.members.values()))
        with wire(found.url, hello(), found.token) as late:
            assert "was used already" in late.refusal
        (place,) = fleet.places
        (other,) = [member for name, member in fleet.members.items() if name != place.host]
        with wire(other.target.url, hello(), found.token) as elsewhere:
            assert "only by the ticket" in elsewhere.refusal, "it is for that host"


def test_one_that_does_not_come_keeps_no_room(fleet: FleetHere, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farlane.fleet.gateway.gateway.COMING_SECONDS", -1.0)
    monkeypatch.setattr("farlane.fleet.gateway.roster.LEASE_SECONDS", 0.2)
    with wire(fleet.url, hello(follows=True)) as gateway:
        found = gateway.answer.elsewhere
        assert sum(state.sessions for state in fleet.roster.state().hosts) == 1
        with wire(found.url, hello(), found.token) as late:
            assert "was not used in time" in late.refusal

    def lapsed() -> bool:
        fleet.guests()  # the hosts report
        return sum(state.sessions for state in fleet.roster.state().hosts) == 0

    eventually(lapsed)


def test_a_host_never_reserves_more_than_it_has(fleet: FleetHere) -> None:
    """Not even where the account of the fleet is wrong, as that of a roster that was started anew may be."""
    fleet.gateway.quota = 3 * max(member.capacity.memory for member in fleet.members.values()) // 4
    with wire(fleet.url, hello(follows=True)) as gateway:
        found = gateway.answer.elsewhere
    with wire(found.url, hello(), found.token) as session:
        assert session.answer.WhichOneof("kind") == "welcome"
        fleet.roster.leave(fleet.places[0].number)
        led = []
        for _ in fleet.members:
            with wire(fleet.url, hello(follows=True)) as gateway:
                led.append(gateway.answer.elsewhere)
        (again,) = [each for each in led if each.url == found.url]
        with wire(again.url, hello(), again.token) as second:
            assert "has reserved" in second.refusal
            assert second.answer.refusal.reason == pb.Refusal.BUSY
        (member,) = [each for each in fleet.members.values() if each.target.url == found.url]
        assert member.report().most_reserved <= member.capacity.memory


def test_a_host_that_takes_no_connection_gets_no_session(program: str, fleet: FleetHere) -> None:
    fleet.members["h0"].close()
    for _ in range(2):
        done(Guest(fleet.url).run([program, "first_kernel"]))
    assert [state.name for state in fleet.roster.state().hosts] == ["h1"]


def test_a_guest_that_cannot_follow_is_refused(fleet: FleetHere) -> None:
    with wire(fleet.url, hello()) as older:
        assert "this guest cannot follow: its Farlane is too old" in older.refusal
        assert older.answer.refusal.reason == pb.Refusal.VERSION
    assert fleet.places == []


def test_guests_that_say_nothing_hold_up_no_other(fleet: FleetHere) -> None:
    channel = grpc.insecure_channel(fleet.url.removeprefix("grpc://"))
    silences: list[queue.SimpleQueue[bytes | None]] = [queue.SimpleQueue() for _ in range(2 * AT_ONCE)]
    calls = [channel.stream_stream(OPEN)(iter(silence.get, None)) for silence in silences]
    eventually(lambda: fleet.edge.calls == len(calls))
    with wire(fleet.url, hello(follows=True)) as other:
        assert other.answer.WhichOneof("kind") == "elsewhere"
        assert all(call.is_active() for call in calls)
    for call, silence in zip(calls, silences, strict=True):
        call.cancel()
        silence.put(None)
    channel.close()


def test_guests_that_wait_for_room_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = FleetHere(hosts=1)
    try:
        (member,) = fleet.members.values()
        monkeypatch.setattr(fleet.gateway, "quota", member.capacity.memory)
        with contextlib.ExitStack() as guests:
            placed = guests.enter_context(wire(fleet.url, hello(follows=True)))
            assert placed.answer.WhichOneof("kind") == "elsewhere"
            for _ in range(2 * AT_ONCE):
                waiting = guests.enter_context(wire(fleet.url, hello(follows=True, waits=True)))
                assert waiting.answer.WhichOneof("kind") == "waiting"
            last = guests.enter_context(wire(fleet.url, hello(follows=True)))
            assert f"{2 * AT_ONCE + 1} sessions wait: try again later" in last.refusal
    finally:
        fleet.close()


def test_a_gateway_that_leads_to_a_gateway_is_not_followed_twice(program: str, fleet: FleetHere) -> None:
    other = FleetHere(hosts=1)
    try:
        (member,) = other.members.values()
        member.target = type(member.target)(fleet.url)
        other.roster.fail_host("h0")
        other.roster.add_host("h0", "again", member.capacity, member.target)
        outcome = Guest(other.url).run([program, "first_kernel"])
        assert outcome.status != 0
        assert "was led here by another gateway" in outcome.stderr
    finally:
        other.close()


def test_sessions_survive_their_gateway(program: str, fleet: FleetHere) -> None:
    """It is gone while they run, and another one comes."""
    with wire(fleet.url, hello(follows=True)) as gateway:
        found = gateway.answer.elsewhere
        with wire(found.url, hello(), found.token) as session:
            assert session.answer.WhichOneof("kind") == "welcome"
            fleet.stop_gateway()
            assert session.call.is_active()
            fleet.start_gateway()
            done(Guest(fleet.url).run([program, "first_kernel"]))
            assert session.call.is_active()
            assert sum(len(member.held()) for member in fleet.members.values()) == 1


def test_a_full_fleet_lets_guests_wait(program: str) -> None:
    fleet = FleetHere(hosts=1, sessions=1)
    try:
        with wire(fleet.url, hello(follows=True)) as gateway:
            found = gateway.answer.elsewhere
            with wire(found.url, hello(), found.token):
                with wire(fleet.url, hello(follows=True)) as impatient:
                    assert "no host of the fleet has room now" in impatient.refusal
                waiting = Outcomes(lambda: Guest(fleet.url).run([program, "first_kernel"]))
                eventually(lambda: fleet.gateway.waiting == 1)
                time.sleep(0.1)
                assert fleet.roster.state().waiting == 1
        outcome = done(waiting.wait())
        assert "waiting for the host: place 1 of 1" in outcome.stderr
    finally:
        fleet.close()


def test_a_roster_that_forgets_those_who_wait_is_asked_again(program: str) -> None:
    fleet = FleetHere(hosts=1, sessions=1)
    try:
        with wire(fleet.url, hello(follows=True)) as gateway:
            found = gateway.answer.elsewhere
            with wire(found.url, hello(), found.token):
                waiting = Outcomes(lambda: Guest(fleet.url).run([program, "first_kernel"]))
                eventually(lambda: fleet.gateway.waiting == 1)
                (member,) = fleet.members.values()
                fleet.roster = Roster(spread.choose)
                fleet.roster.add_host("h0", "a", member.capacity, member.target, held=member.held())
                eventually(lambda: fleet.roster.state().waiting == 1)
            eventually(lambda: not member.held())
            fleet.roster.leave(fleet.places[0].number)
        done(waiting.wait())
    finally:
        fleet.close()


def test_one_that_no_host_can_hold_is_refused(fleet: FleetHere, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farlane.fleet.gateway.roster.SETTLING_SECONDS", 0.0)
    fleet.gateway.quota = 1 << 50
    with wire(fleet.url, hello(follows=True)) as gateway:
        assert f"no open host of this fleet has the device null with {1 << 50} bytes" in gateway.refusal
    assert QUOTA < 1 << 50


class Outcomes:
    """What comes of work on another thread."""

    def __init__(self, work: Callable[[], Outcome]) -> None:
        self._found: list[Outcome | subprocess.TimeoutExpired] = []
        self._thread = threading.Thread(target=lambda: self._found.append(work()))
        self._thread.start()

    def wait(self) -> Outcome:
        self._thread.join(60)
        (found,) = self._found
        assert isinstance(found, Outcome)
        return found
