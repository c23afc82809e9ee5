"""The way between a guest and a host, on which things go wrong: connections are cut, stand still, or pass little.

Owns what stands still and what is slow. Connections are passed on, and cut, by the proxy of the tests (devtools/cutting.py).
"""

from __future__ import annotations

import threading
import time

from farlane.frontend.devtools.cutting import CuttingProxy


class Way(CuttingProxy):
    """Forwards connections to `port`. None is cut but by `cut`."""

    def __init__(self, port: int) -> None:
        self._free = {up: threading.Event() for up in (True, False)}
        self.release()
        self._rate: float | None = None  # bytes a second
        self._delay = 0.0
        super().__init__(port, seed=0, cuts=0)

    def passing(self, size: int, up: bool) -> None:
        self._free[up].wait()
        time.sleep(self._delay + (size / self._rate if self._rate is not None else 0.0))

    def hold(self, *, up: bool = False, down: bool = False) -> None:
        """Nothing passes in these directions until `release`, and neither side hears of it."""
        for direction, held in ((True, up), (False, down)):
            if held:
                self._free[direction].clear()

    def release(self) -> None:
        for each in self._free.values():
            each.set()

    def throttle(self, rate: float | None, delay: float = 0.0) -> None:
        """So many bytes a second, and each piece so many seconds later."""
        self._rate, self._delay = rate, delay

    def close(self) -> None:
        self.release()
        self.throttle(None)
        super().close()
