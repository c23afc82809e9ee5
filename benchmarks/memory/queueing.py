"""Experiments with random requests: how a policy uses a core's slots, and how long requests wait.

Time is continuous; an event is a release or an arrival, and releases come first. `Load` has one row per request: when it arrives, how many slots it wants
and how long it holds them. The same load is given to every policy, so differences are the policy's.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

from farlane.backend.memory.slots.policies import Span

Sizes = Callable[[random.Random], int]


class Slots(Protocol):
    """What can hold requests: a `SlotAllocator` with a policy, or the bound."""

    slots: int

    def step(self, releases: Iterable[int], requests: Iterable[tuple[int, int]]) -> list[tuple[int, Span]]: ...

    def used(self) -> int: ...


class Compacting:
    """The bound: whatever is free in total can be had, as if all that is placed were moved together for nothing."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._held: dict[int, int] = {}
        self._waiting: deque[tuple[int, int]] = deque()
        self._used = 0

    def step(self, releases: Iterable[int] = (), requests: Iterable[tuple[int, int]] = ()) -> list[tuple[int, Span]]:
        """As `SlotAllocator.step`; the spans' starts mean nothing."""
        for owner in releases:
            self._used -= self._held.pop(owner)
        self._waiting.extend(requests)
        placed = []
        while self._waiting and self._waiting[0][1] <= self.slots - self._used:
            owner, wanted = self._waiting.popleft()
            self._held[owner] = wanted
            placed.append((owner, Span(self._used, wanted)))
            self._used += wanted
        return placed

    def used(self) -> int:
        return self._used


@dataclass(frozen=True)
class Load:
    """Requests in order of arrival. Times in units of a mean service time."""

    arrivals: Sequence[float]
    sizes: Sequence[int]
    durations: Sequence[float]


@dataclass(frozen=True)
class Outcome:
    """`finish`: when the last request was done. `waits`: each request's time from arrival to placement.

    `utilisation`: requested slots in use over all slots, from the start until the last request was placed.
    """

    finish: float
    waits: Sequence[float]
    utilisation: float

    @property
    def mean_wait(self) -> float:
        return fmean(self.waits)


def uniform(most: int) -> Sizes:
    """Sizes from 1 to `most`, all equally likely."""
    return lambda source: source.randint(1, most)


def full_queue(seed: int, count: int, sizes: Sizes) -> Load:
    """Everything is there from the start. Exponential service times."""
    source = random.Random(seed)
    return Load([0.0] * count, [sizes(source) for _ in range(count)], [source.expovariate(1.0) for _ in range(count)])


def open_load(seed: int, count: int, sizes: Sizes, slots: int, load: float) -> Load:
    """Poisson arrivals that would use the share `load` of all slots if nothing were lost."""
    source = random.Random(seed)
    wanted = [sizes(source) for _ in range(count)]
    rate = load * slots / fmean(wanted)
    now, arrivals = 0.0, []
    for _ in range(count):
        now += source.expovariate(rate)
        arrivals.append(now)
    return Load(arrivals, wanted, [source.expovariate(1.0) for _ in range(count)])


def simulate(core: Slots, load: Load) -> Outcome:
    """Serves the load on an empty core."""
    ends: list[tuple[float, int]] = []
    waits = [0.0] * len(load.sizes)
    next_arrival, now, placed_at, finish = 0, 0.0, 0.0, 0.0
    busy = held = 0.0  # slot-time used up to the last placement; slots requested by those who are placed
    count = len(load.sizes)
    since = 0.0
    area = 0.0
    while next_arrival < count or ends:
        candidates = [load.arrivals[next_arrival]] if next_arrival < count else []
        if ends:
            candidates.append(ends[0][0])
        now = min(candidates)
        area += held * (now - since)
        since = now
        released = []
        while ends and ends[0][0] <= now:
            released.append(heapq.heappop(ends)[1])
        arrived = []
        while next_arrival < count and load.arrivals[next_arrival] <= now:
            arrived.append((next_arrival, load.sizes[next_arrival]))
            next_arrival += 1
        held -= sum(load.sizes[owner] for owner in released)
        for owner, _ in core.step(released, arrived):
            waits[owner] = now - load.arrivals[owner]
            held += load.sizes[owner]
            heapq.heappush(ends, (now + load.durations[owner], owner))
            placed_at, busy = now, area
            finish = max(finish, now + load.durations[owner])
    return Outcome(finish, waits, busy / (core.slots * placed_at) if placed_at else 0.0)
