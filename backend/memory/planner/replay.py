"""Replays a trace under a policy that evicts when room is needed: what moves.

Two ways to place: `free` counts bytes only, as if memory were never fragmented (the policy's best case); `contiguous` gives every object one range of addresses, lowest
first, and evicts on until a hole is long enough, as a real allocator has to. The rules for what moves are `cost.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from farlane.backend.memory.planner.trace import Trace
from farlane.backend.memory.replacement import Future, Policy, Resident


@dataclass(frozen=True)
class Moved:
    """Bytes over the whole trace."""

    bytes_in: int
    bytes_out: int

    @property
    def bytes_moved(self) -> int:
        return self.bytes_in + self.bytes_out


class _Free:
    def __init__(self, memory: int) -> None:
        self.left = memory

    def take(self, number: int, size: int) -> bool:
        if size > self.left:
            return False
        self.left -= size
        return True

    def give_back(self, number: int, size: int) -> None:
        self.left += size


class _Contiguous:
    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.placed: dict[int, tuple[int, int]] = {}

    def take(self, number: int, size: int) -> bool:
        at = 0
        for start, length in sorted(self.placed.values()):
            if start - at >= size:
                break
            at = start + length
        if at + size > self.memory:
            return False
        self.placed[number] = at, size
        return True

    def give_back(self, number: int, size: int) -> None:
        del self.placed[number]


def replay(trace: Trace, policy: Policy, *, contiguous: bool = False) -> Moved:
    """What moves under a policy, which knows the whole trace beforehand. Raises ValueError where fragmentation leaves no hole for a step even when all others are gone."""
    space: _Free | _Contiguous = _Contiguous(trace.memory) if contiguous else _Free(trace.memory)
    after = _needed_after(trace)
    dirty: dict[int, bool] = {}  # of those that are resident
    last_use: dict[int, int] = {}
    bytes_in = bytes_out = 0
    policy.expect(Future(0, trace.steps, dict(enumerate(trace.sizes)), trace.memory))
    for step, accesses in enumerate(trace.steps):
        together = {access.object for access in accesses}

        def out(number: int, step: int = step) -> int:
            space.give_back(number, trace.sizes[number])
            return trace.sizes[number] if dirty.pop(number) and after(number, step) else 0

        for access in accesses:
            if access.object in dirty:
                continue
            while not space.take(access.object, trace.sizes[access.object]):
                others = [
                    Resident(number, trace.sizes[number], last_use[number], changed)
                    for number, changed in dirty.items()
                    if number not in together
                ]
                if others:
                    bytes_out += out(policy.victim(access.object, others, step))
                elif not _repack(space, trace, dirty):
                    raise ValueError(f"step {step} does not fit in {trace.memory} bytes")
            bytes_in += trace.sizes[access.object] if access.reads else 0
            dirty[access.object] = False
        for access in accesses:
            dirty[access.object] = dirty[access.object] or access.writes
            last_use[access.object] = step
    end = len(trace.steps)
    bytes_out += sum(trace.sizes[number] for number, changed in dirty.items() if changed and after(number, end))
    return Moved(bytes_in, bytes_out)


def _repack(space: _Free | _Contiguous, trace: Trace, dirty: dict[int, bool]) -> bool:
    """The step's own objects lie apart: they are moved together on the device, which moves nothing to the host."""
    if isinstance(space, _Free) or not dirty:
        return False
    before = dict(space.placed)
    space.placed.clear()
    for number in sorted(before, key=lambda each: before[each]):
        space.take(number, trace.sizes[number])
    return space.placed != before


def _needed_after(trace: Trace) -> Callable[[int, int], bool]:
    """(object, step) -> whether what it holds before `step` is needed in it or later."""
    place = [0] * len(trace.sizes)

    def needed(number: int, step: int) -> bool:
        accesses = trace.accesses[number]
        while place[number] < len(accesses) and accesses[place[number]][0] < step:
            place[number] += 1
        return accesses[place[number]][1].reads if place[number] < len(accesses) else number in trace.kept

    return needed
