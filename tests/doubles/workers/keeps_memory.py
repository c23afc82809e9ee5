"""A worker that says that it gives up device memory, and keeps it."""

from __future__ import annotations

from typing import Any


def _keep(window: Any, low: int, high: int) -> None:
    window.flags[low:high] = 4  # HELD


def begin() -> None:
    from farlane.backend.device.sim.memory.window import Window

    Window.hide = _keep  # type: ignore[method-assign]
