"""Recording which objects a program's launches and copies access: a trace for `farlane plan`.

Owns the trace and its file. An object is an extent (residency.py), that is an allocation's pages; a step is a launch or a copy. What a launch touches is seen, not guessed: its kernels
ask for each extent at its first read and at its first write. A kernel's write to an extent that has no content yet replaces nothing, and counts as `w`; so does a copy to all of it. Every
other write leaves part of what was there, and counts as `rw`.

Bounded: a program that does more has a trace of its first steps. One thread at a time, but for `touched`, which the residency's lock guards.
Source: mission.md S4 point 1; the format is memory/planner/trace.py's.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from farlane.backend.device.sim.memory.extents import Extent
from farlane.backend.memory.planner.trace import Access, Trace

MOST_STEPS = 200_000

_log = logging.getLogger(__name__)


class Recorder:
    """The trace of one session."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sizes: list[int] = []
        self._names: list[str] = []
        self._place: dict[int, int] = {}  # extent's number: object
        self._steps: list[list[Access]] = []
        self._step: dict[int, Access] = {}
        self._filled: set[int] = set()  # extents with content

    def touched(self, extent: Extent, write: bool) -> None:
        """A launch reads or writes an extent."""
        self._add(extent, reads=not write or extent.number in self._filled, writes=write)

    def copied(self, extent: Extent, *, read: bool, whole: bool) -> None:
        """A copy from or to an extent, or the whole of it."""
        self._add(extent, reads=read or (not whole and extent.number in self._filled), writes=not read)

    def end_step(self) -> None:
        """The launch or copy is done."""
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

    def write(self, memory: int) -> None:
        """Writes the file. `memory`: of the device; where a step needs more, as much as that."""
        if not self._steps:
            return
        needed = max(sum(self._sizes[access.object] for access in step) for step in self._steps)
        trace = Trace(self._sizes, self._steps, max(memory, needed), frozenset(), self._names)
        try:
            self.path.write_text(json.dumps(trace.to_json()), encoding="utf-8")
        except OSError as error:
            _log.error("the trace cannot be written: %s: %s", self.path, error.strerror)
