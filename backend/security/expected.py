"""The sessions that a gateway sends to this host: each is let in once, by a token of its own.

Owns which tokens are expected, and what becomes of each: it is used in time, or it is forgotten. A gateway has asked the
session's guest who it is, so that a host of a fleet knows no guests of its own (docs/explanation/fleet/README.md).

Locking: one lock around the list. `gone` is called without it.
"""

from __future__ import annotations

import contextlib
import hmac
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from farlane.backend.host.greeting import Reason, Refused
from farlane.backend.security.tokens import Entry

_UNKNOWN = "this host of a fleet takes a session only by the token that the fleet's gateway gives for it: set FARLANE_HOST to the gateway"
_LATE = "the token that the fleet's gateway gave for this session was not used in time: start the program again"
_USED = "the token that the fleet's gateway gave for this session was used already, and is good once"


@dataclass
class _Expectation:
    entry: Entry
    guest: str
    until: float
    used: bool = False


class Expected:
    """See the module.

    Args:
        gone: gets the name of each session that is over, also of one that never came. From any thread.
    """

    def __init__(self, gone: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._gone = gone
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: dict[str, _Expectation] = {}  # by the name of the entry

    def expect(self, entry: Entry, seconds: float, guest: str = "") -> None:
        """Lets one session in by the token with this entry's digest, within so many seconds.

        Args:
            entry: its name is the session's, which no other one has.
            guest: a name for who comes, by which compiled code is kept.

        Raises:
            ValueError: there is a session of this name.
        """
        with self._lock:
            if entry.name in self._sessions:
                raise ValueError(f"the session {entry.name} is expected already")
            self._sessions[entry.name] = _Expectation(entry, guest, self._clock() + seconds)

    def names(self) -> list[str]:
        """Sessions that are open, or may still come."""
        with self._lock:
            return list(self._sessions)

    def of_guest(self, guest: str) -> list[str]:
        """The names of its sessions."""
        with self._lock:
            return [name for name, each in self._sessions.items() if each.guest == guest]

    def guests(self) -> set[str]:
        with self._lock:
            return {each.guest for each in self._sessions.values() if each.guest}

    def forget(self, name: str) -> None:
        """It comes no more, unless it is open."""
        with self._lock:
            found = self._sessions.get(name)
            if found is None or found.used:
                return
            del self._sessions[name]
        self._gone(name)

    def find(self, digest: str) -> tuple[Entry, str]:
        """Whose token it is, and the name of the guest. A used one finds its session, which may be resumed. Raises Refused."""
        with self._lock:
            found = [each for each in self._sessions.values() if hmac.compare_digest(each.entry.digest, digest)]
        if not found:
            raise Refused(Reason.UNAUTHORIZED, _UNKNOWN)
        return found[0].entry, found[0].guest

    @contextlib.contextmanager
    def session(self, name: str) -> Iterator[None]:
        """While a session is opened and lasts. Raises Refused: it is not the first one of its token, or comes too late."""
        with self._lock:
            found = self._sessions.get(name)
            if found is None or (not found.used and found.until <= self._clock()):
                raise Refused(Reason.UNAUTHORIZED, _LATE)
            if found.used:
                raise Refused(Reason.UNAUTHORIZED, _USED)
            found.used = True
        try:
            yield
        finally:
            with self._lock:
                del self._sessions[name]
            self._gone(name)

    def sweep(self) -> None:
        """Forgets those that have not come in time."""
        now = self._clock()
        with self._lock:
            late = [name for name, each in self._sessions.items() if not each.used and each.until <= now]
        for name in late:
            self.forget(name)
