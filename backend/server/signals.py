"""Waiting for a signal without missing one.

Python runs a handler when its main thread next runs Python. A signal that comes between that thread's last look and the system call
it then sleeps in, or that the kernel gives to another thread, ends no sleep on a lock: a host that waits for an event would never hear
of it, which happens to one that gets a signal as soon as it has said that it listens. So the main thread sleeps on a pipe
that the interpreter's own handler writes to, which runs at once and in whatever thread.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable


class Signals:
    """Hears of `numbers` from now on, in place of what was done for them. For the main thread, once in a process.

    The first one ends `wait`, also a later one's; the second one ends the process at once, with 128 and its number.
    """

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._came = False
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, self._on_signal)

    def wait(self) -> None:
        """Returns once one of them has come."""
        while not self._came:
            os.read(self._reader, 1)

    def _on_signal(self, number: int, frame: object) -> None:
        if self._came:
            os._exit(128 + number)
        self._came = True
