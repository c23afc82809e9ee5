"""Streams that run as late as CUDA allows.

Work waits until somebody waits for it, and then nothing runs but what must: so a buffer that is used again too early, an unmapping in front of
work that needs the memory, or a missing event shows itself.

Source: CUDA runtime API, "Stream synchronization behavior".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

LEGACY = 1


@dataclass(eq=False)
class Work:
    """Something issued. `behind`: what must have run before."""

    run: Callable[[], None]
    behind: list[Work] = field(default_factory=list)
    done: bool = False


@dataclass(eq=False)
class Stream:
    blocking: bool
    last: Work | None = None
    asked: bool = False  # a query was answered with "not ready": progress is made by then


@dataclass(eq=False)
class Event:
    work: Work | None = None
    nanoseconds: int = 0
    asked: bool = False


class Timeline:
    """All streams of the double."""

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {LEGACY: Stream(blocking=True)}
        self.pending = 0
        self.slow = False  # queries never let anything run
        self._ended: list[Stream] = []

    def end(self, number: int) -> None:
        """Its work goes on."""
        self._ended.append(self.streams.pop(number))

    def issue(self, number: int, run: Callable[[], None], *behind: Work | None) -> Work:
        stream = self.streams[number]
        before = [stream.last, *behind]
        if number == LEGACY:
            before += [each.last for each in (*self.streams.values(), *self._ended) if each.blocking]
        elif stream.blocking:
            before.append(self.streams[LEGACY].last)
        work = Work(run, [each for each in before if each is not None and not each.done])
        stream.last = work
        self.pending += 1
        return work

    def complete(self, work: Work | None) -> None:
        """Runs the work, and before it only what it is behind."""
        if work is None:
            return
        stack = [work]
        while stack:
            top = stack[-1]
            left = [each for each in top.behind if not each.done]
            if top.done:
                stack.pop()
            elif left:
                stack.extend(left)
            else:
                stack.pop()
                top.done = True
                top.behind.clear()
                self.pending -= 1
                top.run()

    def complete_all(self) -> None:
        for stream in (*self.streams.values(), *self._ended):
            self.complete(stream.last)
        self._ended.clear()

    def query(self, thing: Stream | Event, work: Work | None) -> bool:
        """Done? What is not will be by the next time."""
        if work is None or work.done:
            thing.asked = False
            return True
        if not thing.asked or self.slow:
            thing.asked = True
            return False
        self.complete(work)
        return True

    @staticmethod
    def now() -> int:
        return time.monotonic_ns()
