"""Batches: threads that ask the same process at the same time share a call to it.

One call is under way at a time. What is asked meanwhile goes with the next one, which the first thread of those that wait
makes. A thread that is alone makes its call at once, on its own.

Locking: one lock around the list; calls are made without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

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
        """Makes the call for all that wait, and wakes the one that makes the next."""
        with self._lock:
            batch, self._waiting = self._waiting, []
        try:
            for each, answer in zip(batch, self._call([each.asked for each in batch]), strict=True):
                each.answer.append(answer)
        except BaseException as error:
            for each in batch:
                each.error = error
        finally:
            with self._lock:
                self._busy = bool(self._waiting)
                following = self._waiting[0] if self._waiting else None
            for each in batch:
                each.woken.set()
            if following is not None:
                following.woken.set()
