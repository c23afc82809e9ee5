"""The least recently used object goes."""

from __future__ import annotations

from collections.abc import Sequence

from farlane.backend.memory.planner.trace import Trace


def least_recently_used(trace: Trace, resident: Sequence[int], last_use: dict[int, int], step: int) -> int:
    """An `Eviction`."""
    return min(resident, key=lambda number: (last_use.get(number, -1), number))
