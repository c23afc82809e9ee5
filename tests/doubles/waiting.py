"""Waiting for what happens in another thread or process: never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Returns once it holds. The machine may be busy: the time is what nobody waits for unless something is broken."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
