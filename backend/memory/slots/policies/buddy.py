"""Binary buddies: a power of two of slots at a multiple of itself (Knowlton, 1965).

The slots beyond the request are lost to it, which is what this rule pays for its speed. Of the free blocks the one inside the smallest free buddy is
taken, the lowest of equal ones, as a buddy system that splits the smallest sufficient block does.
"""

from __future__ import annotations

from typing import NamedTuple

from farlane.backend.memory.slots.policies.model import Span


class Buddy(NamedTuple):
    """Sizes are rounded up to a power of two; `slots` is one itself, or its tail is never used by large blocks."""

    name: str = "buddy"

    def place(self, free: int, slots: int, wanted: int, last_end: int) -> Span | None:
        size = 1 << (wanted - 1).bit_length()
        found: tuple[int, int] | None = None
        for start in range(0, slots - size + 1, size):
            if _is_free(free, start, size):
                block = size
                while (
                    2 * block <= slots
                    and _fits(start, 2 * block, slots)
                    and _is_free(free, start & -(2 * block), 2 * block)
                ):
                    block *= 2
                if found is None or (block, start) < found:
                    found = block, start
        return Span(found[1], size) if found else None


def _fits(start: int, block: int, slots: int) -> bool:
    return (start & -block) + block <= slots


def _is_free(free: int, start: int, size: int) -> bool:
    mask = (1 << size) - 1
    return free >> start & mask == mask
