"""What ends an analysis early: an executable that cannot be read (`AnalysisError`), and the time that is used up
(`Budget`).

A budget counts processor time of the thread that analyzes, so that a loaded machine skips no more than a quiet one. It
looks at the clock too, for a process that gets hardly any processor time: that limit is much later.
"""

from __future__ import annotations

import time


class AnalysisError(Exception):
    """The file cannot be analyzed; the message is for the user."""


ON_THE_CLOCK = 5.0  # times as many seconds as of the processor


class Budget:
    """For one analysis, which begins now, in one thread.

    Attributes:
        exceeded: whether `used_up` has said so; from then on it always does.
    """

    def __init__(self, seconds: float, spent: float = 0.0) -> None:
        self._started = time.thread_time() - spent
        self._limit = self._started + seconds
        self._end = time.monotonic() - spent + ON_THE_CLOCK * seconds
        self.exceeded = False

    def used_up(self) -> bool:
        self.exceeded = self.exceeded or time.thread_time() > self._limit or time.monotonic() > self._end
        return self.exceeded

    def left(self) -> float:
        """Seconds of the processor."""
        return max(0.0, self._limit - time.thread_time())

    def spent(self) -> float:
        """Seconds of the processor."""
        return time.thread_time() - self._started
