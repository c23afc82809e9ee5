"""What a policy is told, and asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from farlane.backend.memory.planner.trace import Access


class Resident(NamedTuple):
    """An object that could go."""

    number: int
    size: int
    last_use: int  # the step
    dirty: bool  # it has to be written back


@dataclass(frozen=True)
class Foreseen:
    """Steps to come: the first is number `begin`. `sizes`: bytes of the objects in them. `memory`: what there is for them."""

    begin: int
    steps: Sequence[Sequence[Access]]
    sizes: Mapping[int, int]
    memory: int
    uses: Mapping[int, Sequence[int]] = field(init=False)  # object -> numbers of the steps that need it

    def __post_init__(self) -> None:
        uses: dict[int, list[int]] = {}
        for number, step in enumerate(self.steps, self.begin):
            for access in step:
                uses.setdefault(access.object, []).append(number)
        object.__setattr__(self, "uses", uses)

    @property
    def end(self) -> int:
        return self.begin + len(self.steps)

    def next_use(self, number: int, now: int) -> int:
        """The step from `now` on that needs the object next; `end` where none that is known does."""
        uses = self.uses.get(number, ())
        place = bisect_left(uses, now)
        return uses[place] if place < len(uses) else self.end


class Policy(ABC):
    """Decides who goes. One for a session."""

    name: str
    foresees = False  # whether it has any use for the future

    def foresee(self, future: Foreseen) -> None:  # noqa: B027  (not all look ahead)
        """What is known of the steps to come, in place of what was known before."""

    @abstractmethod
    def victim(self, wanted: int, residents: Sequence[Resident], now: int) -> int:
        """The number of one of `residents`, to make room for the object `wanted` in step `now`."""
