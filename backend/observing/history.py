"""The last minutes of a host: one row every few seconds, from which the page draws its lines.

Owns the rows and the thread that takes them, and one snapshot that all who ask within a moment share: so what they
cost does not grow with how many they are.

Locking: one lock around the snapshot, one around the rows. The thread that takes a snapshot holds the first, and others wait
for it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from farlane.backend.host.metrics import DEVICE_TIME, Snapshot

PERIOD_SECONDS = 2.0
ROWS = 300
FRESH_SECONDS = 0.25


class Row(NamedTuple):
    """A moment: sums since the start where `Snapshot` has sums."""

    at: float  # the host's uptime
    sessions: int
    opening: int
    memory: int
    device_seconds: float
    kernels: int
    round_trips: int
    received: int
    sent: int

    @staticmethod
    def of(host: Snapshot) -> Row:
        counts = host.totals.counts
        return Row(
            round(host.uptime, 3),
            len(host.usage),
            host.totals.opening,
            sum(each.memory or 0 for each in host.usage),
            counts.get(DEVICE_TIME, 0) / 1e9,
            counts.get("kernels", 0),
            counts.get("round_trips", 0),
            counts.get("bytes_in", 0),
            counts.get("bytes_out", 0),
        )


class History:
    """See the module's page.

    Args:
        take: a snapshot of the host.
    """

    def __init__(self, take: Callable[[], Snapshot], period: float = PERIOD_SECONDS) -> None:
        self._take = take
        self._period = period
        self._taking = threading.Lock()
        self._last: tuple[float, Snapshot] | None = None
        self._lock = threading.Lock()
        self._rows: deque[Row] = deque(maxlen=ROWS)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="farlane-history", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def snapshot(self) -> Snapshot:
        """The host as it is now, or was FRESH_SECONDS ago."""
        with self._taking:
            if self._last is None or time.monotonic() - self._last[0] > FRESH_SECONDS:
                self._last = time.monotonic(), self._take()
            return self._last[1]

    def rows(self) -> list[Row]:
        """The oldest one first."""
        with self._lock:
            return list(self._rows)

    def _follow(self) -> None:
        while True:
            row = Row.of(self.snapshot())
            with self._lock:
                self._rows.append(row)
            if self._stopped.wait(self._period):
                return
