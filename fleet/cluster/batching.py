"""Batches: threads that ask the same process at the same time share a call to it.

One call is under way at a time. What is asked meanwhile goes with the next one. A thread that is alone makes its call at
once, on its own; it makes the next ones, too, for those that wait, and after some of them another thread does: on a busy
machine each thread that is woken costs more than a call.

Locking: one lock around the list; calls are made without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

TURNS = 4  # calls that a thread makes before another one does

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass
class _Waiting(Generic[Asked, Answer]):
    asked: Asked
    woken: threading.Event = field(default_factory=threading.Event)
    answer: list[Answer] = field(default_factory=list)  # one, once it is there
    error: BaseException | None = None


class Batches(Generic[Asked, Answer]):
    """See the module.

    Args:
        call: gives as many answers as it was asked, in their order. What it raises is raised to all of the batch.
    """

    def __init__(self, call: Callable[[Sequence[Asked]], Sequence[Answer]]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._waiting: list[_Waiting[Asked, Answer]] = []
        self._busy = False

    def ask(self, asked: Asked) -> Answer:
        mine: _Waiting[Asked, Answer] = _Waiting(asked)
        with self._lock:
            self._waiting.append(mine)
            leads = not self._busy
            self._busy = True
        if not leads:
            mine.woken.wait()
        if not mine.answer and mine.error is None:
            self._lead()
        if mine.error is not None:
            raise mine.error
        return mine.answer[0]

    def _lead(self) -> None:
        """Makes calls for all that wait, and then wakes the one that makes the next."""
        for _ in range(TURNS):
            with self._lock:
                batch, self._waiting = self._waiting, []
            self._make(batch)
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
        with self._lock:
            following = self._waiting[0]  # of this thread alone: it leads
        following.woken.set()

    def _make(self, batch: list[_Waiting[Asked, Answer]]) -> None:
        try:
            for each, answer in zip(batch, self._call([each.asked for each in batch]), strict=True):
                each.answer.append(answer)
        except BaseException as error:
            for each in batch:
                each.error = error
        for each in batch:
            each.woken.set()
