"""A gateway's line to the roster: answers, a wrong key, a roster that fails or is started anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from farlane.fleet.cluster.line import Exchange, Line, Lost


def double(asked: Sequence[int]) -> list[int]:
    return [2 * each for each in asked if 1 / each]  # 0: it fails


@pytest.fixture
def exchange() -> Iterator[Exchange[int, int]]:
    made: Exchange[int, int] = Exchange("127.0.0.1", double)
    yield made
    made.close()


def test_each_line_gets_its_own_answers(exchange: Exchange[int, int]) -> None:
    def ask(first: int) -> bool:
        line: Line[int, int] = Line(lambda: exchange.way)
        asked = range(first, first + 20_000)  # more than a packet
        answered = [list(line.ask(asked)) == double(asked) for _ in range(20)]
        line.close()
        return all(answered)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(1, 5)))


def test_who_has_not_the_key_gets_nothing(exchange: Exchange[int, int]) -> None:
    for key in (b"", bytes(32)):
        line: Line[int, int] = Line(lambda key=key: exchange.way._replace(key=key))  # type: ignore[misc]
        with pytest.raises(Lost):
            line.ask([1])
    assert Line[int, int](lambda: exchange.way).ask([1]) == [2]


def test_a_roster_that_fails_is_asked_anew_where_it_is_then(exchange: Exchange[int, int]) -> None:
    ways = [exchange.way]
    line: Line[int, int] = Line(lambda: ways[-1])
    with pytest.raises(Lost):
        line.ask([0])
    assert line.ask([1]) == [2], "another line"
    other: Exchange[int, int] = Exchange("127.0.0.1", lambda asked: [-each for each in asked])
    ways.append(other.way)
    with pytest.raises(Lost):
        line.ask([0])
    assert line.ask([1]) == [-1]
    other.close()
    line.close()
    with pytest.raises(Lost):
        line.ask([1])
