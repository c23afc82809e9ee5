"""The shortest run that is long enough; of equal ones the lowest."""

from __future__ import annotations

from typing import NamedTuple

from farlane.backend.memory.slots.policies.model import Span
from farlane.backend.memory.slots.search import runs


class BestFit(NamedTuple):
    """Leaves the smallest rest."""

    name: str = "best-fit"

    def place(self, free: int, slots: int, wanted: int, last_end: int) -> Span | None:
        fitting = [(length, start) for start, length in runs(free) if length >= wanted]
        return Span(min(fitting)[1], wanted) if fitting else None
