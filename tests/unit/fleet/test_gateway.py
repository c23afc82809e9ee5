"""A gateway's turns and times: who holds up others, and who does not. Guests are threads, the fleet is a double."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from farlane.backend.device.base import Description
from farlane.backend.host.greeting import Elsewhere, Greeting, Reason, Refused
from farlane.fleet.gateway import gateway as gateways
from farlane.fleet.gateway.gateway import AT_ONCE, Gateway
from farlane.fleet.gateway.roster import InQueue, NotYet, Place, Target
from farlane.fleet.placement.book import Limits
from farlane.fleet.placement.hosts import Request
from waiting import eventually

DEVICE = Description("null", "a device", bytes(16), (8, 0), 1 << 34, True, True)


class Double:
    """A fleet of one host, whose roster has heard of it, or has not."""

    def __init__(self, url: str) -> None:
        self.target = Target(url, key=bytes(32))
        self.is_settled = threading.Event()
        self.early = 0  # questions that came before
        self.answers = threading.Event()
        self.answers.set()
        self.asked = 0
        self.gone: list[Place] = []

    def ask(self, request: Request, limits: Limits) -> Place | InQueue:
        self.asked += 1
        assert request.priority == 0 or self.answers.wait(30)
        if request.priority == 0 or self.is_settled.is_set():
            return Place(1, "host-0", self.target)
        self.early += 1
        raise NotYet

    def news(self, numbers: Sequence[int]) -> dict[int, Place | InQueue | None]:
        return {}

    def leave(self, number: int) -> None:
        raise AssertionError("none waits for room")

    def host_gone(self, place: Place) -> None:
        self.gone.append(place)

    def guests(self) -> Mapping[str, Sequence[str]]:
        return {}

    def end_guest(self, host: str, guest: str, why: str) -> None:
        raise AssertionError("there are no tokens")


@pytest.fixture
def host() -> Iterator[socket.socket]:
    """Its URL is that of a host that takes connections."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener


def url_of(host: socket.socket) -> str:
    return f"grpc://127.0.0.1:{host.getsockname()[1]}"


@pytest.fixture
def gateway(host: socket.socket) -> Iterator[Gateway]:
    made = Gateway(Double(url_of(host)), [DEVICE], quota=1 << 20, guest_priority=9)
    yield made
    made.close()


def fleet_of(gateway: Gateway) -> Double:
    assert isinstance(gateway._fleet, Double)
    return gateway._fleet


def admit(gateway: Gateway, priority: int = 0) -> str:
    """As the server does: from a turn on. Where the session goes."""
    with gateway.turns:
        try:
            gateway.admit(Greeting(1, 6, follows=True, priority=priority))
        except Elsewhere as elsewhere:
            return elsewhere.url
    raise AssertionError("a gateway has admitted a session")


def test_guests_that_a_new_roster_cannot_place_yet_hold_up_no_other(gateway: Gateway) -> None:
    fleet = fleet_of(gateway)
    with ThreadPoolExecutor(2 * AT_ONCE) as pool:
        waiting = [pool.submit(admit, gateway, 1) for _ in range(2 * AT_ONCE)]
        eventually(lambda: fleet.early > len(waiting))
        assert admit(gateway) == fleet.target.url
        assert not any(each.done() for each in waiting)
        fleet.is_settled.set()
        assert [each.result(30) for each in waiting] == [fleet.target.url] * len(waiting)


def test_guests_that_the_roster_does_not_answer_hold_up_no_other(gateway: Gateway) -> None:
    fleet = fleet_of(gateway)
    fleet.is_settled.set()
    fleet.answers.clear()
    with ThreadPoolExecutor(2 * AT_ONCE) as pool:
        waiting = [pool.submit(admit, gateway, 1) for _ in range(2 * AT_ONCE)]
        eventually(lambda: fleet.asked == len(waiting))
        assert admit(gateway) == fleet.target.url
        assert not any(each.done() for each in waiting)
        fleet.answers.set()
        assert [each.result(30) for each in waiting] == [fleet.target.url] * len(waiting)


def test_a_roster_that_hears_of_no_host_is_not_asked_for_ever(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateways, "SETTLED_SECONDS", 0.0)
    with pytest.raises(Refused, match="has no hosts yet: try again") as refused:
        admit(gateway, 1)
    assert refused.value.reason is Reason.BUSY


def test_a_host_that_takes_no_connection_soon_holds_up_no_other(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its backlog is full, so that connecting to it takes until it is closed."""
    monkeypatch.setattr(gateways, "REACH_SECONDS", 30.0)
    fleet = fleet_of(gateway)
    with contextlib.ExitStack() as opened:
        full = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            filler = opened.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        good, fleet.target = fleet.target, Target(url_of(full), key=bytes(32))
        pool = opened.enter_context(ThreadPoolExecutor(2 * AT_ONCE))
        lost: list[Future[str]] = [pool.submit(admit, gateway) for _ in range(2 * AT_ONCE)]
        eventually(lambda: len(gateway._times["question"]) >= len(lost))
        fleet.target = good
        assert admit(gateway) == good.url
        assert not fleet.gone, "the others still wait for theirs"
        full.close()
        assert [each.result(30) for each in lost] == [good.url] * len(lost)
        assert len(fleet.gone) == len(lost)


def test_the_times_of_a_placement_are_those_of_its_parts(gateway: Gateway) -> None:
    assert gateway.times == {"placing": {}, "question": {}, "connection": {}, "turn": {}}
    admit(gateway)
    times = {name: each["50"] for name, each in gateway.times.items()}
    assert 0 < times["question"] + times["connection"] < times["placing"]
    admit(gateway)
    assert {name: len(each) for name, each in gateway._times.items()} == {"placing": 2, "question": 2, "connection": 1}
