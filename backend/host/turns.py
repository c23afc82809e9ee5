"""Turns: so many threads work at once; the others wait, in the order in which they came.

Threads of Python share one processor. Where hundreds of them have something to do at the same time, each is stopped and
woken many times, and all are done late. In turns each is done soon after it has begun.

A thread that waits for something else gives its turn to another meanwhile, and goes on before those that have not begun.
One that keeps its turn for long, since something does not answer, is not counted any more: the next one takes its place.

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
LONG_SECONDS = 0.2


class Turns:
    """See the module.

    Args:
        at_once: threads that work at once; infinite: none waits.
        long: seconds after which one that keeps its turn is not counted, where others want it.
    """

    def __init__(self, at_once: float = math.inf, long: float = LONG_SECONDS) -> None:
        self._free: float = at_once
        self._long = long
        self.waits: deque[float] = deque(maxlen=RECENT)  # seconds that recent ones waited for their turn
        self._lock = threading.Lock()
        self._since: dict[int, float] = {}  # when those that work have got their turn, by their threads' numbers
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
                self._since[threading.get_ident()] = time.monotonic()
                return
            mine = threading.Lock()
            mine.acquire()
            queue.append(mine)
        while not mine.acquire(timeout=self._long):
            self._pass_over()
        with self._lock:
            self._since[threading.get_ident()] = time.monotonic()

    def _give(self) -> None:
        with self._lock:
            if self._since.pop(threading.get_ident(), None) is not None:
                self._give_next()

    def _pass_over(self) -> None:
        """Those that have kept their turn for long work on beside so many others."""
        with self._lock:
            late = time.monotonic() - self._long
            for thread in [thread for thread, since in self._since.items() if since <= late]:
                del self._since[thread]
                self._give_next()

    def _give_next(self) -> None:
        queue = self._returning or self._coming
        if queue:
            queue.popleft().release()
        else:
            self._free += 1
