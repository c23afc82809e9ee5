"""What a placement's time at a gateway consists of: a gateway that keeps the times of its parts.

Owns the parts' names and their means, which add up to the mean placement. `benchmarks/fleet/placing.py` prints them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from farlane.backend.host.turns import Turns
from farlane.fleet.cluster.cluster import Cluster
from farlane.fleet.gateway import gateway as gateways

PARTS = ("own call", "other calls", "turn again", "connection", "rest")


class _Turns(Turns):
    """Keeps how long threads wait that have given their turn away."""

    def __init__(self, at_once: float) -> None:
        super().__init__(at_once)
        self.waits = deque()  # all of them, not the recent ones alone: means of all parts are of the same guests
        self.own = threading.local()  # `seconds`: what the thread has waited so, all in all

    def _take(self, queue: deque[threading.Lock]) -> None:
        came = time.perf_counter()
        super()._take(queue)
        if queue is self._returning:
            self.own.seconds = self.waited + time.perf_counter() - came

    @property
    def waited(self) -> float:
        found: float = getattr(self.own, "seconds", 0.0)
        return found


class Gateway(gateways.Gateway):
    """Of a fleet that nothing else asks."""

    def __init__(self, fleet: Cluster, *arguments: Any, at_once: float, **named: Any) -> None:
        super().__init__(fleet, *arguments, at_once=at_once, **named)
        self.turns: _Turns = _Turns(at_once)
        self._placing = deque()  # all of them, too
        self._asked: list[float] = []  # seconds of questions, as guests see them
        self._calls: list[float] = []  # those of the call that took a guest's question, once for each question
        self._reaching: list[float] = []  # of connections, without the turn again
        self._again: list[float] = []  # until a guest has its turn again, after its question and its connection
        self._processor: list[float] = []  # of guests' threads
        self._call, fleet._asks._call = fleet._asks._call, self._timed_call
        self._question, fleet.ask = fleet.ask, self._timed_question  # type: ignore[method-assign]

    def parts(self) -> tuple[dict[str, float], float, float, float]:
        """Mean milliseconds of each part; of a placement; of a guest's thread's processor time; of waiting for the first
        turn. Since this was last asked."""
        count = max(1, len(self._asked))
        asked, calls, placing, again = sum(self._asked), sum(self._calls), sum(self._placing), sum(self._again)
        connecting = sum(self._reaching)
        seconds = (calls, asked - calls, again, connecting, placing - asked - again - connecting)
        processor, waits = sum(self._processor), sum(self.turns.waits)
        for each in (self._asked, self._calls, self._reaching, self._processor, self._again):
            each.clear()
        found = {name: 1000 * each / count for name, each in zip(PARTS, seconds, strict=True)}
        return found, 1000 * placing / count, 1000 * processor / count, 1000 * waits / count

    def admit(self, *arguments: Any, **named: Any) -> Any:
        began, waited = time.thread_time(), self.turns.waited
        try:
            return super().admit(*arguments, **named)
        finally:
            self._again.append(self.turns.waited - waited)
            self._processor.append(time.thread_time() - began)

    def _timed_question(self, *arguments: Any) -> Any:
        began = time.perf_counter()
        try:
            return self._question(*arguments)
        finally:
            self._asked.append(time.perf_counter() - began)

    def _timed_call(self, asked: Sequence[Any]) -> Sequence[Any]:
        began = time.perf_counter()
        answers = self._call(asked)
        self._calls += [time.perf_counter() - began] * len(asked)
        return answers

    def _reach(self, url: str) -> None:
        began, waited = time.perf_counter(), self.turns.waited
        super()._reach(url)
        self._reaching.append(time.perf_counter() - began - (self.turns.waited - waited))
