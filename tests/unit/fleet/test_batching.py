"""Batches: each thread gets its own answer, a call is made for all that wait, and errors reach all of a batch."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from farlane.fleet.cluster.batching import Batches


class Slow:
    """Answers when it is let go, and counts."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def __call__(self, asked: Sequence[int]) -> list[int]:
        self.calls.append(list(asked))
        self.begun.release()
        assert self.go.acquire(timeout=30)
        if 99 in asked:
            raise ValueError("99")
        return [-each for each in asked]


def test_those_that_come_meanwhile_share_a_call() -> None:
    slow = Slow()
    batches: Batches[int, int] = Batches(slow)
    with ThreadPoolExecutor(40) as pool:
        first = pool.submit(batches.ask, 1)
        assert slow.begun.acquire(timeout=30)
        others = [pool.submit(batches.ask, number) for number in range(2, 40)]
        while len(batches._waiting) < len(others):
            pass
        for _ in range(2):
            slow.go.release()
        assert [first.result(), *(other.result() for other in others)] == [-number for number in range(1, 40)]
    assert [len(call) for call in slow.calls] == [1, 38]


def test_an_error_is_that_of_its_batch_alone() -> None:
    slow = Slow()
    batches: Batches[int, int] = Batches(slow)
    for _ in range(2):
        slow.go.release()
    with pytest.raises(ValueError, match="99"):
        batches.ask(99)
    assert batches.ask(1) == -1


def test_many_threads_get_their_own_answers() -> None:
    batches: Batches[int, int] = Batches(lambda asked: [2 * each for each in asked])
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(batches.ask, range(2000))) == [2 * each for each in range(2000)]
