"""A gateway's line to the roster: answers, a wrong key, a roster that fails or is started anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from farlane.fleet.cluster import line
from farlane.fleet.cluster.line import Exchange, Line, Lines, Lost

Numbers = Sequence[int]


def double(asked: Numbers) -> Numbers:
    return [2 * each for each in asked if 1 / each]  # 0: it fails


@pytest.fixture
def exchange() -> Iterator[Exchange[Numbers, Numbers]]:
    made: Exchange[Numbers, Numbers] = Exchange("127.0.0.1", double)
    yield made
    made.close()


def test_each_line_gets_its_own_answers(exchange: Exchange[Numbers, Numbers]) -> None:
    def ask(first: int) -> bool:
        one: Line[Numbers, Numbers] = Line(lambda: exchange.way)
        asked = range(first, first + 20_000)  # more than a packet
        answered = [list(one.ask(asked)) == double(asked) for _ in range(20)]
        one.close()
        return all(answered)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(1, 5)))


def test_threads_that_ask_at_the_same_time_have_a_line_each() -> None:
    both = threading.Barrier(2)

    def meet(asked: Numbers) -> Numbers:
        both.wait(30)
        return [-each for each in asked]

    exchange: Exchange[Numbers, Numbers] = Exchange("127.0.0.1", meet)
    lines: Lines[Numbers, Numbers] = Lines(lambda: exchange.way)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            assert list(pool.map(lines.ask, [[1], [2]])) == [[-1], [-2]]
    assert len(lines._idle) == 2, "which serve for the next questions"
    exchange.close()


def test_a_roster_that_says_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "CALL_SECONDS", 1.0)
    go = threading.Event()
    exchange: Exchange[Numbers, Numbers] = Exchange("127.0.0.1", lambda asked: asked if go.wait(30) else [])
    lines: Lines[Numbers, Numbers] = Lines(lambda: exchange.way)
    with pytest.raises(Lost, match="no answer for 1 s"):
        lines.ask([1])
    go.set()
    assert lines.ask([2]) == [2], "by another connection: the late answer is for no one"
    exchange.close()


def test_who_has_not_the_key_gets_nothing(exchange: Exchange[Numbers, Numbers]) -> None:
    for key in (b"", bytes(32)):
        one: Line[Numbers, Numbers] = Line(lambda key=key: exchange.way._replace(key=key))  # type: ignore[misc]
        with pytest.raises(Lost):
            one.ask([1])
    assert Line[Numbers, Numbers](lambda: exchange.way).ask([1]) == [2]


def test_a_roster_that_fails_is_asked_anew_where_it_is_then(exchange: Exchange[Numbers, Numbers]) -> None:
    ways = [exchange.way]
    one: Line[Numbers, Numbers] = Line(lambda: ways[-1])
    with pytest.raises(Lost):
        one.ask([0])
    assert one.ask([1]) == [2], "another line"
    other: Exchange[Numbers, Numbers] = Exchange("127.0.0.1", lambda asked: [-each for each in asked])
    ways.append(other.way)
    with pytest.raises(Lost):
        one.ask([0])
    assert one.ask([1]) == [-1]
    other.close()
    one.close()
    with pytest.raises(Lost):
        one.ask([1])
