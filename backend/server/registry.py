"""The sessions that a guest may come again to: open ones, restored ones that wait for it, and those that have left.

Owns who is let into which: by the session's secret, its name as the guest knows it, and the guest's token. A restored
session has another name at this host than its guest knows. A session whose guest has not come within the grace is ended.

Locking: one lock around the lists. Nothing is called while it is held.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from farlane.backend.checkpoint.pausing import Pausing
from farlane.backend.host.host import Admission, HostedSession
from farlane.backend.plane import Call
from farlane.v1 import checkpoint_pb2 as pb


def _key(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


@dataclass(frozen=True)
class Resumable:
    """A session whose guest may come again when its connection has broken."""

    call: Call
    session: HostedSession
    shown: str  # its name, as the guest knows it
    secret: bytes
    owner: str
    admission: Admission
    process: pb.SavedSession.Process | None  # by what its guest knows it, where it has one of its own
    pausing: Pausing  # where it has none

    @classmethod
    def of(
        cls,
        call: Call,
        session: HostedSession,
        shown: str,
        secret: bytes,
        owner: str,
        admission: Admission,
        process: pb.SavedSession.Process | None,
    ) -> Resumable:
        return cls(call, session, shown, secret, owner, admission, process, Pausing(call))


@dataclass(frozen=True)
class Restored:
    """A session that waits for its guest."""

    admission: Admission
    saved: pb.SavedSession  # without its content
    unconfirmed: list[bytes]  # of a session in a thread
    give_up: Callable[[], None]  # its guest has not come
    stay: contextlib.ExitStack  # ends with the session
    let_in: bool  # by a ticket, which is the guest's as well


@dataclass(frozen=True)
class Away:
    """A session that has left this host."""

    shown: str
    owner: str
    to: str  # where its guest finds it; empty: that is not known
    token: str  # what it shows there; empty: what it shows to any host
    certificate: bytes  # what it is shown, with a token
    until: float


class Registry:
    """See the module."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[bytes, Resumable] = {}
        self._restored: dict[bytes, Restored] = {}
        self._away: dict[bytes, Away] = {}
        self._led: set[bytes] = set()  # of those, whose guests have come, and learned where they are

    def add(self, entry: Resumable) -> None:
        with self._lock:
            self._open[_key(entry.secret)] = entry

    def of(self, name: str) -> Resumable | None:
        """The session of this name at this host."""
        with self._lock:
            return next((entry for entry in self._open.values() if entry.session.name == name), None)

    def waits(self, name: str) -> bool:
        """Whether the session of this name at this host was restored, and its guest has not come yet."""
        with self._lock:
            return any(each.admission.session.name == name for each in self._restored.values())

    def end(self, name: str) -> None:
        """The session is over here."""
        with self._lock:
            found = [key for key, entry in self._open.items() if entry.session.name == name]
            ended = [self._open.pop(key) for key in found]
        for entry in ended:
            entry.pausing.end()

    def find(self, shown: str, secret: bytes, owner: str) -> Resumable | Restored | Away | None:
        """What a guest comes again to that shows this. None: there is no such session."""
        key = _key(secret)
        with self._lock:
            self._forget_old()
            away, restored, entry = self._away.get(key), self._restored.get(key), self._open.get(key)
        if away is not None and (away.shown, away.owner) == (shown, owner):
            with self._lock:
                self._led.add(key)
            return away
        if restored is not None and (restored.saved.session, restored.saved.owner) == (shown, owner):
            return restored
        if (
            entry is None
            or not hmac.compare_digest(entry.secret, secret)
            or (entry.shown, entry.owner) != (shown, owner)
        ):
            return None
        return entry

    def leave(self, entry: Resumable, away: Away) -> None:
        """It leaves: what its guest learns when it comes in time."""
        with self._lock:
            self._forget_old()
            self._away[_key(entry.secret)] = away
            self._led.discard(_key(entry.secret))

    @property
    def awaited(self) -> int:
        """Sessions that have left, and whose guests have not learned that yet."""
        with self._lock:
            self._forget_old()
            return len(self._away.keys() - self._led)

    def expect(self, restored: Restored, grace: float) -> bool:
        """It waits for its guest for so many seconds. False: there is such a session."""
        key = _key(restored.saved.secret)
        with self._lock:
            if key in self._open or key in self._restored:
                return False
            self._away.pop(key, None)
            self._restored[key] = restored

        def late() -> None:
            if self.take(restored):
                restored.give_up()

        timer = threading.Timer(grace, late)
        timer.daemon = True
        timer.start()
        return True

    def take(self, restored: Restored) -> bool:
        """It waits no longer. False: it did not."""
        with self._lock:
            key = _key(restored.saved.secret)
            if self._restored.get(key) is not restored:
                return False
            del self._restored[key]
            return True

    def has(self, secret: bytes) -> bool:
        """Whether a session with this secret is here."""
        with self._lock:
            return _key(secret) in self._open or _key(secret) in self._restored

    def _forget_old(self) -> None:
        now = time.monotonic()
        self._away = {key: away for key, away in self._away.items() if away.until > now}
        self._led &= self._away.keys()
