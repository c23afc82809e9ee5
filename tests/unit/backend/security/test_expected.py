"""The sessions that a gateway sends: let in once, in time, by their own token, and nobody else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from farlane.backend.host.greeting import Refused
from farlane.backend.security import tokens
from farlane.backend.security.expected import Expected
from farlane.backend.security.gate import Gate
from farlane.backend.security.tokens import Entry


@dataclass
class Caller:
    peer: str
    authorization: str | None = None
    certificate: bytes | None = None


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def gone() -> list[str]:
    return []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def expected(gone: list[str], clock: Clock) -> Expected:
    return Expected(gone.append, clock)


@pytest.fixture
def gate(expected: Expected) -> Iterator[Gate]:
    made = Gate(expected=expected)
    yield made
    made.close()


def sent(expected: Expected, name: str = "alice.1", seconds: float = 30) -> Caller:
    token = tokens.new_token()
    digest = tokens.digest_of(token.encode())
    expected.expect(Entry(name, digest, "token", time.time(), memory=7, priority=3, share=0.5), seconds, "guest-digest")
    return Caller(peer="tcp:127.0.0.1:5000", authorization=f"Bearer {token}")


def test_the_guest_gets_what_the_gateway_said(gate: Gate, expected: Expected, gone: list[str]) -> None:
    grant = gate.enter(sent(expected))
    assert (grant.memory, grant.priority, grant.guest) == (7, 3, "guest-digest")
    assert grant.terms is not None
    assert (grant.terms.share, grant.terms.owner) == (0.5, "guest guest-digest"), "one owner's sessions share it"
    with gate.session(grant):
        assert expected.names() == ["alice.1"]
        assert gone == []
    assert (expected.names(), gone) == ([], ["alice.1"])


@pytest.mark.parametrize("shown", [None, "", "Bearer ", "Bearer guess", "Basic x"])
def test_others_are_not_let_in(gate: Gate, expected: Expected, shown: str | None) -> None:
    sent(expected)
    for peer in ("tcp:127.0.0.1:1", "tls:192.0.2.1:1", "unix:"):
        with pytest.raises(Refused, match="only by the token that the fleet's gateway gives"):
            gate.enter(Caller(peer, shown))


def test_a_token_is_good_once(gate: Gate, expected: Expected) -> None:
    caller = sent(expected)
    with gate.session(gate.enter(caller)):
        again = gate.enter(caller)  # as one does whose connection broke
        with pytest.raises(Refused, match="was used already"), gate.session(again):
            pass
        assert expected.names() == ["alice.1"], "the session goes on"
    with pytest.raises(Refused, match="only by the token"):
        gate.enter(caller)


def test_a_token_is_good_for_a_while(gate: Gate, expected: Expected, clock: Clock, gone: list[str]) -> None:
    caller = sent(expected, seconds=10)
    grant = gate.enter(caller)
    clock.now += 10
    with pytest.raises(Refused, match="not used in time"), gate.session(grant):
        pass
    expected.sweep()
    assert (expected.names(), gone) == ([], ["alice.1"])
    with pytest.raises(Refused, match="only by the token"):
        gate.enter(caller)


def test_an_open_session_does_not_lapse(gate: Gate, expected: Expected, clock: Clock) -> None:
    with gate.session(gate.enter(sent(expected, seconds=10))):
        clock.now += 100
        expected.sweep()
        assert expected.names() == ["alice.1"]


def test_a_session_is_expected_once(expected: Expected) -> None:
    sent(expected)
    with pytest.raises(ValueError, match="expected already"):
        sent(expected)


def test_guesses_are_bounded(gate: Gate, expected: Expected) -> None:
    caller = sent(expected)
    for _ in range(20):
        with pytest.raises(Refused):
            gate.enter(Caller(caller.peer, "Bearer guess"))
    with pytest.raises(Refused, match="try again in"):
        gate.enter(caller)
