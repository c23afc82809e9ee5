"""Who goes when a session's memory is full: policies that decide while the program runs, on what is known of its future.

    model.py    what a policy is told, and asked
    lru.py      the least recently used
    future.py   the one needed last, where that is known
    assigned.py objects share segments as a plan says: the genetic search's, or the best there is by dynamic programming

A policy names objects by numbers; moving them, and when, is the device's (device/sim/memory/residency.py). The same calls give the same answers: the searches count rounds, not
time.
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.backend.memory.planner.policies.assigned import Assigned, by_dynamic_programming, by_genetic_search
from farlane.backend.memory.planner.policies.future import NeededLast
from farlane.backend.memory.planner.policies.lru import LeastRecentlyUsed
from farlane.backend.memory.planner.policies.model import Foreseen, Policy, Resident

POLICIES: dict[str, Callable[[], Policy]] = {
    "lru": LeastRecentlyUsed,
    "future": NeededLast,
    "genetic": lambda: Assigned("genetic", by_genetic_search),
    "dp": lambda: Assigned("dp", by_dynamic_programming),
}
DEFAULT = "future"  # moves the fewest bytes in real sessions: docs/results.md

__all__ = ["DEFAULT", "POLICIES", "Foreseen", "Policy", "Resident"]
