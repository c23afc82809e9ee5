"""The guests that wait for a session of a full host: those of the highest priority first, then those who came first.

Owns the order. Not locked: the host's lock is held around each call.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Place(NamedTuple):
    """Of a guest in the queue; the first one is number 1."""

    number: int
    of: int


class Patience(Protocol):
    """How a guest waits."""

    def wake(self) -> None:
        """From any thread: `wait` is to return."""

    def wait(self, place: Place) -> None:
        """Tells the guest its place and waits until woken, or for a while. Raises CallGone: the guest has given up."""


@dataclass(eq=False)
class Waiting:
    """A guest in the queue."""

    priority: int
    number: int
    wake: Callable[[], None]


class Queue:
    """Of one host.

    Args:
        limit: guests that may wait.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._numbers = itertools.count()
        self._waiting: list[Waiting] = []

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= self.limit

    def join(self, priority: int, wake: Callable[[], None]) -> Waiting:
        waiting = Waiting(priority, next(self._numbers), wake)
        self._waiting.append(waiting)
        self._waiting.sort(key=lambda each: (-each.priority, each.number))
        self.wake()
        return waiting

    def leave(self, waiting: Waiting) -> None:
        self._waiting.remove(waiting)
        self.wake()

    def place(self, waiting: Waiting) -> Place:
        return Place(self._waiting.index(waiting) + 1, len(self._waiting))

    def wake(self) -> None:
        """Places have changed, or a session has ended."""
        for each in self._waiting:
            each.wake()
