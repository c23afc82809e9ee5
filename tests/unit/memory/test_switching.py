"""Whose memory leaves for another task: the lowest priority first, then whose turn is longest ago, and never more than is missing."""

from __future__ import annotations

from farlane.backend.memory.switching import DELAYED, FULL, PIPELINED, RULES, Candidate, victims

TASKS = [
    Candidate(1, 5, 9, 3),
    Candidate(2, 0, 8, 2),
    Candidate(3, 0, 2, 4),
    Candidate(4, 1, 1, 0),
    Candidate(5, 1, 3, 1),
]


def test_the_order() -> None:
    assert victims(TASKS, 100) == [(3, 4), (2, 2), (5, 1), (1, 3)]


def test_no_more_than_is_missing() -> None:
    for missing in range(11):
        found = victims(TASKS, missing)
        assert sum(granules for _, granules in found) == missing
        assert all(granules for _, granules in found)
    assert victims(TASKS, 5) == [(3, 4), (2, 1)]
    assert victims([], 5) == []


def test_only_the_delayed_rule_moves_nothing_at_a_switch() -> None:
    assert RULES == {"delayed": DELAYED, "full": FULL, "pipelined": PIPELINED}
    assert [rule.saves_all for rule in RULES.values()] == [False, True, True]
    assert [rule.saves_unchanged for rule in RULES.values()] == [False, True, False]
