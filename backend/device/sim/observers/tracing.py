"""Recording which objects a program's launches and copies access: a trace for `farlane plan`.

Owns the trace and its file. An object is an extent (memory/residency.py), that is an allocation's pages; a step is a launch or a copy. A kernel asks for each extent
at its first read and at its first write, so the trace has what was touched and no guesses. A write to an extent that has no content yet replaces nothing, and counts
as `w`; so does a copy to all of it. Every other write leaves part of what was there, and counts as `rw`.

Bounded: a program that does more has a trace of its first steps.
Source: docs/explanation/systems.md, S4 point 1; the format is memory/planner/trace.py's.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farlane.backend.device.allocations import Allocations
from farlane.backend.device.base import Rows
from farlane.backend.device.sim.memory.extents import Extent
from farlane.backend.device.sim.memory.managed import ManagedMemory
from farlane.backend.device.sim.observers.observer import Ended, Observer
from farlane.backend.memory.planner.trace import Access, Trace

MOST_STEPS = 200_000

_log = logging.getLogger(__name__)


class TraceRecorder(Observer):
    """The trace of one session."""

    def __init__(self, path: Path, memory: ManagedMemory) -> None:
        self.path = path
        self._memory = memory
        self._sizes: list[int] = []
        self._names: list[str] = []
        self._place: dict[int, int] = {}  # extent's number: object
        self._steps: list[list[Access]] = []
        self._step: dict[int, Access] = {}
        self._filled: set[int] = set()  # extents with content

    # Launches -----------------------------------------------------------------------------------------------------
    def touched(self, extent: Extent, write: bool) -> None:
        self._add(extent, reads=not write or extent.number in self._filled, writes=write)

    def ended(self, launch: Ended, allocations: Allocations) -> None:
        self._end_step()

    # Copies: a step each, but for those that a kernel makes ---------------------------------------------------------
    def initialised(self, rows: Rows) -> None:
        self.written(rows)

    def written(self, rows: Rows, by_kernel: bool = False) -> None:
        self._copied(rows, read=False)
        if not by_kernel:
            self._end_step()

    def read(self, rows: Rows) -> None:
        self._copied(rows, read=True)
        self._end_step()

    def copied(self, destination: Rows, source: Rows, by_kernel: bool = False) -> None:
        self._copied(source, read=True)
        self._copied(destination, read=False)
        if not by_kernel:
            self._end_step()

    def _copied(self, rows: Rows, *, read: bool) -> None:
        for extent, whole in self._memory.extents_of(rows):
            self._add(extent, reads=read or (not whole and extent.number in self._filled), writes=not read)

    # Steps ----------------------------------------------------------------------------------------------------------
    def _end_step(self) -> None:
        if self._step and len(self._steps) < MOST_STEPS:
            self._steps.append(list(self._step.values()))
        self._step = {}

    def _add(self, extent: Extent, reads: bool, writes: bool) -> None:
        place = self._place.get(extent.number)
        if place is None:
            place = self._place[extent.number] = len(self._sizes)
            self._sizes.append(extent.size)
            self._names.append(f"{extent.label} {extent.number}")
        before = self._step.get(place)
        if before is None:
            self._step[place] = Access(place, reads, writes)
        else:
            self._step[place] = Access(place, before.reads or (reads and not before.writes), before.writes or writes)
        if writes:
            self._filled.add(extent.number)

    def close(self, memory: Mapping[str, Any]) -> None:
        """Writes the file, with as much memory as the device has; where a step needs more, as much as that."""
        if not self._steps:
            return
        needed = max(sum(self._sizes[access.object] for access in step) for step in self._steps)
        there = self._memory.residency.memory
        trace = Trace(self._sizes, self._steps, max(there, needed), frozenset(), self._names)
        try:
            self.path.write_text(json.dumps(trace.to_json()), encoding="utf-8")
        except OSError as error:
            _log.error("the trace cannot be written: %s: %s", self.path, error.strerror)
