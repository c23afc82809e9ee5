"""Turns: so many threads work at once; the others wait, in the order in which they came.

Threads of Python share one processor. Where hundreds of them have something to do at the same time, each is stopped and
woken many times, and all are done late. In turns each is done soon after it has begun.

A thread that waits for something else gives its turn to another meanwhile, and goes on before those that have not begun.

Locking: one lock around the lists.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Iterator

RECENT = 1000  # times that are kept


class Turns:
    """See the module.

    Args:
        at_once: threads that work at once; infinite: none waits.
    """

    def __init__(self, at_once: float = math.inf) -> None:
        self._free: float = at_once
        self.waits: deque[float] = deque(maxlen=RECENT)  # seconds that recent ones waited for their turn
        self._lock = threading.Lock()
        self._returning: deque[threading.Lock] = deque()
        self._coming: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        came = time.perf_counter()
        self._take(self._coming)
        self.waits.append(time.perf_counter() - came)

    def __exit__(self, *_: object) -> None:
        self._give()

    @contextlib.contextmanager
    def given_away(self) -> Iterator[None]:
        """While the thread that has a turn waits for something else."""
        self._give()
        try:
            yield
        finally:
            self._take(self._returning)

    def _take(self, queue: deque[threading.Lock]) -> None:
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            mine = threading.Lock()
            mine.acquire()
            queue.append(mine)
        mine.acquire()

    def _give(self) -> None:
        with self._lock:
            queue = self._returning or self._coming
            if queue:
                queue.popleft().release()
            else:
                self._free += 1
