"""The book of a fleet: room, limits, the queue's order, earmarked hosts, hosts that come and go."""

from __future__ import annotations

import contextlib

import pytest
from farlane.fleet.placement import locality, pack, spread
from farlane.fleet.placement.book import Book, Limits, Placed, Policy, Queued, Refused
from farlane.fleet.placement.hosts import Capacity, Hosts, Request
from hypothesis import given
from hypothesis import strategies as st

GIB = 1 << 30
HOST = Capacity("sim", 16 * GIB, 4)


def book(policy: Policy = spread.choose, hosts: int = 1, **more: object) -> Book:
    made = Book(policy, **more)  # type: ignore[arg-type]
    for number in range(hosts):
        made.add_host(f"h{number}", HOST, 0.0)
    return made


def request(memory: int = 1, owner: str = "ada", **more: object) -> Request:
    return Request(owner, "sim", memory * GIB, **more)  # type: ignore[arg-type]


def placed(answer: Placed | Queued) -> Placed:
    assert isinstance(answer, Placed)
    return answer


def test_spread_takes_the_host_with_the_least_work() -> None:
    fleet = book(hosts=3)
    hosts = [placed(fleet.ask(request(), 0.0)).host for _ in range(3)]
    assert sorted(hosts) == ["h0", "h1", "h2"]


def test_pack_fills_a_host_before_it_begins_another() -> None:
    fleet = book(pack.choose, hosts=3)
    assert {placed(fleet.ask(request(4), 0.0)).host for _ in range(4)} == {placed(fleet.ask(request(16), 0.0)).host} ^ {
        "h0",
        "h1",
    }


def test_pack_leaves_a_host_that_has_enough_to_do() -> None:
    fleet = book(pack.choose, hosts=2)
    assert [placed(fleet.ask(request(load=0.8), 0.0)).host for _ in range(2)] == ["h0", "h1"]


def test_locality_goes_where_the_images_are() -> None:
    fleet = book(locality.choose, hosts=3)
    first = placed(fleet.ask(request(images=("a", "b")), 0.0))
    assert first.missing == ("a", "b")
    other = placed(fleet.ask(request(images=("c",)), 0.0))
    assert other.host != first.host
    again = placed(fleet.ask(request(images=("a", "c", "b")), 0.0))
    assert (again.host, again.missing) == (first.host, ("c",))


def test_a_host_has_no_more_than_its_memory_and_its_sessions() -> None:
    fleet = book()
    for _ in range(4):
        placed(fleet.ask(request(1), 0.0))
    assert isinstance(fleet.ask(request(1), 0.0), Queued)
    other = book()
    placed(other.ask(request(10), 0.0))
    assert isinstance(other.ask(request(10), 0.0), Queued)


def test_what_no_host_can_ever_have_is_refused() -> None:
    fleet = book(limits={"ada": Limits(memory=8 * GIB)})
    for asked, reason in (
        (request(17), "no open host"),
        (Request("ada", "cupy", 1), "no open host"),
        (request(9), "may reserve"),
    ):
        with pytest.raises(Refused, match=reason):
            fleet.ask(asked, 0.0)
    assert (fleet.sessions, fleet.waiting) == (0, 0)


def test_the_queue_is_bounded() -> None:
    fleet = book(queue=1)
    placed(fleet.ask(request(16), 0.0))
    assert isinstance(fleet.ask(request(), 0.0), Queued)
    with pytest.raises(Refused, match="1 sessions wait already"):
        fleet.ask(request(owner="bob"), 0.0)


def test_an_owner_at_its_limit_waits_and_others_do_not() -> None:
    fleet = book(limits={"ada": Limits(sessions=1)})
    first = placed(fleet.ask(request(), 0.0))
    waits = fleet.ask(request(), 0.0)
    assert isinstance(waits, Queued)
    placed(fleet.ask(request(owner="bob"), 0.0))
    assert [each.number for each in fleet.leave(first.number, 1.0)] == [waits.number]


def test_who_is_next() -> None:
    """By priority, then by the owner's share for its weight, then by arrival."""
    fleet = book(hosts=2, limits={"bob": Limits(weight=4.0)})
    held = [placed(fleet.ask(request(8, "ada"), 0.0)) for _ in range(2)]
    held += [placed(fleet.ask(request(8, "bob"), 0.0)) for _ in range(2)]
    waiting = {
        name: fleet.ask(request(8, owner, priority=priority), 0.0).number
        for name, owner, priority in (("a1", "ada", 0), ("a2", "ada", 0), ("b1", "bob", 0), ("urgent", "ada", 3))
    }
    assert [fleet.place_of(waiting[name]) for name in ("urgent", "b1", "a1", "a2")] == [1, 2, 3, 4]
    order = [number for each in held for number in (found.number for found in fleet.leave(each.number, 1.0))]
    assert order == [waiting[name] for name in ("urgent", "b1", "a1", "a2")]


def test_one_that_gives_up_leaves_the_queue() -> None:
    fleet = book()
    held = placed(fleet.ask(request(16), 0.0))
    first, second = fleet.ask(request(16), 0.0), fleet.ask(request(16, "bob"), 0.0)
    assert fleet.leave(first.number, 1.0) == []
    assert fleet.place_of(second.number) == 1
    assert [each.number for each in fleet.leave(held.number, 2.0)] == [second.number]


@pytest.mark.parametrize(("patience", "overtaken"), [(10.0, False), (100.0, True)])
def test_a_large_session_is_not_passed_for_ever(patience: float, overtaken: bool) -> None:
    """One that has waited long enough has the host earmarked: what becomes free there is kept for it."""
    fleet = book(patience=patience)
    small = [placed(fleet.ask(request(8), 0.0)) for _ in range(2)]
    large = fleet.ask(request(16, "bob"), 0.0)
    waits = fleet.ask(request(8), 1.0)
    first = fleet.leave(small[0].number, 20.0)
    assert [each.number for each in first] == ([waits.number] if overtaken else [])
    then = fleet.leave(small[1].number, 30.0)
    assert [each.number for each in then] == ([] if overtaken else [large.number])


def test_a_drained_host_keeps_what_it_has_and_gets_no_more() -> None:
    fleet = book(hosts=2)
    held = placed(fleet.ask(request(), 0.0))
    fleet.set_open(held.host, False, 0.0)
    assert {placed(fleet.ask(request(), 0.0)).host for _ in range(4)} == {"h0", "h1"} - {held.host}
    waits = fleet.ask(request(), 0.0)
    assert [each.number for each in fleet.set_open(held.host, True, 1.0)] == [waits.number]


def test_a_session_moves_to_another_host_with_room() -> None:
    """It has room on both until it leaves one, beyond its owner's limits."""
    fleet = book(hosts=2, limits={"ada": Limits(sessions=1)})
    held = placed(fleet.ask(request(9), 0.0))
    there = placed(fleet.move(held.number))
    assert (there.host == held.host, there.number == held.number, there.request) == (False, False, held.request)
    fleet.leave(held.number, 1.0)
    assert fleet.sessions == 1
    assert placed(fleet.ask(request(16, "bob"), 1.0)).host == held.host
    with pytest.raises(Refused, match="has ended"):
        fleet.move(held.number)
    small = book(hosts=1)
    with pytest.raises(Refused, match="large enough"):
        small.move(placed(small.ask(request(), 0.0)).number)


@pytest.mark.parametrize("ends", ["comes", "stops", "has ended"])
def test_room_is_kept_for_a_session_that_is_to_move(ends: str) -> None:
    """Neither those that wait nor new ones take it, until it has come, or asks no more."""
    fleet = book(hosts=2)
    mine = placed(fleet.ask(request(12), 0.0))
    others = [placed(fleet.ask(request(8, "bob"), 0.0)) for _ in range(2)]
    fleet.set_open(mine.host, False, 0.0)
    fleet.ask(request(8, "bob"), 0.0)
    moving = fleet.move(mine.number)
    assert isinstance(moving, Queued)
    assert fleet.leave(others[0].number, 1.0) == []
    assert (fleet.move(mine.number), isinstance(fleet.ask(request(8), 1.0), Queued)) == (moving, True)
    if ends == "comes":
        assert fleet.leave(others[1].number, 2.0) == []
        there = placed(fleet.move(mine.number))
        assert (there.number, there.host) == (moving.number, others[0].host)
    else:
        advanced = fleet.stop_moving(mine.number, 2.0) if ends == "stops" else fleet.leave(mine.number, 2.0)
        assert len(advanced) == 1
        assert advanced[0].host == others[0].host
        assert fleet.stop_moving(mine.number, 3.0) == []


def test_a_host_that_is_lost_takes_its_sessions_only() -> None:
    fleet = book(hosts=2, limits={"ada": Limits(sessions=2)})
    first, second = placed(fleet.ask(request(), 0.0)), placed(fleet.ask(request(), 0.0))
    assert [each.number for each in fleet.remove_host(first.host)] == [first.number]
    assert fleet.sessions == 1
    assert placed(fleet.ask(request(), 0.0)).host == second.host  # its owner may have another one now
    waits = fleet.ask(request(), 0.0)
    assert isinstance(waits, Queued)
    assert fleet.add_host(first.host, HOST, 1.0) == []  # the owner's limit holds
    with pytest.raises(KeyError):
        fleet.remove_host("h7")
    with pytest.raises(ValueError, match="already"):
        fleet.add_host(second.host, HOST, 1.0)


def test_rows_of_hosts_that_left_are_used_again() -> None:
    hosts = Hosts()
    for round_ in range(3):
        for number in range(40):
            hosts.add(f"{round_}.{number}", HOST)
        assert int(hosts.fits(request()).sum()) == 40
        for number in range(40):
            hosts.remove(f"{round_}.{number}")
    assert not hosts.fits(request()).any()
    assert len(hosts.memory) <= 64


@given(st.data())
def test_any_history_keeps_the_account(data: st.DataObject) -> None:
    """No host has more than it can have; what has left has left no trace; the queue moves as soon as there is room."""
    policy = data.draw(st.sampled_from([pack.choose, spread.choose, locality.choose]))
    fleet = book(policy, 3, limits={"bob": Limits(sessions=3, weight=2.0)}, patience=5.0)
    alive: set[int] = set()
    for now in range(data.draw(st.integers(1, 60))):
        action = data.draw(st.sampled_from(["ask", "ask", "leave", "drain", "open", "lose", "add", "move", "stay"]))
        host = f"h{data.draw(st.integers(0, 2))}"
        there = host in list(fleet.hosts)
        if action == "ask":
            owner, memory = data.draw(st.sampled_from(["ada", "bob"])), data.draw(st.sampled_from([1, 3, 8, 16]))
            try:
                alive.add(fleet.ask(request(memory, owner, priority=data.draw(st.integers(0, 1))), now).number)
            except Refused:
                assert not fleet.hosts.able(request(memory)).any()
        elif action == "leave" and alive:
            number = data.draw(st.sampled_from(sorted(alive)))
            alive.discard(number)
            fleet.leave(number, now)
        elif action == "move" and alive:
            number = data.draw(st.sampled_from(sorted(alive)))
            with contextlib.suppress(Refused):
                if isinstance(found := fleet.move(number), Placed):
                    alive.add(found.number)
        elif action == "stay" and alive:
            fleet.stop_moving(data.draw(st.sampled_from(sorted(alive))), now)
        elif action in ("drain", "open") and there:
            fleet.set_open(host, action == "open", now)
        elif action == "lose" and there:
            alive -= {each.number for each in fleet.remove_host(host)}
        elif action == "add" and not there:
            fleet.add_host(host, HOST, now)
        assert fleet.sessions + fleet.waiting == len(alive)
        assert (fleet.hosts.free_memory >= 0).all()
        assert (fleet.hosts.free_slots >= 0).all()
    for number in sorted(alive):
        fleet.leave(number, 1e6)
    assert (fleet.sessions, fleet.waiting) == (0, 0)
    assert (fleet.hosts.free_memory == fleet.hosts.memory).all()
    assert (fleet.hosts.load < 1e-9).all()


def test_images_that_guests_name_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farlane.fleet.placement.hosts.IMAGES_LIMIT", 3)
    hosts = Hosts()
    hosts.add("a", Capacity("sim", 1, 1))
    row = hosts.row("a")
    for image in ("1", "2", "3", "1", "4"):
        hosts.hold(row, image)
    assert [image for image in "1234" if hosts.holds(row, image)] == ["1", "3", "4"], "the one used longest ago goes"
    request = Request("bob", "sim", 1, images=("1", "2", "4"))
    assert hosts.held(request)[row] == 2
    hosts.remove("a")
    assert not hosts.held(request).any()


def test_sessions_are_known_by_their_host() -> None:
    book = Book(spread.choose)
    for name in ("a", "b"):
        book.add_host(name, Capacity("sim", 10, 4), 0.0)
    placed = [book.ask(Request("bob", "sim", 2), 0.0) for _ in range(4)]
    assert all(isinstance(each, Placed) for each in placed)
    assert sorted(each.number for name in ("a", "b") for each in book.placed_on(name)) == [1, 2, 3, 4]
    book.leave(1, 1.0)
    assert book.placed(1) is None
    assert sum(len(book.placed_on(name)) for name in ("a", "b")) == 3
    lost = book.remove_host("a")
    assert book.placed_on("a") == []
    assert all(book.placed(each.number) is None for each in lost)
    assert book.sessions == 3 - len(lost)
