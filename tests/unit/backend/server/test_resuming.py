"""A session whose connection breaks, with a raw gRPC guest: what each side sends again, who may come, and how long."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from farlane.backend.device.null import NullDevice
from farlane.backend.host.host import Host
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import parse
from farlane.v1 import session_pb2 as pb
from raw_guest import HELLO, Wire
from waiting import eventually


class Served:
    def __init__(self, tmp_path: Path, grace: float) -> None:
        self.host = Host(NullDevice(), session_limit=4)
        self.edge = Edge(self.host, grace=grace)
        urls = ("grpc://127.0.0.1:0", f"unix://{tmp_path}/host.sock")
        self.targets = [endpoint.target for endpoint in self.edge.listen([parse(url) for url in urls])]
        self._wires: list[Wire] = []

    def wire(self, transport: int = 0) -> Wire:
        self._wires.append(Wire(self.targets[transport]))
        return self._wires[-1]

    def opened(self) -> tuple[Wire, pb.Welcome]:
        wire = self.wire()
        wire.send(hello=HELLO)
        return wire, wire.receive().welcome

    def resumed(self, welcome: pb.Welcome, received: int) -> tuple[Wire, pb.HostMessage]:
        wire = self.wire()
        wire.send(resume=pb.Resume(session=welcome.session, secret=welcome.resume_secret, received=received))
        return wire, wire.receive()

    def close(self) -> None:
        for wire in self._wires:
            wire.breaks()
        self.edge.stop(5)
        self.host.close()
        assert self.host.sessions == 0


@contextlib.contextmanager
def serving(tmp_path: Path, grace: float) -> Iterator[Served]:
    served = Served(tmp_path, grace)
    yield served
    served.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, 60.0) as served:
        yield served


def test_each_side_sends_what_the_other_has_not_got(served: Served) -> None:
    wire, welcome = served.opened()
    assert (len(welcome.resume_secret), welcome.grace_milliseconds) == (32, 60000)
    for group in (1, 2, 3):
        wire.fence(group)
        assert wire.receive().reply.group == group
    wire.breaks()
    wire, answer = served.resumed(welcome, received=2)  # the Welcome and the first reply
    assert answer.resumed.received == 3
    for group in (2, 3):
        reply = wire.receive().reply
        assert (reply.group, reply.last, bool(reply.results)) == (group, True, True)
    wire.fence(4)
    assert wire.receive().reply.group == 4
    wire.send(received=pb.Received(messages=5))
    wire.fence(5)
    assert wire.receive().reply.group == 5
    wire.breaks()
    wire, answer = served.resumed(welcome, received=5)
    assert answer.resumed.received == 5
    assert wire.receive().reply.group == 5
    wire.send(goodbye=pb.Goodbye())
    eventually(lambda: served.host.sessions == 0)
    wire, answer = served.resumed(welcome, received=6)
    assert answer.refusal.reason == pb.Refusal.GONE, "a session that has ended well is not kept"


def test_a_guest_that_comes_twice_goes_on_with_the_last(served: Served) -> None:
    """Its former connection need not have broken as the host sees it."""
    first, welcome = served.opened()
    second, answer = served.resumed(welcome, received=1)
    assert answer.resumed.received == 0
    first.fence(1)  # comes to nothing: the host reads that connection no more
    with pytest.raises((grpc.RpcError, StopIteration)):
        first.receive()
    second.fence(1)
    assert second.receive().reply.group == 1


@pytest.mark.parametrize("secret", [b"", bytes(32), b"x" * 1000])
def test_who_has_not_the_secret_is_refused(served: Served, secret: bytes) -> None:
    wire, welcome = served.opened()
    other = served.wire()
    other.send(resume=pb.Resume(session=welcome.session, secret=secret, received=1))
    refusal = other.receive().refusal
    assert refusal.reason == pb.Refusal.GONE
    wire.fence(1)
    assert wire.receive().reply.group == 1, "the session goes on"


def test_a_session_that_there_is_not(served: Served) -> None:
    wire = served.wire()
    wire.send(resume=pb.Resume(session="s99", secret=os.urandom(32), received=1))
    refusal = wire.receive().refusal
    assert refusal.reason == pb.Refusal.GONE
    assert "no such session" in refusal.message


def test_a_guest_that_has_more_than_it_was_sent(served: Served) -> None:
    wire, welcome = served.opened()
    wire.send(received=pb.Received(messages=9))
    with pytest.raises(grpc.RpcError) as raised:
        wire.receive()
    assert raised.value.code() == grpc.StatusCode.INTERNAL
    eventually(lambda: served.host.sessions == 0)
    wire, welcome = served.opened()
    wire.breaks()
    with pytest.raises(grpc.RpcError):
        served.resumed(welcome, received=7)
    eventually(lambda: served.host.sessions == 0)


def test_a_session_is_given_up_after_the_grace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with serving(tmp_path, 0.5) as served:
        wire, welcome = served.opened()
        wire.breaks()
        assert served.host.sessions == 1
        eventually(lambda: served.host.sessions == 0)
        assert "its guest did not come again within 0.5 s" in caplog.text
        _, answer = served.resumed(welcome, received=1)
        assert answer.refusal.reason == pb.Refusal.GONE


def test_sessions_that_end_with_their_connection(served: Served, tmp_path: Path) -> None:
    """Those of guests that do not know better, and those of a Unix socket."""
    old = served.wire()
    hello = pb.Hello()
    hello.CopyFrom(HELLO)
    hello.resumes = False
    old.send(hello=hello)
    near = served.wire(transport=1)
    near.send(hello=HELLO)
    for wire in (old, near):
        assert not wire.receive().welcome.resume_secret
        wire.breaks()
    eventually(lambda: served.host.sessions == 0, 20)
    (tmp_path / "other").mkdir()
    with serving(tmp_path / "other", 0.0) as without:
        assert not without.opened()[1].resume_secret


def test_it_counts_until_it_is_given_up(served: Served) -> None:
    kept = [served.opened() for _ in range(4)]
    for wire, _ in kept:
        wire.breaks()
    wire = served.wire()
    wire.send(hello=HELLO)
    assert wire.receive().refusal.reason == pb.Refusal.BUSY
    for _, welcome in kept:
        assert served.resumed(welcome, received=1)[1].resumed.received == 0
