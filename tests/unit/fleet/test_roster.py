"""The roster of a fleet: leases, hosts that begin, fail and come again, and a roster that is started anew."""

from __future__ import annotations

import pytest
from farlane.fleet.gateway.roster import (
    LEASE_SECONDS,
    SETTLING_SECONDS,
    WAITING_SECONDS,
    Held,
    InQueue,
    NotYet,
    Place,
    Report,
    Roster,
    Target,
    UnknownHost,
)
from farlane.fleet.placement import pack
from farlane.fleet.placement.book import Limits, Refused
from farlane.fleet.placement.hosts import Capacity, Request

GB = 1 << 30
BIG = Request("alice", "sim", 4 * GB)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def roster(clock: Clock) -> Roster:
    made = Roster(pack.choose, clock=clock)
    made.add_host("a", "a1", Capacity("sim", 4 * GB, 8), Target("grpc://a:1"))
    return made


def placed(found: Place | InQueue | None) -> Place:
    assert isinstance(found, Place)
    return found


def queued(found: Place | InQueue | None) -> InQueue:
    assert isinstance(found, InQueue)
    return found


def free(roster: Roster) -> int:
    return roster.state().hosts[0].free_memory


def test_a_place_names_the_host(roster: Roster) -> None:
    place = placed(roster.ask(BIG, Limits()))
    assert (place.host, place.target) == ("a", Target("grpc://a:1"))
    assert free(roster) == 0
    roster.leave(place.number)
    roster.leave(place.number)
    assert free(roster) == 4 * GB


def test_the_next_one_goes_where_one_has_left(roster: Roster) -> None:
    first = placed(roster.ask(BIG, Limits()))
    waits = queued(roster.ask(BIG, Limits()))
    assert (waits.place, waits.of) == (1, 1)
    assert roster.news([waits.number]) == {waits.number: waits}
    roster.leave(first.number)
    assert placed(roster.news([waits.number])[waits.number]).host == "a"
    assert roster.state().placed == 2


def test_a_session_that_its_host_never_sees_lapses(roster: Roster, clock: Clock) -> None:
    kept, lost = (placed(roster.ask(Request("alice", "sim", 2 * GB), Limits())) for _ in range(2))
    clock.now += LEASE_SECONDS
    roster.report("a", "a1", Report([kept.number]))
    assert free(roster) == 0, "it may be on its way yet"
    clock.now += 1
    roster.report("a", "a1", Report([kept.number]))
    assert (free(roster), roster.state().lapsed) == (2 * GB, 1)
    assert roster.news([lost.number]) == {lost.number: None}


def test_one_whose_gateway_has_gone_waits_no_more(roster: Roster, clock: Clock) -> None:
    placed(roster.ask(BIG, Limits()))
    gone, asked = (queued(roster.ask(BIG, Limits())) for _ in range(2))
    for _ in range(3):
        clock.now += WAITING_SECONDS / 2
        roster.news([asked.number])
    assert roster.news([gone.number, asked.number]) == {
        gone.number: None,
        asked.number: InQueue(asked.number, 1, 1),
    }


def test_room_that_comes_for_one_whose_gateway_has_gone_is_free_again_soon(roster: Roster, clock: Clock) -> None:
    first = placed(roster.ask(BIG, Limits()))
    gone, asked = (queued(roster.ask(BIG, Limits())) for _ in range(2))
    roster.leave(first.number)
    assert roster.news([asked.number]) == {asked.number: InQueue(asked.number, 1, 1)}, "the other one has got the place"
    clock.now += WAITING_SECONDS
    assert roster.news([asked.number]) == {asked.number: InQueue(asked.number, 1, 1)}
    clock.now += 1
    assert placed(roster.news([asked.number])[asked.number]).host == "a"
    assert (roster.news([gone.number]), roster.state().lapsed) == ({gone.number: None}, 1)


def test_a_place_that_a_gateway_has_heard_of_is_kept_for_the_guest_from_then_on(roster: Roster, clock: Clock) -> None:
    first = placed(roster.ask(BIG, Limits()))
    asked = queued(roster.ask(BIG, Limits()))
    roster.leave(first.number)
    clock.now += WAITING_SECONDS
    placed(roster.news([asked.number])[asked.number])
    clock.now += LEASE_SECONDS
    roster.report("a", "a1", Report([]))
    assert placed(roster.news([asked.number])[asked.number]).host == "a"
    clock.now += 1
    roster.report("a", "a1", Report([]))
    assert (roster.news([asked.number]), free(roster)) == ({asked.number: None}, 4 * GB)


def test_a_session_that_moves_lapses_where_it_does_not_come(roster: Roster, clock: Clock) -> None:
    roster.add_host("b", "b1", Capacity("sim", 4 * GB, 8), Target("grpc://b:1"))
    held = placed(roster.ask(BIG, Limits()))
    there = placed(roster.move(held.number))
    assert {held.host, there.host} == {"a", "b"}
    assert roster.state().placed == 1
    assert {name: roster.numbers_on(name) for name in (held.host, there.host)} == {
        held.host: [held.number],
        there.host: [there.number],
    }
    with pytest.raises(UnknownHost):
        roster.numbers_on("c")
    clock.now += LEASE_SECONDS + 1
    for host in roster.state().hosts:
        roster.report(host.name, f"{host.name}1", Report([held.number]))
    assert {host.name: host.free_memory for host in roster.state().hosts} == {held.host: 0, there.host: 4 * GB}


def test_room_is_kept_for_a_moving_session_as_long_as_it_asks(roster: Roster, clock: Clock) -> None:
    roster.add_host("b", "b1", Capacity("sim", 4 * GB, 8), Target("grpc://b:1"))
    held, other = (placed(roster.ask(BIG, Limits())) for _ in range(2))
    waits = queued(roster.ask(BIG, Limits()))
    assert roster.move(held.number) is None
    roster.leave(other.number)
    assert queued(roster.news([waits.number])[waits.number]).place == 1
    for _ in range(3):
        clock.now += WAITING_SECONDS / 2 + 1
        roster.news([waits.number])
    assert placed(roster.news([waits.number])[waits.number]).host == other.host
    roster.stop_moving(held.number)


def test_a_host_that_fails_loses_its_sessions_alone(roster: Roster) -> None:
    roster.add_host("b", "b1", Capacity("sim", 4 * GB, 8), Target("grpc://b:1"))
    here, there = (placed(roster.ask(BIG, Limits())) for _ in range(2))
    assert {here.host, there.host} == {"a", "b"}
    assert roster.fail_host("a", "a0") == 0, "another incarnation's end"
    assert roster.fail_host("a", "a1") == 1
    (state,) = roster.state().hosts
    assert (state.name, state.sessions, roster.state().lost) == ("b", 1, 1)
    with pytest.raises(UnknownHost):
        roster.report("a", "a1", Report([]))


def test_a_host_that_is_started_anew_takes_the_earlier_ones_place(roster: Roster) -> None:
    placed(roster.ask(BIG, Limits()))
    roster.add_host("a", "a2", Capacity("sim", 4 * GB, 8), Target("grpc://a:2"))
    assert roster.state().lost == 1
    assert placed(roster.ask(BIG, Limits())).target == Target("grpc://a:2")


def test_a_roster_that_is_started_anew_learns_what_hosts_have(clock: Clock) -> None:
    earlier = Roster(pack.choose, clock=clock)
    earlier.add_host("a", "a1", Capacity("sim", 8 * GB, 8), Target("grpc://a:1"))
    session = placed(earlier.ask(BIG, Limits()))
    roster = Roster(pack.choose, clock=clock)
    with pytest.raises(UnknownHost):
        roster.report("a", "a1", Report([session.number]))
    roster.add_host("a", "a1", Capacity("sim", 8 * GB, 8), Target("grpc://a:1"), held=[Held(session.number, BIG)])
    assert free(roster) == 4 * GB
    other = placed(roster.ask(BIG, Limits()))
    assert other.number != session.number
    roster.leave(session.number)
    assert free(roster) == 4 * GB


def test_a_roster_that_has_just_begun_refuses_nobody(clock: Clock) -> None:
    roster = Roster(pack.choose, clock=clock)
    with pytest.raises(NotYet):
        roster.ask(BIG, Limits())
    clock.now += SETTLING_SECONDS
    with pytest.raises(Refused, match="no open host"):
        roster.ask(BIG, Limits())


def test_a_drained_host_keeps_its_sessions_and_gets_none(roster: Roster) -> None:
    roster.add_host("b", "b1", Capacity("sim", 4 * GB, 8), Target("grpc://b:1"))
    roster.set_open("a", False)
    small = Request("alice", "sim", GB)
    assert {placed(roster.ask(small, Limits())).host for _ in range(4)} == {"b"}
    waits = queued(roster.ask(small, Limits()))
    roster.set_open("a", True)
    assert placed(roster.news([waits.number])[waits.number]).host == "a"
    with pytest.raises(UnknownHost):
        roster.set_open("c", False)


def test_an_owner_has_as_many_sessions_as_it_may(roster: Roster) -> None:
    small = Request("alice", "sim", GB)
    placed(roster.ask(small, Limits(sessions=1)))
    queued(roster.ask(small, Limits(sessions=1)))
    placed(roster.ask(Request("bob", "sim", GB), Limits()))
