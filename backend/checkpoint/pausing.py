"""A session's own thread waits between two groups, while another thread looks at the session.

Owns the meeting of both. The session's thread comes here when its replay pauses (`plane.Paused`), and goes on, or learns
that the session has left this host. One other thread at a time; a second one waits for its turn.

Locking: one condition. The session's thread holds nothing while it waits.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from farlane.backend.device.saved import Unsaveable
from farlane.backend.plane import Call, answered, ask


class Left(Exception):
    """The session goes on at another host, or in a folder. Its guest comes again."""


class Pausing:
    """Of one session."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._changed = threading.Condition()
        self._turn = threading.Lock()
        self._asked = False
        self._waits = False
        self._left = False
        self._over = False
        self.seconds = 0.0  # of the last pause

    def pause(self) -> None:
        """The session's thread: waits until it may go on. Raises Left."""
        with self._changed:
            self._waits = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._asked)
            self._waits = False
            if self._left:
                raise Left

    def end(self) -> None:
        """The session's thread: it comes here no more."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    @contextlib.contextmanager
    def held(self, patience: float) -> Iterator[None]:
        """While the session pauses. From another thread.

        Raises:
            Unsaveable: it has not come to the end of a group in time, or has ended.
        """
        with self._turn:
            with self._changed:
                self._asked = True
                ask(self._call)
                came = self._changed.wait_for(lambda: self._waits or self._over, patience)
                if self._over or not came:
                    self._go_on()
                    raise Unsaveable(
                        "it has ended"
                        if self._over
                        else f"its work has not come to the end of a group in {patience:g} s"
                    )
            began = time.monotonic()
            try:
                yield
            finally:
                with self._changed:
                    self.seconds = time.monotonic() - began
                    self._go_on()

    def leave(self) -> None:
        """While it pauses: it does not go on here."""
        self._left = True

    def _go_on(self) -> None:
        answered(self._call)
        self._asked = False
        self._changed.notify_all()
