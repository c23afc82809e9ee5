"""The shortest run that is long enough; of equal ones the lowest."""

from __future__ import annotations

from dataclasses import dataclass

from farlane.backend.memory.slots.policies.model import Span
from farlane.backend.memory.slots.search import runs


@dataclass(frozen=True)
class BestFit:
    """Leaves the smallest rest."""

    name: str = "best-fit"

    def place(self, free: int, slots: int, wanted: int, last_end: int) -> Span | None:
        fitting = [(length, start) for start, length in runs(free) if length >= wanted]
        return Span(min(fitting)[1], wanted) if fitting else None
