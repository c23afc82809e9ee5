"""The first run behind the latest allocation, then from the beginning (Knuth, The Art of Computer Programming, 2.5)."""

from __future__ import annotations

from typing import NamedTuple

from farlane.backend.memory.slots.policies.model import Span
from farlane.backend.memory.slots.search import available, lowest


class NextFit(NamedTuple):
    """Goes round."""

    name: str = "next-fit"

    def place(self, free: int, slots: int, wanted: int, last_end: int) -> Span | None:
        starts = available(free, wanted)
        if not starts:
            return None
        behind = starts >> last_end << last_end
        return Span(lowest(behind or starts), wanted)
