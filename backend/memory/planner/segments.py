"""The N largest objects and the segments they define (S4, points 2 and 3).

Objects are sorted by size, large ones first, and those of one size by their first access. The memory is divided into segments of exactly the sizes of the
objects that define it: the first N whose sizes fit ("first"), or the first N of different sizes ("different"), so that smaller objects find segments
of their own kind too. Every object fits a segment that an object at least as large defines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from farlane.backend.memory.planner.trace import Trace

Choice = Literal["first", "different"]


@dataclass(frozen=True)
class Segments:
    """`defining`: the object of each segment. `order`: all accessed objects, large to small. `offsets`: where each segment begins, bytes."""

    sizes: tuple[int, ...]
    offsets: tuple[int, ...]
    defining: tuple[int, ...]
    order: tuple[int, ...]

    def fitting(self, size: int) -> int:
        """How many segments hold `size` bytes: the first so many, because they are sorted."""
        return sum(segment >= size for segment in self.sizes)


def choose(trace: Trace, choice: Choice = "first", most: int | None = None) -> Segments:
    """Divides the device memory. `most`: at most so many segments."""
    accessed = [number for number, accesses in enumerate(trace.accesses) if accesses]
    order = sorted(accessed, key=lambda number: (-trace.sizes[number], trace.accesses[number][0][0], number))
    defining: list[int] = []
    left = trace.memory
    for number in order:
        size = trace.sizes[number]
        if most is not None and len(defining) == most:
            break
        if choice == "different" and defining and trace.sizes[defining[-1]] == size:
            continue
        if size > left:
            break  # the N largest: a smaller one must not take the place of a larger one
        defining.append(number)
        left -= size
    sizes = tuple(trace.sizes[number] for number in defining)
    offsets = tuple(sum(sizes[:place]) for place in range(len(sizes)))
    return Segments(sizes, offsets, tuple(defining), tuple(order))
