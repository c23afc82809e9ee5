"""The task manager of the simulated device: which of its sessions runs, and which ones wait.

Owns the turns of tasks (one task is one session): their priorities, who is inside an operation, who waits, and the counts of all that. At most one task is
inside at a time, and only then may it use device memory. Does not own memory: what a task occupies, and what leaves for another one, is
memory/shared.py's, which asks for the priorities kept here. Does not own launches: a task stops its own where it is asked to (`Task.stop`).

The device goes to the waiting task of the highest priority; between equal ones, to the task that has it while its slice lasts, then to the one that waits longest.
A task gets it
- at once, when the task that had it last is idle, has ended, or has a lower priority and is between two operations;
- at the next block boundary, when the task inside has a lower priority (`step_aside`);
- when the last task has been between two operations for GRACE seconds, whatever the priorities are: its guest may be slow, or stopped;
- from a task of its own priority, between two operations, when that one has had the device for SLICE seconds.

A task that is a session of another process may keep the device between two operations. It is asked to leave it (`recall`) when another one waits, whatever the
priorities are, and when it gets the device while others wait.

A *switch* is that a task which still had work gave way to one of a higher priority. Other changes of the device's task are turns and no switches.

Locking: one lock, held for bookkeeping alone. `stop` and `recall` are called under it and must not call back.
Source: docs/explanation/systems.md, S2 points 4 and 5.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

GRACE = 0.005
SLICE = 0.1


class Interrupted(Exception):
    """The task is to end: its session is going away."""


@dataclass
class Turns:
    """What tasks have been through: of one, or of all."""

    turns: int = 0  # the device was another task's before
    switches: int = 0  # gave way to a higher priority, with work left
    waits: int = 0  # for the device, while another task was inside
    waited_nanoseconds: int = 0
    longest_wait_nanoseconds: int = 0


def _nothing() -> None:
    pass


@dataclass(eq=False)
class Task:
    """A session, as the manager sees it.

    Args:
        stop: asks the launch that runs to stop at the next block boundary.
        recall: asks the task to leave the device once its operation has ended.
    """

    number: int
    priority: int = 0
    stop: Callable[[], None] = _nothing
    recall: Callable[[], None] = _nothing
    counts: Turns = field(default_factory=Turns)
    turn: int = 0  # the number of the last turn that it had
    idle: bool = True
    interrupted: bool = False


class Manager(Protocol):
    """What a session asks: the task manager, or who asks that of another process (processes/client.py)."""

    def new_task(self) -> Task: ...
    def enter(self, task: Task) -> Task | None: ...
    def leave(self, task: Task) -> None: ...
    def step_aside(self, task: Task) -> Task | None: ...
    def rest(self, task: Task) -> None: ...
    def prioritize(self, task: Task, priority: int) -> None: ...
    def set_stop(self, task: Task, stop: Callable[[], None]) -> None: ...
    def interrupt(self, task: Task) -> None: ...


class TaskManager:
    """See the module."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts = Turns()
        self._clock = clock
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._orders = itertools.count()
        self._waiting: dict[Task, int] = {}  # in which order they came
        self._inside: Task | None = None
        self._current: Task | None = None  # had the last turn; its memory is the youngest
        self._began = 0.0  # its turn
        self._left = 0.0  # its last operation ended

    def new_task(self) -> Task:
        with self._changed:
            return Task(next(self._numbers))

    @property
    def waiting(self) -> int:
        """Tasks that wait now."""
        with self._changed:
            return len(self._waiting)

    def contended(self, tasks: Collection[Task]) -> bool:
        """Whether a task that is none of these has the device, or waits for it while none of these has it."""
        with self._changed:
            if self._inside is not None:
                return self._inside not in tasks
            return any(each not in tasks for each in self._waiting)

    # A task's own thread ----------------------------------------------------------------------------------------
    def enter(self, task: Task) -> Task | None:
        """Waits for the device. Gives the task whose turn it was, if that was another one. Raises Interrupted."""
        with self._changed:
            return self._wait(task)

    def leave(self, task: Task) -> None:
        """An operation has ended."""
        with self._changed:
            if self._inside is task:
                self._leave()

    def step_aside(self, task: Task) -> Task | None:
        """At a boundary inside an operation: gives the device to waiting tasks of a higher priority, and waits for it again.

        Returns as `enter`; None, too, where no such task waits. Raises Interrupted: the task is inside no longer.
        """
        with self._changed:
            if not any(other.priority > task.priority for other in self._waiting):
                if self._waiting:
                    task.recall()
                return None
            self._leave()
            return self._wait(task)

    def rest(self, task: Task) -> None:
        """The task has no work now."""
        with self._changed:
            task.idle = True
            self._changed.notify_all()

    # Any thread -------------------------------------------------------------------------------------------------
    def prioritize(self, task: Task, priority: int) -> None:
        with self._changed:
            task.priority = priority
            self._changed.notify_all()

    def set_stop(self, task: Task, stop: Callable[[], None]) -> None:
        """How the task's launches are asked to stop from now on."""
        with self._changed:
            task.stop = stop

    def recall(self) -> None:
        """What the task inside knows of the device holds no longer: it is to enter anew."""
        with self._changed:
            if self._inside is not None:
                self._inside.recall()

    def interrupt(self, task: Task) -> None:
        """Ends the task's waiting, now and later."""
        with self._changed:
            task.interrupted = task.idle = True
            self._changed.notify_all()

    def _leave(self) -> None:
        self._inside = None
        self._left = self._clock()
        self._changed.notify_all()

    def _wait(self, task: Task) -> Task | None:
        self._waiting[task] = next(self._orders)
        task.idle = task.interrupted
        began, waited = time.monotonic_ns(), False
        inside = self._inside
        if inside is not None:
            inside.recall()
            if inside.priority < task.priority:
                inside.stop()
        try:
            while delay := self._delay(task):
                waited = True
                self._changed.wait(None if delay == math.inf else delay)
            if task.interrupted:
                raise Interrupted
        finally:
            del self._waiting[task]
            if self._waiting:
                self._changed.notify_all()
        if waited:
            nanoseconds = time.monotonic_ns() - began
            for counts in (self.counts, task.counts):
                counts.waits += 1
                counts.waited_nanoseconds += nanoseconds
                counts.longest_wait_nanoseconds = max(counts.longest_wait_nanoseconds, nanoseconds)
        return self._give(task)

    def _give(self, task: Task) -> Task | None:
        self._inside = task
        if self._waiting:
            task.recall()
        previous = self._current
        if previous is task:
            return None
        self._current, self._began = task, self._clock()
        self.counts.turns += 1
        task.counts.turns += 1
        task.turn = self.counts.turns
        if previous is not None and not previous.idle and previous.priority < task.priority:
            self.counts.switches += 1
            previous.counts.switches += 1
        return previous

    def _delay(self, task: Task) -> float:
        """In how many seconds the task may go in: 0, now; infinite, when something has changed."""
        if task.interrupted:
            return 0
        current = self._current
        if self._inside is not None or task is not max(self._waiting, key=self._rank):
            return math.inf
        if current is None or current is task or current.idle or current.priority < task.priority:
            return 0
        ends = self._left + GRACE
        if current.priority == task.priority:
            ends = min(ends, self._began + SLICE)
        return max(0.0, ends - self._clock())

    def _rank(self, task: Task) -> tuple[int, bool, int]:
        goes_on = task is self._current and self._clock() < self._began + SLICE
        return task.priority, goes_on, -self._waiting[task]
