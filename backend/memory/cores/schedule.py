"""Where and when blocks run, and with that what each core asks for, in order.

The rule, all of it fixed by the launches alone:

- The block dispatcher (slots/dispatcher.py) places the blocks of the launches of a group by their demand for shared memory, registers, threads and places. Streams compete,
  launches of one stream follow each other.
- A resident warp issues one instruction every `issue_cycles` cycles, warp w in the cycles w, w + issue_cycles, ... after its block's start. What other warps do, and
  how long a translation takes, does not hold it up: the model's own stalls (MSHRs) are the TLB hierarchy's. A block ends when its last warp has made its last access.
- A core's requests are in the order of their cycles; those of one cycle by warp, then by launch and block. An instruction's pages are in the order of the first lanes that touch them.

So a block's duration does not depend on its neighbours, and the dispatcher's schedule and the order of the requests fit together exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from farlane.backend.memory.cores.ordering import Window, measure
from farlane.backend.memory.cores.touches import Columns, Ints, Spool
from farlane.backend.memory.slots.core import Demand
from farlane.backend.memory.slots.dispatcher import Dispatcher, Kernel, Schedule
from farlane.backend.memory.tlb.stream import Stream

WINDOW = 1 << 20  # requests that are put in order at a time
_BINS = 1 << 14
_FOREVER = 1 << 62


@dataclasses.dataclass
class Launch:
    """A kernel launch and what it touched. `stream` is any number that says which launches follow each other."""

    name: str
    stream: int
    demand: Demand
    blocks: int
    touches: Spool
    issued: Ints = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))  # of each block: the most of a warp

    def add(self, words: np.ndarray) -> None:
        """More touches."""
        if not len(self.issued):
            self.issued = np.zeros(self.blocks, np.int64)
        measure(words, self.issued)
        self.touches.add(words)

    def durations(self, issue_cycles: int) -> list[int]:
        """Cycles of each block."""
        if not len(self.issued):
            return [1] * self.blocks
        found: list[int] = ((self.issued + 1) * issue_cycles).tolist()
        return found


def place(launches: Sequence[Launch], dispatcher: Dispatcher, issue_cycles: int) -> Schedule:
    """Raises SlotError for a block that no core can hold."""
    kernels = [Kernel(launch.name, launch.stream, launch.demand, launch.durations(issue_cycles)) for launch in launches]
    return dispatcher.run(kernels)


class _Places:
    """Core and start of each block of each launch."""

    def __init__(self, launches: Sequence[Launch], schedule: Schedule) -> None:
        self.core = [np.zeros(launch.blocks, np.int64) for launch in launches]
        self.start = [np.zeros(launch.blocks, np.int64) for launch in launches]
        for number in range(len(launches)):
            rows = schedule.rows[schedule.rows[:, 0] == number]
            self.core[number][rows[:, 1]] = rows[:, 2]
            self.start[number][rows[:, 1]] = rows[:, 5]


def _cycles(columns: Columns, start: Ints, issue_cycles: int) -> Ints:
    cycles: Ints = start[columns.block] + columns.issued * issue_cycles + columns.warp % issue_cycles
    return cycles


def requests(
    launches: Sequence[Launch], schedule: Schedule, cores: int, issue_cycles: int, window: int = WINDOW, keep: int = 0
) -> Iterator[Stream]:
    """Each core's requests, a window of time after the other. Windows have about `window` requests; a single cycle is never cut.

    `keep`: how far back the fast mode's filter looks (ordering.py), 0 for no filter.
    """
    places = _Places(launches, schedule)
    pieces = [(number, piece) for number, launch in enumerate(launches) for piece in range(len(launch.touches))]
    edges, spans = _windows(launches, places, pieces, issue_cycles, window)
    last = np.full(cores, -1, np.int64)  # the cycle of each core's latest request
    for begin, end in pairwise(edges):
        inside = [
            (number, launches[number].touches.piece(piece))
            for (number, piece), (low, high) in zip(pieces, spans, strict=True)
            if low < end and high >= begin
        ]
        taken = Window(begin, end, issue_cycles, sum(len(words) for _, words in inside))
        for number, words in inside:
            taken.take(words, places.start[number], places.core[number])
        if len(taken):
            yield taken.ordered(last, keep)


def _windows(
    launches: Sequence[Launch], places: _Places, pieces: list[tuple[int, int]], issue_cycles: int, window: int
) -> tuple[list[int], list[tuple[int, int]]]:
    """Edges between windows of time, and the first and last cycle of each piece."""
    if sum(launch.touches.records for launch in launches) <= window:
        return [0, _FOREVER], [(0, 0)] * len(pieces)
    width = -(-_end(launches, places, issue_cycles) // _BINS)
    counts = np.zeros(_BINS, np.int64)
    spans = []
    for number, piece in pieces:
        cycles = _cycles(Columns.of(launches[number].touches.piece(piece)), places.start[number], issue_cycles)
        spans.append((int(cycles.min()), int(cycles.max())))
        counts += np.bincount(cycles // width, minlength=_BINS)
    edges, filled = [0], 0
    for number, count in enumerate(counts.tolist()):
        if filled and filled + count > window:
            edges.append(number * width)
            filled = 0
        filled += count
    edges.append(_FOREVER)
    return edges, spans


def _end(launches: Sequence[Launch], places: _Places, issue_cycles: int) -> int:
    """The cycle after the last access that any warp could make."""
    ends = [
        int((start + np.asarray(launch.durations(issue_cycles)) + issue_cycles).max(initial=0))
        for launch, start in zip(launches, places.start, strict=True)
    ]
    return max(ends, default=0)
