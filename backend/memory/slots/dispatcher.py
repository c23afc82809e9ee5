"""The block dispatcher: blocks of several kernels and streams on the device's cores, over time.

The kernels of a stream run one after another; the streams' kernels at their heads compete, and take turns block by block. A block goes to the core
with the fewest slots taken and asked for (then the fewest blocks, then the lowest number) among those whose FIFO has room; a stream whose block finds
none waits for its turn. Blocks of a kernel start in increasing order within a stream's turn. Durations are in cycles and come from the caller: this decides
places and times only.

Same kernels, same schedule: nothing here depends on a clock, a hash or a thread. slots/fast.py has the same compiled, for the two-ended rule.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from farlane.backend.memory.slots.allocator import SlotError
from farlane.backend.memory.slots.core import Core, CoreSpec, Demand, Use, use
from farlane.backend.memory.slots.policies import Policy, Span

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DispatcherSpec:
    """`fifo`: how many blocks may wait at a core."""

    cores: int = 64
    core: CoreSpec = field(default_factory=CoreSpec)
    fifo: int = 2

    def __post_init__(self) -> None:
        for name, value in (("cores", self.cores), ("fifo", self.fifo)):
            if value < 1:
                raise SlotError(f"{name} = {value}: at least 1 is needed")


class Kernel(NamedTuple):
    """A launch. `durations` has one entry per block, in cycles (at least 1)."""

    name: str
    stream: int
    demand: Demand
    durations: Sequence[int]


class Placement(NamedTuple):
    """Where and when a block ran. `asked`: when it reached its core's FIFO. `span`: its slots, None where it needs no shared memory."""

    kernel: int
    block: int
    core: int
    span: Span | None
    asked: int
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Schedule:
    """All blocks in the order in which they started: rows of (kernel, block, core, first slot or -1, asked, start, end). `slots`: of a block of each kernel.

    `slots_used`: rows of (cycle, slots in use on all cores).
    """

    rows: Ints
    slots: tuple[int, ...]
    slots_used: Ints
    cycles: int

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Schedule)
            and (self.slots, self.cycles) == (other.slots, other.cycles)
            and np.array_equal(self.rows, other.rows)
            and np.array_equal(self.slots_used, other.slots_used)
        )

    @cached_property
    def placements(self) -> list[Placement]:
        found = []
        for kernel, block, core, first, asked, start, end in self.rows.tolist():
            span = Span(first, self.slots[kernel]) if first >= 0 else None
            found.append(Placement(kernel, block, core, span, asked, start, end))
        return found

    def utilisation(self, slots: int) -> float:
        """The mean share of `slots` (those of all cores) that was in use."""
        if not self.cycles:
            return 0.0
        area = int((self.slots_used[:, 1] * np.diff(self.slots_used[:, 0], append=self.cycles)).sum())
        return area / (slots * self.cycles)


class _Asked(NamedTuple):
    kernel: int
    block: int
    core: int
    cycle: int


class Dispatcher:
    """Runs kernels on empty cores. Raises SlotError for a block that no core can hold, before anything runs."""

    def __init__(self, spec: DispatcherSpec, policy: Policy) -> None:
        self.spec = spec
        self.policy = policy

    def run(self, kernels: Sequence[Kernel]) -> Schedule:
        uses = [use(kernel.demand, self.spec.core) for kernel in kernels]
        return _Run(self.spec, self.policy, kernels, uses).run()


class _Run:
    def __init__(self, spec: DispatcherSpec, policy: Policy, kernels: Sequence[Kernel], uses: Sequence[Use]) -> None:
        self.spec = spec
        self.kernels = kernels
        self.uses = uses
        self.cores = [Core(spec.core, policy) for _ in range(spec.cores)]
        self.queued = [0] * spec.cores  # slots asked for at each core by those who wait
        self.used, self.used_slots = [0] * spec.cores, 0
        # (slots, blocks, number) of every core as it is now, and in a heap beside some of what it was.
        self.loads = [(0, 0, number) for number in range(spec.cores)]
        self.by_load = list(self.loads)
        self.streams: dict[int, deque[int]] = {}
        for number, kernel in enumerate(kernels):
            if kernel.durations:
                self.streams.setdefault(kernel.stream, deque()).append(number)
        self.turns = deque(self.streams)
        self.next_block = [0] * len(kernels)
        self.unfinished = [len(kernel.durations) for kernel in kernels]
        self.asked: dict[int, _Asked] = {}
        self.ends: list[tuple[int, int]] = []
        self.minted = 0
        self.placements: list[Placement] = []
        self.slots_used: list[tuple[int, int]] = []

    def run(self) -> Schedule:
        cycle = 0
        self._offer(cycle)
        self._sample(cycle)
        while self.ends:
            cycle = self.ends[0][0]
            ended: dict[int, list[int]] = {}
            while self.ends and self.ends[0][0] == cycle:
                _, block = heapq.heappop(self.ends)
                ended.setdefault(self.asked[block].core, []).append(block)
            for core, blocks in sorted(ended.items()):
                for block in blocks:
                    self._finish(self.asked.pop(block).kernel)
                self._enter(core, self.cores[core].step(blocks), cycle)
            self._offer(cycle)
            self._sample(cycle)
        rows = [
            (one.kernel, one.block, one.core, one.span.start if one.span else -1, one.asked, one.start, one.end)
            for one in self.placements
        ]
        slots = tuple(one.slots for one in self.uses)
        samples = np.array(self.slots_used, np.int64).reshape(-1, 2)
        return Schedule(np.array(rows, np.int64).reshape(-1, 7), slots, samples, cycle)

    def _finish(self, kernel: int) -> None:
        self.unfinished[kernel] -= 1
        if not self.unfinished[kernel]:
            self.streams[self.kernels[kernel].stream].popleft()

    def _offer(self, cycle: int) -> None:
        """Streams take turns until none of them can hand over a block."""
        refused = 0
        while refused < len(self.turns):
            stream = self.turns[0]
            self.turns.rotate(-1)
            refused = 0 if self._offer_one(stream, cycle) else refused + 1

    def _offer_one(self, stream: int, cycle: int) -> bool:
        if not self.streams[stream]:
            return False
        number = self.streams[stream][0]
        block = self.next_block[number]
        if block >= len(self.kernels[number].durations):
            return False  # the last blocks run
        core = self._least_loaded()
        if core is None:
            return False
        self.next_block[number] += 1
        minted = self.minted
        self.minted += 1
        self.asked[minted] = _Asked(number, block, core, cycle)
        self.queued[core] += self.uses[number].slots
        self._enter(core, self.cores[core].step((), [(minted, self.uses[number])]), cycle)
        return True

    def _least_loaded(self) -> int | None:
        """Of the cores whose FIFO has room."""
        heap = self.by_load
        while heap:
            load = heap[0]
            number = load[2]
            if load == self.loads[number] and len(self.cores[number].state.waiting) < self.spec.fifo:
                return number
            heapq.heappop(heap)  # it comes back when it changes
        return None

    def _changed(self, number: int) -> None:
        core = self.cores[number]
        used = core.used_slots()
        self.used_slots += used - self.used[number]
        self.used[number] = used
        load = (used + self.queued[number], len(core.state.resident) + len(core.state.waiting), number)
        self.loads[number] = load
        heapq.heappush(self.by_load, load)

    def _enter(self, core: int, entered: list[tuple[int, Span | None]], cycle: int) -> None:
        for block, span in entered:
            asked = self.asked[block]
            self.queued[core] -= self.uses[asked.kernel].slots
            end = cycle + max(1, self.kernels[asked.kernel].durations[asked.block])
            self.placements.append(Placement(asked.kernel, asked.block, core, span, asked.cycle, cycle, end))
            heapq.heappush(self.ends, (end, block))
        self._changed(core)

    def _sample(self, cycle: int) -> None:
        self.slots_used.append((cycle, self.used_slots))
