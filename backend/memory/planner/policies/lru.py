"""The least recently used object goes."""

from __future__ import annotations

from collections.abc import Sequence

from farlane.backend.memory.planner.policies.model import Policy, Resident


class LeastRecentlyUsed(Policy):
    name = "lru"

    def victim(self, wanted: int, residents: Sequence[Resident], now: int) -> int:
        return min(residents, key=lambda each: (each.last_use, each.number)).number
