"""The sessions that a gateway sends: let in once, in time, by their own ticket, and nobody else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from farlane.backend.host.greeting import Reason, Refused
from farlane.backend.security.gate import Gate
from farlane.backend.security.tickets import KEY_BYTES, Ticket, Tickets, seal, unseal

KEY = bytes(range(KEY_BYTES))
GUEST = "ab" * 32
TICKET = Ticket(1, "alice", expires=130, memory=7, priority=3, weight=100, load=0.1, share=0.3, guest=GUEST)
MOVING = replace(TICKET, number=2, moves=True)
LONGEST = Ticket(
    (1 << 64) - 1, "a" * 64, (1 << 64) - 1, (1 << 64) - 1, 9, 65535, 0.7, 1.0, (1 << 63) - 1, (1 << 63) - 1, "ff" * 32
)
TOKEN_CHARACTERS = 256  # of the longest token that a guest shows (client/src/connection/security.rs)


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


class Host:
    """What becomes of sessions."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.gone: list[str] = []
        self.full = False

    def take(self, ticket: Ticket) -> None:
        if self.full:
            raise Refused(Reason.BUSY, "it is full")
        self.open.append(ticket.name)

    def end(self, ticket: Ticket) -> None:
        self.gone.append(ticket.name)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tickets(host: Host, clock: Clock) -> Tickets:
    return Tickets(KEY, host.take, host.end, clock)


@pytest.fixture
def gate(tickets: Tickets) -> Iterator[Gate]:
    made = Gate(tickets=tickets)
    yield made
    made.close()


def caller(ticket: Ticket = TICKET, key: bytes = KEY) -> Caller:
    return Caller("tcp:127.0.0.1:5000", f"Bearer {seal(ticket, key)}")


@pytest.mark.parametrize("ticket", [TICKET, LONGEST, MOVING, Ticket(2, "guests", 1, 0)])
def test_a_ticket_says_what_the_gateway_said(ticket: Ticket) -> None:
    token = seal(ticket, KEY)
    assert unseal(token, KEY) == ticket
    assert len(token) <= TOKEN_CHARACTERS
    assert token.isascii()
    assert token.isprintable()


def test_an_owner_that_no_token_can_name_has_no_ticket() -> None:
    with pytest.raises(ValueError, match="too long"):
        seal(replace(LONGEST, owner="a" * 100), KEY)


def test_what_was_changed_is_no_ticket() -> None:
    """Neither another host's, nor one of which a character was changed, added or taken away."""
    token = seal(TICKET, KEY)
    assert unseal(token, bytes(KEY_BYTES)) is None
    draw = random.Random(5)
    for _ in range(2000):
        at = draw.randrange(len("farlane-"), len(token))
        other = draw.choice("ABCabc019-_=+/ \n\0\u00fc")
        changed = draw.choice([token[:at] + other + token[at + 1 :], token[:at] + other + token[at:], token[:at]])
        assert changed == token or unseal(changed, KEY) is None
    for nothing in ("", "farlane-", "farlane-AAAA", "x" * 1000):
        assert unseal(nothing, KEY) is None


def test_the_guest_gets_what_the_gateway_said(gate: Gate, tickets: Tickets, host: Host) -> None:
    grant = gate.enter(caller())
    assert (grant.memory, grant.priority, grant.guest) == (7, 3, GUEST)
    assert grant.terms is not None
    assert (grant.terms.weight, grant.terms.share) == (100, 0.3)
    assert grant.terms.owner == f"guest {GUEST}", "one owner's sessions share it"
    assert tickets.guests() == set()
    with gate.session(grant):
        assert (tickets.of_guest(GUEST), tickets.guests()) == (["alice.1"], {GUEST})
        assert (host.open, host.gone) == (["alice.1"], [])
    assert (tickets.of_guest(GUEST), host.gone) == ([], ["alice.1"])


@pytest.mark.parametrize("shown", [None, "", "Bearer ", "Bearer guess", "Basic x"])
def test_others_are_not_let_in(gate: Gate, shown: str | None) -> None:
    for peer in ("tcp:127.0.0.1:1", "tls:192.0.2.1:1", "unix:"):
        with pytest.raises(Refused, match="only by the ticket that the fleet's gateway gives"):
            gate.enter(Caller(peer, shown))


def test_a_ticket_is_good_once(gate: Gate, tickets: Tickets, clock: Clock) -> None:
    with gate.session(gate.enter(caller())):
        again = gate.enter(caller())  # as one does whose connection broke
        with pytest.raises(Refused, match="was used already"), gate.session(again):
            pass
        assert tickets.of_guest(GUEST) == ["alice.1"], "the session goes on"
    with pytest.raises(Refused, match="was used already"), gate.session(gate.enter(caller())):
        pass
    clock.now = TICKET.expires
    gate.enter(caller(replace(TICKET, number=2)))  # one that has expired is forgotten
    with pytest.raises(Refused, match="not used in time"), gate.session(gate.enter(caller())):
        pass


def test_a_ticket_is_good_for_a_while(gate: Gate, host: Host, clock: Clock) -> None:
    grant = gate.enter(caller())
    clock.now = TICKET.expires
    with pytest.raises(Refused, match="not used in time"), gate.session(grant):
        pass
    assert (host.open, host.gone) == ([], [])


def test_an_open_session_does_not_lapse(gate: Gate, tickets: Tickets, clock: Clock) -> None:
    with gate.session(gate.enter(caller())):
        clock.now = TICKET.expires + 100
        gate.enter(caller(replace(TICKET, number=2)))
        assert tickets.of_guest(GUEST) == ["alice.1"]
        assert gate.enter(caller()).owner == "alice.1", "a guest whose connection broke comes again"


def test_a_host_without_room_takes_none(gate: Gate, host: Host) -> None:
    host.full = True
    with pytest.raises(Refused, match="it is full"), gate.session(gate.enter(caller())):
        pass
    assert (host.open, host.gone) == ([], [])


def test_guesses_are_bounded(gate: Gate) -> None:
    for _ in range(20):
        with pytest.raises(Refused):
            gate.enter(Caller("tcp:127.0.0.1:5000", "Bearer guess"))
    with pytest.raises(Refused, match="20 guests of this address were refused"):
        gate.enter(caller())


def test_a_session_that_moves_is_not_opened_and_one_that_is_opened_does_not_move(gate: Gate, host: Host) -> None:
    for ticket in (TICKET, MOVING):
        grant = gate.enter(caller(ticket))
        with pytest.raises(Refused, match="not for this one"), gate.session(grant, moves=not ticket.moves):
            pass
        assert host.open == host.gone
        with gate.session(grant, moves=ticket.moves):
            assert host.open[-1] == ticket.name
