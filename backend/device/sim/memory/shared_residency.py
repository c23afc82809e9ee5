"""The residency of a session that shares the device's memory with others: its granules leave when another session needs them.

Owns which granules leave, and the count of what comes back. While they leave this session does not run (shared.py). A launch that has stopped at a block boundary
begins again afterwards, so nothing that it has pinned stays; its pages come back when it, or a later launch, needs them.

Source: docs/explanation/systems.md, S2 point 5: only what is missing moves, and only then; afterwards everything is restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from farlane.backend.device.sim.memory.extents import Extent
from farlane.backend.device.sim.memory.residency import AWAY, DIRTY, STORED, Residency
from farlane.backend.device.sim.memory.shared import Savings
from farlane.backend.device.sim.memory.space import Space
from farlane.backend.device.sim.memory.window import HELD, PAGE, PAGE_SHIFT, Window
from farlane.backend.memory.replacement import Policy


class SharedResidency(Residency):
    """A `shared.Holder`."""

    def __init__(self, window: Window, space: Space, memory: int, policy: Policy) -> None:
        super().__init__(window, space, memory, policy)
        self.savings = Savings()

    @property
    def granules(self) -> int:
        return self.space.granules

    @property
    def _room(self) -> int:
        return min(super()._room, self.space.room // PAGE)

    def give_up(self, granules: int, unchanged: bool) -> int:
        with self._lock:
            held = sorted(self.space.occupancy().items(), key=lambda each: (self._weight(each[1]), each[0]))
            spans = [span for _, spans in held[:granules] for span in spans]
            going = [part for start, length in spans for part in self._parts(start, length)]
            if unchanged:
                for _, [(low, high)] in going:
                    self._state[low:high] |= DIRTY
            before = self.migrations.bytes_out
            for extent, runs in going:
                self._write_back(extent, runs)
            self.space.remap([self._span(extent, *run) for extent, runs in going for run in runs], ())
            for extent, runs in going:
                self._gone(extent, runs)
                for low, high in runs:
                    state = self._state[low:high]
                    state[(state & STORED) != 0] |= AWAY
                if extent.open:
                    self._opened.remove(extent)
                    extent.open = False
                    self.window.flags[extent.first : extent.last] = HELD
            return self.migrations.bytes_out - before

    def restore(self) -> None:
        for extent in self.extents:
            if (self._state[extent.first : extent.last] & AWAY).any() and extent.pages - extent.present <= self._room:
                self._bring(extent, extent.first, extent.last)

    def _came(self, state: npt.NDArray[np.uint8]) -> None:
        self.savings.bytes_restored += int(np.count_nonzero(state & AWAY)) * PAGE
        state &= 0xFF ^ AWAY
        super()._came(state)

    def _weight(self, spans: Iterable[tuple[int, int]]) -> int:
        """How many pages are copied when these addresses leave and come back."""
        weight = 0
        for start, length in spans:
            page = (start - self.window.base) >> PAGE_SHIFT
            state = self._state[page : page + (length >> PAGE_SHIFT)]
            weight += int(np.count_nonzero(state & DIRTY)) + int(np.count_nonzero(state & (DIRTY | STORED)))
        return weight

    def _parts(self, start: int, length: int) -> Iterator[tuple[Extent, list[tuple[int, int]]]]:
        """The extents of mapped addresses, each with its run of pages there."""
        first = (start - self.window.base) >> PAGE_SHIFT
        last = first + (length >> PAGE_SHIFT)
        for extent in self.extents.overlapping(first, last):
            yield extent, [(max(first, extent.first), min(last, extent.last))]
