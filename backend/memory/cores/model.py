"""A session's memory system over time: launches with what they touched go in, counts come out.

Launches gather in a group until something orders everything before everything behind it (`barrier`): a synchronization, or work in the legacy default stream. The
launches of a group run together: the block dispatcher places their blocks, their requests go to the TLB hierarchy and to the trace. Launches of one stream only
are modelled one after the other, so that each has counts of its own; where streams overlap, the group has them.

Function and timing are apart: what a launch computes is done before it comes here, and nothing here goes back. One thread at a time.

Source: docs/explanation/systems.md, S3 (translation), S5 (slots).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from farlane.backend.memory.config import Config
from farlane.backend.memory.cores.ordering import recent
from farlane.backend.memory.cores.pages import Pages
from farlane.backend.memory.cores.schedule import Launch, place, requests
from farlane.backend.memory.cores.touches import RECORD_BYTES, Spool
from farlane.backend.memory.paging import OutOfFrames, PageTable
from farlane.backend.memory.slots.allocator import SlotError
from farlane.backend.memory.slots.core import Demand
from farlane.backend.memory.slots.dispatcher import Schedule
from farlane.backend.memory.slots.fast import dispatcher
from farlane.backend.memory.slots.policies import POLICIES
from farlane.backend.memory.tlb.counts import Counts
from farlane.backend.memory.tlb.stream import Stream

if TYPE_CHECKING:
    from farlane.backend.memory.cores.trace import TraceWriter

MOST_ROWS = 2000  # of the report; later groups count in the totals only
MOST_SAMPLES = 1024  # of the slots in use over time
MOST_LAUNCHES = 256  # of a group
_CLOSE = 1 << 22  # pages


@dataclasses.dataclass
class Row:
    """A group of launches in the report. `parts`: into how many pieces it was cut because its touches exceeded the bound."""

    name: str
    launches: int
    streams: int
    blocks: int
    requests: int
    cycles: int  # of the block dispatcher
    utilisation: float  # of the slots of all cores
    resident: float  # blocks on a core, on average
    parts: int
    refused: str  # why no core could hold a block: the group is not modelled
    counts: Counts

    def to_json(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        values["mean_latency"], values["peer_share"] = self.counts.mean_latency, self.counts.peer_share
        return values


class MemoryModel:
    """`table`: what the walkers read; without one, pages are mapped as they are asked for. `tlb`: whether the hierarchy runs.
    `fast`: leaves out requests that must hit (ordering.py)."""

    def __init__(
        self,
        config: Config,
        *,
        tlb: bool = True,
        fast: bool = False,
        trace: TraceWriter | None = None,
        table: PageTable | None = None,
    ) -> None:
        self.config = config
        self.rows: list[Row] = []
        self.kernels: dict[str, Row] = {}
        self.total = Counts()
        self.samples: list[tuple[int, int]] = []  # (cycle, slots in use)
        self.seconds = {"slots": 0.0, "order": 0.0, "tlb": 0.0}
        self._spread = 1  # every so many samples are kept
        self._seen = 0
        self._clock = 0
        self._fast, self._trace = fast, trace
        self._dispatcher = dispatcher(config.cores.dispatcher(config.tlb.cores), POLICIES[config.cores.policy])
        self._pages = None
        if table is None:
            self._pages = Pages.of(config)
            table = self._pages.table
        self._tlb: Any = None
        if tlb:
            from farlane.backend.memory.tlb.fast import FastTlb  # compiled code: only where it is needed

            self._tlb = FastTlb(config.tlb, table)
        self._touched = np.zeros(0, np.int64)  # distinct pages
        self._group: list[Launch] = []
        self._parts = 1

    # Launches ---------------------------------------------------------------------------------------------------
    def begin(self, name: str, stream: int, demand: Demand, blocks: int) -> None:
        """A launch; `touch` says what it touches, until the next begin."""
        if len(self._group) >= MOST_LAUNCHES:
            self.barrier()
        held = sum(launch.touches.records for launch in self._group)
        memory = max(0, (self.config.cores.memory_mib << 20) - held * RECORD_BYTES)
        self._group.append(Launch(name, stream, demand, blocks, Spool(memory)))

    def touch(self, words: np.ndarray) -> None:
        """Rows as cores/touches.py describes them. A group that exceeds the bound is modelled as far as it has come."""
        self._group[-1].add(words)
        if sum(launch.touches.records for launch in self._group) * RECORD_BYTES > self.config.cores.trace_mib << 20:
            last = self._group[-1]
            self.barrier()
            self._parts += 1
            self._group.append(
                Launch(last.name, last.stream, last.demand, last.blocks, Spool(self.config.cores.memory_mib << 20))
            )

    def abandon(self) -> None:
        """The latest launch has failed: it never was."""
        if self._group:
            self._group.pop().touches.close()

    def barrier(self) -> None:
        """What comes later begins when everything so far has ended."""
        group, self._group = self._group, []
        parts, self._parts = self._parts, 1
        if len({launch.stream for launch in group}) > 1:
            self._run(group, parts)
        else:
            for launch in group:
                self._run([launch], parts)
        for launch in group:
            launch.touches.close()

    def gone(self, start: int, end: int) -> None:
        """These addresses are not mapped any more."""
        self.barrier()
        page_bytes = self.config.tlb.page_bytes
        pages: Sequence[int] = range(-(-start // page_bytes), end // page_bytes)
        if self._pages is not None:
            pages = self._pages.gone(pages[0], pages[-1] + 1) if pages else []
        if len(pages) and self._tlb is not None:
            self._tlb.invalidate(pages)

    # Running ----------------------------------------------------------------------------------------------------
    def _run(self, group: list[Launch], parts: int) -> None:
        names = list(dict.fromkeys(launch.name for launch in group))
        row = Row(
            " | ".join(names), len(group), len({launch.stream for launch in group}), sum(one.blocks for one in group),
            sum(one.touches.records for one in group), 0, 0.0, 0.0, parts, "", Counts(),
        )  # fmt: skip
        started = time.perf_counter()
        try:
            schedule = place(group, self._dispatcher, self.config.cores.issue_cycles)
        except SlotError as error:
            row.refused = str(error)
            self._enter(row)
            return
        finally:
            self.seconds["slots"] += time.perf_counter() - started
        self._measure(row, schedule)
        if self._tlb is not None or self._trace is not None:
            if self._trace is not None:
                self._trace.group(row.name)
            self._translate(row, self._windows(group, schedule))
        self._enter(row)

    def _measure(self, row: Row, schedule: Schedule) -> None:
        cores = self._dispatcher.spec.cores
        row.cycles = schedule.cycles
        row.utilisation = schedule.utilisation(cores * self._dispatcher.spec.core.slots)
        busy = int((schedule.rows[:, 6] - schedule.rows[:, 5]).sum())
        row.resident = busy / (cores * schedule.cycles) if schedule.cycles else 0.0
        for cycle, used in schedule.slots_used.tolist():
            if self._seen % self._spread == 0:
                self.samples.append((self._clock + cycle, used))
                if len(self.samples) > 2 * MOST_SAMPLES:
                    self.samples = self.samples[::2]
                    self._spread *= 2
            self._seen += 1
        self._clock += schedule.cycles

    def _windows(self, group: list[Launch], schedule: Schedule) -> Iterator[Stream]:
        keep = recent(self.config.tlb) if self._fast else 0
        windows = requests(group, schedule, self._dispatcher.spec.cores, self.config.cores.issue_cycles, keep=keep)
        while True:
            started = time.perf_counter()
            window = next(windows, None)
            self.seconds["order"] += time.perf_counter() - started
            if window is None:
                return
            yield window

    def _translate(self, row: Row, windows: Iterator[Stream]) -> None:
        if self._tlb is not None:
            self._tlb.load()  # `seconds` are the model's, not its compiler's
        for window in windows:
            found = _distinct(window.page)
            self._touched = _union(self._touched, found)
            if self._trace is not None:
                self._trace.add(window)
            if self._tlb is None:
                continue
            started = time.perf_counter()
            try:
                if self._pages is not None:
                    self._pages.need(found.tolist())
            except OutOfFrames as error:
                row.refused = str(error)
                break
            self._tlb.feed(window)
            self.seconds["tlb"] += time.perf_counter() - started
        if self._tlb is not None:
            started = time.perf_counter()
            row.counts = self._tlb.finish()
            self.seconds["tlb"] += time.perf_counter() - started

    def _enter(self, row: Row) -> None:
        self.total = self.total + row.counts
        if len(self.rows) < MOST_ROWS:
            self.rows.append(row)
        known = self.kernels.get(row.name)
        if known is None:
            if len(self.kernels) < MOST_ROWS:
                self.kernels[row.name] = dataclasses.replace(row)
            return
        cycles = known.cycles + row.cycles
        for name in ("utilisation", "resident"):  # means over time
            before, now = getattr(known, name) * known.cycles, getattr(row, name) * row.cycles
            setattr(known, name, (before + now) / cycles if cycles else 0.0)
        known.launches += row.launches
        known.blocks += row.blocks
        known.requests += row.requests
        known.cycles = cycles
        known.parts = max(known.parts, row.parts)
        known.refused = known.refused or row.refused
        known.counts = known.counts + row.counts

    def report(self) -> dict[str, Any]:
        """Everything so far, for JSON."""
        self.barrier()
        spec = self._dispatcher.spec
        return {
            "config": dataclasses.asdict(self.config),
            "fast": self._fast,
            "kernels": [row.to_json() for row in self.kernels.values()],
            "groups": [row.to_json() for row in self.rows],
            "total": {
                **dataclasses.asdict(self.total),
                "mean_latency": self.total.mean_latency,
                "peer_share": self.total.peer_share,
            },
            "pages": len(self._touched),
            "slots": {"there": spec.cores * spec.core.slots, "over_time": self.samples, "cycles": self._clock},
            "seconds": self.seconds,
        }


def _distinct(pages: np.ndarray) -> np.ndarray:
    """In order; without sorting where they lie close to each other."""
    if not len(pages):
        return pages
    low, high = int(pages.min()), int(pages.max())
    if high - low >= _CLOSE:
        return _union(pages, pages[:0])
    there = np.zeros(high - low + 1, bool)
    there[pages - low] = True
    return np.flatnonzero(there) + low


def _union(pages: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Distinct pages of both, in order. Numpy's own functions of sets load its masked arrays, which takes longer than most programs' pages do."""
    both = np.concatenate([pages, others])
    both.sort()
    first = np.ones(len(both), bool)
    np.not_equal(both[1:], both[:-1], out=first[1:])
    return both[first]
