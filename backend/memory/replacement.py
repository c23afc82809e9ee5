"""Replacement policies: which object leaves a full memory. Every policy is here, and all that evict objects take it from here.

A policy is a class with a name, registered by `@policy`; nothing else names it. The simulated device asks it while a
program runs (device/sim/memory/residency.py), `farlane plan` and the studies ask it over a recorded trace
(planner/replay.py). It decides by its arguments alone, so the same calls give the same answers.

Does not own the moving of data, nor what a TLB replaces: that is the modelled hardware's (tlb/spec.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from farlane.backend.memory.planner.trace import Access

DEFAULT = "future"  # moves the fewest bytes in real sessions: docs/results/memory-reuse.md


class Resident(NamedTuple):
    """An object that could go."""

    number: int
    size: int
    last_use: int  # the step
    dirty: bool  # it has to be written back


@dataclass(frozen=True)
class Future:
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
    """Decides who goes. One for a session, or for a trace."""

    name: str
    looks_ahead = False  # whether it has any use for the future

    def expect(self, future: Future) -> None:  # noqa: B027  (not all look ahead)
        """What is known of the steps to come, in place of what was known before."""

    @abstractmethod
    def victim(self, wanted: int, residents: Sequence[Resident], now: int) -> int:
        """The number of one of `residents`, to make room for the object `wanted` in step `now`."""


POLICIES: dict[str, Callable[[], Policy]] = {}
_Make = TypeVar("_Make", bound=Callable[[], Policy])


def policy(name: str) -> Callable[[_Make], _Make]:
    """Registers what makes a policy: a class, or a function."""

    def register(make: _Make) -> _Make:
        POLICIES[name] = make
        if isinstance(make, type):
            make.name = name  # type: ignore[attr-defined]
        return make

    return register


@policy("lru")
class LeastRecentlyUsed(Policy):
    """The least recently used object goes."""

    def victim(self, wanted: int, residents: Sequence[Resident], now: int) -> int:
        return min(residents, key=lambda each: (each.last_use, each.number)).number


@policy("future")
class NeededLast(Policy):
    """The object that is needed last goes (Belady, 1966), as far as the future is known; beyond it, the least recently used.

    Of objects that are not needed in the known future, those that need not be written back go first. Optimal for
    objects of one size that are only read; sizes and write-backs make the true optimum hard.

    Args:
        by_size: of objects that are needed in the same step, or not at all, the largest goes: for a future that is known
            to its end.
    """

    looks_ahead = True

    def __init__(self, by_size: bool = False) -> None:
        self._by_size = by_size
        self._future = Future(0, (), {}, 0)

    def expect(self, future: Future) -> None:
        self._future = future

    def victim(self, wanted: int, residents: Sequence[Resident], now: int) -> int:
        future = self._future

        def order(each: Resident) -> tuple[int, int, int, int]:
            use = future.next_use(each.number, now)
            if self._by_size:
                return use, each.size, 0, -each.number
            return use, use == future.end and not each.dirty, -each.last_use, -each.number

        return max(residents, key=order).number


@policy("genetic")
def _genetic() -> Policy:
    """Objects share segments as a plan of the genetic search says."""
    from farlane.backend.memory.planner.assigned import Assigned, by_genetic_search

    return Assigned("genetic", by_genetic_search)


@policy("dp")
def _dynamic_programming() -> Policy:
    """Objects share segments as the best plan says that there is."""
    from farlane.backend.memory.planner.assigned import Assigned, by_dynamic_programming

    return Assigned("dp", by_dynamic_programming)
