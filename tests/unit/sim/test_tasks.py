"""Turns of the device: the highest priority first, equals in turn, and a task that waits for nothing costs nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from farlane.backend.device.sim.tasks import GRACE, SLICE, Interrupted, Task, TaskManager


class Tasks:
    """A manager, and threads that enter it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.manager = TaskManager(lambda: self.now)
        self.log: list[int] = []
        self.threads: list[threading.Thread] = []

    def task(self, priority: int = 0, stop: Callable[[], None] | None = None) -> Task:
        task = self.manager.new_task()
        self.manager.prioritize(task, priority)
        if stop is not None:
            self.manager.set_stop(task, stop)
        return task

    def once(self, task: Task) -> None:
        self.manager.enter(task)
        self.manager.leave(task)

    def later(self, task: Task) -> None:
        """The task enters in a thread of its own, and leaves, once it may; returns when it waits or is through."""

        def run() -> None:
            self.manager.enter(task)
            self.log.append(task.number)
            self.manager.rest(task)
            self.manager.leave(task)

        before = self.manager.waiting
        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive() and self.manager.waiting == before:
            time.sleep(0.001)
        self.threads.append(thread)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()


@pytest.fixture
def tasks() -> Tasks:
    return Tasks()


def test_one_task_alone_never_waits(tasks: Tasks) -> None:
    task = tasks.task()
    for _ in range(1000):
        tasks.once(task)
    assert (tasks.manager.counts.turns, tasks.manager.counts.switches, tasks.manager.counts.waits) == (1, 0, 0)


def test_the_highest_priority_comes_first_and_equals_in_their_order(tasks: Tasks) -> None:
    inside = tasks.task(9)
    tasks.manager.enter(inside)
    order = [tasks.task(priority) for priority in (1, 3, 0, 3, 2)]
    for task in order:
        tasks.later(task)
    tasks.manager.rest(inside)
    tasks.manager.leave(inside)
    tasks.join()
    assert tasks.log == [order[index].number for index in (1, 3, 4, 0, 2)]
    assert tasks.manager.counts.switches == 0  # all had finished


def test_a_task_with_work_gives_way_at_a_boundary_and_goes_on(tasks: Tasks) -> None:
    asked: list[str] = []
    low, high = tasks.task(1, lambda: asked.append("low")), tasks.task(2)
    tasks.manager.enter(low)
    assert tasks.manager.step_aside(low) is None  # nobody waits
    tasks.later(high)
    assert asked == ["low"]
    assert tasks.manager.step_aside(low) is high  # it has run in between
    tasks.join()
    assert tasks.log == [high.number]
    tasks.manager.leave(low)
    assert (tasks.manager.counts.switches, low.counts.switches, high.counts.switches) == (1, 1, 0)


def test_a_lower_or_equal_priority_stops_nobody(tasks: Tasks) -> None:
    asked: list[str] = []
    task, equal, lower = tasks.task(2, lambda: asked.append("stop")), tasks.task(2), tasks.task(1)
    tasks.manager.enter(task)
    tasks.later(equal)
    tasks.later(lower)
    assert tasks.manager.step_aside(task) is None
    assert not asked
    tasks.manager.leave(task)
    tasks.once(task)  # its slice lasts
    assert not tasks.log
    tasks.manager.rest(task)
    tasks.join()
    assert tasks.log == [equal.number, lower.number]
    assert tasks.manager.counts.switches == 0


def test_an_equal_one_gets_its_turn_when_the_slice_is_over(tasks: Tasks) -> None:
    task, equal = tasks.task(), tasks.task()
    tasks.manager.enter(task)
    tasks.later(equal)
    tasks.now += SLICE
    tasks.manager.leave(task)
    tasks.join()
    assert tasks.log == [equal.number]
    assert tasks.manager.counts.switches == 0


def test_a_guest_that_is_slow_holds_up_nobody_for_long(tasks: Tasks) -> None:
    high, low = tasks.task(5), tasks.task()
    tasks.once(high)  # and is not idle: its guest may be stopped
    tasks.later(low)
    assert not tasks.log
    tasks.now += GRACE
    tasks.join()
    assert tasks.log == [low.number]


def test_an_idle_task_of_a_high_priority_costs_nothing(tasks: Tasks) -> None:
    high, low = tasks.task(9), tasks.task()
    tasks.once(high)
    tasks.manager.rest(high)
    for _ in range(100):
        tasks.once(low)
    assert (tasks.manager.counts.turns, tasks.manager.counts.switches, tasks.manager.counts.waits) == (2, 0, 0)


def test_an_interrupted_task_waits_no_longer(tasks: Tasks) -> None:
    inside, waiting = tasks.task(), tasks.task()
    tasks.manager.enter(inside)
    raised: list[bool] = []

    def run() -> None:
        with pytest.raises(Interrupted):
            tasks.manager.enter(waiting)
        raised.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    while not tasks.manager.waiting:
        time.sleep(0.001)
    tasks.manager.interrupt(waiting)
    thread.join(10)
    assert raised == [True]
    tasks.manager.leave(waiting)  # takes nothing from the one inside
    late = tasks.task()
    tasks.later(late)
    assert not tasks.log
    tasks.manager.rest(inside)
    tasks.manager.leave(inside)
    tasks.join()


def test_twenty_tasks_exclude_each_other(tasks: Tasks) -> None:
    tasks.manager = TaskManager()
    inside, most = 0, 0
    lock = threading.Lock()
    ended: list[int] = []

    def run(task: Task) -> None:
        nonlocal inside, most
        for turn in range(30):
            tasks.manager.enter(task)
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0)
            with lock:
                inside -= 1
            if turn % 3:
                tasks.manager.step_aside(task)
            tasks.manager.leave(task)
        tasks.manager.rest(task)
        ended.append(task.number)

    tasks.threads = [threading.Thread(target=run, args=(tasks.task(number % 4),)) for number in range(20)]
    for thread in tasks.threads:
        thread.start()
    tasks.join()
    assert (most, len(ended)) == (1, 20)
