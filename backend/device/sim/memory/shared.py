"""Physical memory that all sessions of a device share: what one session lacks leaves another one's, and not before.

Owns the occupancy (which task has how many granules of 2 MiB) and the saving. A task that needs more takes what is free, wherever it is: its first module
(translation/segments.py) shows it as one contiguous range, and nothing moves. Where that does not suffice, exactly the granules that are missing leave other
tasks, by the rule (memory/switching.py); their bytes go to these sessions' stores in host memory, and come back when a launch needs them (residency.py).

The tasks whose memory leaves do not run: only a task that the manager has let in (tasks.py) takes memory.

Locking: one lock around taking, which saving belongs to, and around the end of a session's memory; so no memory is saved that ends.
Source: docs/explanation/systems.md, S2 points 4 and 5.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Protocol

from farlane.backend.device.sim.memory.space import Physical
from farlane.backend.device.sim.tasks import Manager, Task, TaskManager, Turns
from farlane.backend.memory.switching import DELAYED, Candidate, Rule, victims


@dataclass
class Savings:
    """What has left sessions for others: of one, or of all."""

    granules: int = 0
    bytes_saved: int = 0
    bytes_restored: int = 0
    saving_nanoseconds: int = 0


class Holder(Protocol):
    """A session's memory (residency.py)."""

    savings: Savings

    @property
    def granules(self) -> int:
        """That it has."""

    def give_up(self, granules: int, unchanged: bool) -> int:
        """Saves so many granules and gives them back to the device; those of which it takes least. Returns the bytes that it copied.

        Args:
            unchanged: copies what the store has already, too.
        """

    def restore(self) -> None:
        """Brings back what has left, as far as there is room."""


class Shared(Physical):
    """What a session asks: the memory that is shared, or who asks that of another process (processes/client.py)."""

    @abstractmethod
    def join(self, number: int, task: Task, holder: Holder) -> None:
        """The space of this number is the task's."""

    @abstractmethod
    def switched(self, previous: Task, task: Task) -> None:
        """The device is the task's now, and was the other one's: what the rule moves at once. By the task's thread."""


class Switching(Protocol):
    """What the sessions of a device share, as one of them has it."""

    @property
    def manager(self) -> Manager: ...
    @property
    def physical(self) -> Shared: ...
    def counts(self, task: Task, holder: Holder) -> Counts:
        """What the session has been through."""

    def report(self) -> dict[str, dict[str, int]]:
        """Counts of all sessions, by section, where they are kept in this process."""


@dataclass(frozen=True)
class Counts:
    """What a session has been through."""

    priority: int
    turns: Turns
    savings: Savings
    process_stops: int = 0  # its process computed without the device; only its listener knows

    def brief(self) -> dict[str, int]:
        """As an open session shows them."""
        return {
            "switches": self.turns.switches,
            "device_wait_nanoseconds": self.turns.waited_nanoseconds,
            "granules_saved": self.savings.granules,
            "bytes_saved": self.savings.bytes_saved,
            "bytes_restored": self.savings.bytes_restored,
            "process_stops": self.process_stops,
        }

    def report(self) -> dict[str, int]:
        return {"priority": self.priority, **asdict(self.turns), **asdict(self.savings)}


class SharedPhysical(Shared):
    """See the module."""

    def __init__(self, size: int, rule: Rule = DELAYED) -> None:
        super().__init__(size)
        self.rule = rule
        self._ended = Savings()  # of sessions that have ended
        #: Held while memory is taken, and while a session's memory ends.
        self.sharing = threading.RLock()
        self._holders: dict[int, tuple[Task, Holder]] = {}

    def join(self, number: int, task: Task, holder: Holder) -> None:
        with self.sharing:
            self._holders[number] = task, holder

    def take(self, count: int, number: int = 0) -> list[int]:
        with self.sharing:
            missing = count - self.free_granules
            if missing > 0:
                self._save(missing, number)
            return super().take(count, number)

    def end(self, number: int, frames: Collection[int]) -> None:
        with self.sharing:
            ended = self._holders.pop(number, None)
            if ended is not None:
                _add(self._ended, ended[1].savings)
            super().end(number, frames)

    def switched(self, previous: Task, task: Task) -> None:
        if not (self.rule.saves_all or self.rule.restores_all):
            return
        with self.sharing:
            for owner, holder in list(self._holders.values()):
                if owner is previous and self.rule.saves_all:
                    self._save_from(holder, holder.granules)
            for owner, holder in list(self._holders.values()):
                if owner is task and self.rule.restores_all:
                    holder.restore()

    @property
    def savings(self) -> Savings:
        """Of all sessions."""
        total = Savings()
        with self.sharing:
            for each in (self._ended, *(holder.savings for _, holder in self._holders.values())):
                _add(total, each)
        return total

    def _save(self, missing: int, number: int) -> None:
        candidates = [
            Candidate(other, task.priority, task.turn, holder.granules)
            for other, (task, holder) in self._holders.items()
            if other != number
        ]
        for other, granules in victims(candidates, missing):
            self._save_from(self._holders[other][1], granules)

    def _save_from(self, holder: Holder, granules: int) -> None:
        if granules:
            began = time.monotonic_ns()
            copied = holder.give_up(granules, self.rule.saves_unchanged)
            _add(holder.savings, Savings(granules, copied, 0, time.monotonic_ns() - began))


class LocalSwitching:
    """A `Switching` whose books are this process's."""

    def __init__(self, memory: int, rule: Rule = DELAYED) -> None:
        self.manager = TaskManager()
        self.physical = SharedPhysical(memory, rule)

    @staticmethod
    def counts(task: Task, holder: Holder) -> Counts:
        return Counts(task.priority, task.counts, holder.savings)

    def report(self) -> dict[str, dict[str, int]]:
        manager, physical = self.manager, self.physical
        counts = {"device_bytes": physical.size, **asdict(manager.counts), **asdict(physical.savings)}
        return {"device: switching": counts}


def _add(to: Savings, more: Savings) -> None:
    to.granules += more.granules
    to.bytes_saved += more.bytes_saved
    to.bytes_restored += more.bytes_restored
    to.saving_nanoseconds += more.saving_nanoseconds
