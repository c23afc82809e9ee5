"""With known future: the object that is needed last goes (Belady, 1966), of equal ones the largest.

Optimal for objects of one size that are only read; sizes and write-backs make the true optimum hard (`bound.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from farlane.backend.memory.planner.trace import Trace


def needed_last(trace: Trace, resident: Sequence[int], last_use: dict[int, int], step: int) -> int:
    """An `Eviction`."""

    def next_use(number: int) -> int:
        accesses = trace.accesses[number]
        place = bisect_left(accesses, step, key=lambda row: row[0])
        return accesses[place][0] if place < len(accesses) else len(trace.steps)

    return max(resident, key=lambda number: (next_use(number), trace.sizes[number], -number))
