"""The run nearest to either end (S5, point 3): both ends have equal priority, free space gathers in the middle."""

from __future__ import annotations

from typing import NamedTuple

from farlane.backend.memory.slots.policies.model import Span
from farlane.backend.memory.slots.search import available, highest, lowest


class TwoEnded(NamedTuple):
    """With i the lowest and j the highest start: i when i + j <= slots - wanted, else j."""

    name: str = "two-ended"

    def place(self, free: int, slots: int, wanted: int, last_end: int) -> Span | None:
        starts = available(free, wanted)
        if not starts:
            return None
        low, high = lowest(starts), highest(starts)
        return Span(low if low + high <= slots - wanted else high, wanted)
