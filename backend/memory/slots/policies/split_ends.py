"""Small requests from the left, large ones from the right: the strongest rival of the two-ended rule among those that never move."""

from __future__ import annotations

from typing import NamedTuple

from farlane.backend.memory.slots.policies.model import Span
from farlane.backend.memory.slots.search import available, highest, lowest

DIVISOR = 4


class SplitEnds(NamedTuple):
    """Large is more than 1/`divisor` of all slots."""

    divisor: int = DIVISOR
    name: str = "split-ends"

    def place(self, free: int, slots: int, wanted: int, last_end: int) -> Span | None:
        starts = available(free, wanted)
        if not starts:
            return None
        return Span(highest(starts) if wanted * self.divisor > slots else lowest(starts), wanted)
