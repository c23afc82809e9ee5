"""Policies: who goes, with and without a future, and that the same questions get the same answers."""

from __future__ import annotations

import pytest
from farlane.backend.memory.planner.trace import Access
from farlane.backend.memory.replacement import POLICIES, Future, Policy, Resident

READ, CHANGE = (True, False), (True, True)


def _future(steps: list[list[int]], begin: int = 1, size: int = 10, memory: int = 40) -> Future:
    objects = {number for step in steps for number in step}
    return Future(begin, [[Access(n, *CHANGE) for n in step] for step in steps], dict.fromkeys(objects, size), memory)


def _residents(*numbers: int) -> list[Resident]:
    """The first one was used last the longest ago."""
    return [Resident(number, 10, place, dirty=True) for place, number in enumerate(numbers)]


def test_least_recently_used() -> None:
    policy = POLICIES["lru"]()
    assert policy.victim(9, _residents(4, 2, 7), 5) == 4
    assert not policy.looks_ahead


@pytest.mark.parametrize("name", ["future", "genetic", "dp"])
def test_the_one_needed_last_goes_and_without_a_future_the_least_recently_used(name: str) -> None:
    policy = POLICIES[name]()
    assert policy.victim(9, _residents(4, 2, 7), 5) == 4
    policy.expect(_future([[4], [7], [2], [4]], begin=5, memory=1000))
    assert policy.victim(9, _residents(4, 2, 7), 5) == 2
    assert policy.victim(9, _residents(4, 2, 7), 6) == 4
    assert policy.victim(9, _residents(4, 2, 8), 5) == 8, "nobody is known to need it"
    clean = [Resident(4, 10, 0, dirty=True), Resident(3, 10, 9, dirty=False)]
    assert policy.victim(9, clean, 100) == 3, "neither is needed: the one that need not be written back"


@pytest.mark.parametrize("name", ["genetic", "dp"])
def test_objects_of_one_segment_make_room_for_each_other(name: str) -> None:
    policy = POLICIES[name]()
    # Two pairs that alternate, and room for two objects: each pair has its segment.
    policy.expect(_future([[1, 2], [3, 4]] * 6, memory=20))
    partner = policy.victim(3, _residents(1, 2), 2)
    other = policy.victim(4, [each for each in _residents(1, 2) if each.number != partner], 2)
    assert {partner, other} == {1, 2}
    # An object that the plan does not know goes before those that it counts on.
    assert policy.victim(3, _residents(1, 2, 50), 2) in (partner, 50)


def _moved(policy: Policy, steps: list[list[int]], memory: int, horizon: int) -> int:
    """Bytes that a device of `memory` bytes moves, objects of 10 bytes each, all of them changed."""
    there: dict[int, int] = {}
    moved = 0
    for now, step in enumerate(steps):
        if now % horizon == 0:
            policy.expect(_future(steps[now : now + 2 * horizon], begin=now, memory=memory))
        for wanted in step:
            if wanted not in there:
                while 10 * (len(there) + 1) > memory:
                    free = [Resident(n, 10, used, dirty=True) for n, used in there.items() if n not in step]
                    del there[policy.victim(wanted, free, now)]
                    moved += 10
                moved += 10
            there[wanted] = now
    return moved


def test_a_known_future_saves_moves_and_answers_repeat() -> None:
    rounds = [[[k, (7 * k + r) % 12] if k != (7 * k + r) % 12 else [k] for k in range(12)] for r in range(4)]
    steps = [step for each in rounds for step in each]
    moved = {name: _moved(POLICIES[name](), steps, 60, 24) for name in POLICIES}
    assert moved == {name: _moved(POLICIES[name](), steps, 60, 24) for name in POLICIES}
    assert moved["future"] < moved["lru"]
    assert moved["genetic"] < moved["lru"]
