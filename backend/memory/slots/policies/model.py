"""What a placement policy is asked and what it answers."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Span(NamedTuple):
    """Consecutive slots."""

    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def mask(self) -> int:
        return ((1 << self.length) - 1) << self.start


class Policy(Protocol):
    """Pure: the same question has the same answer."""

    @property
    def name(self) -> str: ...

    def place(self, free: int, slots: int, wanted: int, last_end: int) -> Span | None:
        """Where `wanted` slots go, all of them free; None when nowhere. `last_end`: the end of the latest allocation."""
