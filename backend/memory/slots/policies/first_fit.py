"""The run at the lowest address: the rule of the source's comparison."""

from __future__ import annotations

from typing import NamedTuple

from farlane.backend.memory.slots.policies.model import Span
from farlane.backend.memory.slots.search import available, lowest


class FirstFit(NamedTuple):
    """Lowest address first."""

    name: str = "first-fit"

    def place(self, free: int, slots: int, wanted: int, last_end: int) -> Span | None:
        starts = available(free, wanted)
        return Span(lowest(starts), wanted) if starts else None
