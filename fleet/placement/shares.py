"""Fair shares: who of the waiting is next when there is room.

The highest priority first; then the owner whose dominant share is the smallest for its weight (dominant resource
fairness, Ghodsi et al., NSDI 2011); then the one that has waited longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from farlane.fleet.placement.hosts import Request


@dataclass(frozen=True)
class Waiting:
    number: int  # in the order of arrival
    request: Request


@dataclass(frozen=True)
class Used:
    """What an owner's sessions have reserved, as shares of the whole fleet."""

    memory: float = 0.0
    load: float = 0.0
    sessions: float = 0.0
    weight: float = 1.0

    @property
    def dominant(self) -> float:
        return max(self.memory, self.load, self.sessions) / self.weight


def order(waiting: Iterable[Waiting], used: Mapping[str, Used]) -> list[Waiting]:
    """The next one first. Owners of whom nothing is used may be missing from `used`."""
    nothing = Used()

    def key(each: Waiting) -> tuple[int, float, int]:
        return -each.request.priority, used.get(each.request.owner, nothing).dominant, each.number

    return sorted(waiting, key=key)
