"""The object that is needed last goes (Belady, 1966), as far as the future is known; beyond it, the least recently used.

Of objects that are not needed in the known future, those that need not be written back go first.
"""

from __future__ import annotations

from collections.abc import Sequence

from farlane.backend.memory.planner.policies.model import Foreseen, Policy, Resident


class NeededLast(Policy):
    name = "future"
    foresees = True

    def __init__(self) -> None:
        self._future = Foreseen(0, (), {}, 0)

    def foresee(self, future: Foreseen) -> None:
        self._future = future

    def victim(self, wanted: int, residents: Sequence[Resident], now: int) -> int:
        future = self._future

        def order(each: Resident) -> tuple[int, bool, int, int]:
            use = future.next_use(each.number, now)
            return use, use == future.end and not each.dirty, -each.last_use, -each.number

        return max(residents, key=order).number
