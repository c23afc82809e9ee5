"""The device's time, shared between a host's sessions: who has what weight, and what each of them has had.

Owns the terms of a session and its membership of the plane's scheduler, which gives the device's places to sessions
(backend/plane/src/fairness). A session of this process gets its place here; a session's own process has one from its start.

Locking: one lock around the members.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from farlane.backend.device.base import Context
from farlane.backend.plane import Page, Scheduler

DEFAULT_WEIGHT = 1
MOST_WEIGHT = 1000


@dataclass(frozen=True)
class Terms:
    """What a session may have of the device."""

    weight: int = DEFAULT_WEIGHT
    share: float | None = None  # of the time, at most: of all sessions of `owner` together
    owner: str = ""  # empty: this session alone
    priority: int = 0


DEFAULT = Terms()


@dataclass(frozen=True)
class Served:
    """What a session has had."""

    terms: Terms
    service_nanoseconds: int
    waited_nanoseconds: int
    stopped: int  # times that its process worked on without a place, and was stopped
    waits: bool


class Apart(Protocol):
    """A session in a process of its own."""

    @property
    def pid(self) -> int: ...
    @property
    def page(self) -> Page | None: ...


class Fairness:
    """Of one device.

    Args:
        places: sessions that it runs at once.
    """

    def __init__(self, places: int) -> None:
        self.scheduler = Scheduler(places)
        self._lock = threading.Lock()
        self._members: dict[str, tuple[int, Terms]] = {}

    def join(self, name: str, session: Context | Apart, terms: Terms) -> None:
        """A session has opened and has done nothing yet. Raises OSError: its process has ended."""
        owner = terms.owner or f"session {name}"
        process = None
        if isinstance(session, Context):
            page = Page()
            session.share(self.scheduler.place(page))
        elif session.page is None:
            return
        else:
            page, process = session.page, session.pid
        number = self.scheduler.join(
            page, priority=terms.priority, weight=terms.weight, share=terms.share, owner=owner, process=process
        )
        with self._lock:
            self._members[name] = number, terms

    def leave(self, name: str) -> None:
        """It is about to end: what it still does waits for nothing. Idempotent."""
        with self._lock:
            member = self._members.pop(name, None)
        if member is not None:
            self.scheduler.leave(member[0])

    def served(self) -> Mapping[str, Served]:
        """By the sessions' names."""
        with self._lock:
            members = dict(self._members)
        found = {}
        for name, (number, terms) in members.items():
            if (served := self.scheduler.served(number)) is not None:
                found[name] = Served(terms, *served)
        return found

    def close(self) -> None:
        self.scheduler.close()
