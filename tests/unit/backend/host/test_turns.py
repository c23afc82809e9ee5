"""Turns: how many threads work at once, in which order, and that one which waits for something else holds up no other."""

from __future__ import annotations

import threading

from farlane.backend.host.turns import Turns
from waiting import eventually


class Worker:
    """A thread that takes a turn, notes its name, and keeps the turn until it may end."""

    def __init__(self, name: str, turns: Turns, order: list[str], may_wait: bool = False) -> None:
        self.end, self.over_there = threading.Event(), threading.Event()
        self._name, self._turns, self._order, self._may_wait = name, turns, order, may_wait
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with self._turns:
            self._order.append(self._name)
            if self._may_wait:
                with self._turns.given_away():
                    assert self.over_there.wait(10)
                self._order.append(f"{self._name} again")
            assert self.end.wait(10)


def started(name: str, turns: Turns, order: list[str]) -> Worker:
    """One that waits for its turn, behind those that were started before."""
    waits = len(turns._coming)
    worker = Worker(name, turns, order)
    eventually(lambda: len(turns._coming) > waits or name in order)
    return worker


def finish(*workers: Worker) -> None:
    for worker in workers:
        worker.end.set()
    for worker in workers:
        worker.thread.join(10)
        assert not worker.thread.is_alive()


def test_so_many_work_at_once_in_the_order_in_which_they_came() -> None:
    turns, order = Turns(2, long=60), list[str]()
    a, b, c, d = (started(name, turns, order) for name in "abcd")
    assert order == ["a", "b"]
    finish(b)
    eventually(lambda: len(order) == 3)
    finish(c)
    eventually(lambda: len(order) == 4)
    assert order == ["a", "b", "c", "d"]
    finish(a, d)


def test_one_that_waits_for_something_else_lets_another_work_and_goes_on_before_the_rest() -> None:
    turns, order = Turns(1, long=60), list[str]()
    a = Worker("a", turns, order, may_wait=True)
    eventually(lambda: order == ["a"])
    b, c = (started(name, turns, order) for name in "bc")
    eventually(lambda: order == ["a", "b"])
    a.over_there.set()
    eventually(lambda: len(turns._returning) == 1)
    finish(b)
    eventually(lambda: order == ["a", "b", "a again"])
    finish(a)
    eventually(lambda: order[3:] == ["c"])
    finish(c)


def test_one_that_keeps_its_turn_for_long_holds_up_no_other() -> None:
    turns, order = Turns(1, long=0.05), list[str]()
    a = Worker("a", turns, order)
    eventually(lambda: order == ["a"])
    b, c = (started(name, turns, order) for name in "bc")
    eventually(lambda: order == ["a", "b", "c"])
    finish(a, b, c)
    assert turns._free == 1, "each turn has come back once"
    d = Worker("d", turns, order, may_wait=True)
    eventually(lambda: order[3:] == ["d"])
    e = started("e", turns, order)
    eventually(lambda: order[4:] == ["e"])
    d.over_there.set()
    eventually(lambda: order[5:] == ["d again"])
    finish(d, e)
    assert (turns._free, turns._since) == (1, {})


def test_without_a_bound_none_waits() -> None:
    turns, order = Turns(), list[str]()
    workers = [Worker(str(number), turns, order) for number in range(20)]
    eventually(lambda: len(order) == 20)
    finish(*workers)
    with turns, turns.given_away():
        assert (len(turns._coming), len(turns._returning)) == (0, 0)
