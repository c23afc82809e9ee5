"""What a host knows of its sessions besides the sessions: who they are, what they count, what has become of earlier
ones.

Owns the sums over all sessions since the start. What is counted in a session, and what metrics there are, is
metrics.py's.

Locking: one lock. Sessions are asked what they count without it: a worker takes its time to answer.
"""

from __future__ import annotations

import enum
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from farlane.backend.host.fairness import Served

MOST_CHARACTERS = 256  # of a program's name: it is the guest's word


class How(enum.StrEnum):
    """How sessions end."""

    GOODBYE = "goodbye"
    LEFT = "left"  # the guest closed the stream without a Goodbye
    GONE = "gone"  # the guest died, or its connection broke
    PROTOCOL = "protocol"  # the guest broke the protocol
    LOST = "lost"  # the session's own process ended
    FAILED = "failed"  # an error of the host
    STOPPED = "stopped"  # the host stopped
    MOVED = "moved"  # it was saved, and goes on elsewhere
    REVOKED = "revoked"  # its token was revoked, or has expired


@dataclass(frozen=True)
class Usage:
    """What an open session is and uses (admin.proto, OpenSession)."""

    name: str
    program: str
    pid: int
    memory: int | None
    quota: int
    seconds: float  # for which it has been open
    counts: Mapping[str, int]
    served: Served | None = None  # where the device's time is shared

    @classmethod
    def of(
        cls,
        name: str,
        guest: Guest,
        memory: int | None,
        quota: int,
        counts: Mapping[str, int],
        served: Served | None = None,
    ) -> Usage:
        """Now."""
        return cls(name, guest.program, guest.pid, memory, quota, time.monotonic() - guest.since, counts, served)


@dataclass(frozen=True)
class Totals:
    """Of all sessions since the start, open ones included."""

    opened: int
    opening: int  # guests that wait for their session now
    refused: Mapping[str, int]  # by reason
    ended: Mapping[str, int]  # by how
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Guest:
    """Who has a session."""

    program: str
    pid: int
    since: float = field(default_factory=time.monotonic)


class Accounts:
    """See the module's page."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened = 0
        self._guests: dict[str, Guest] = {}
        self._refused: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()

    def opened(self, name: str, program: str, pid: int) -> None:
        with self._lock:
            self._opened += 1
            self._guests[name] = Guest(program[:MOST_CHARACTERS], pid)

    def refused(self, reason: str) -> None:
        with self._lock:
            self._refused[reason] += 1

    def ended(self, name: str, how: How, counts: Mapping[str, int]) -> None:
        """What the session has counted stays in the sums. Once for each session."""
        with self._lock:
            if self._guests.pop(name, None) is not None:
                self._ended[how] += 1
                self._counts.update(counts)

    def guest(self, name: str) -> Guest | None:
        """Who has an open session."""
        with self._lock:
            return self._guests.get(name)

    def totals(self, opening: int, usage: list[Usage]) -> Totals:
        with self._lock:
            counts = Counter(self._counts)
            opened, refused, ended = self._opened, dict(self._refused), dict(self._ended)
        for each in usage:
            counts.update(each.counts)
        return Totals(opened, opening, refused, ended, dict(counts))
