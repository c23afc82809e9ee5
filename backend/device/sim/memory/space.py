"""Where a session's pages lie in the device's physical memory.

Owns the device's physical frames (`Physical`, shared by its sessions), and for one session (`Space`) the translation table and the page table, which always say the
same: the table by ranges, the page table by pages, for the walkers of a TLB model. Nothing here is on the way of an access: kernels run at host addresses, and what they
may touch is decided by the window's flags. A session has a space when something reads it: a TLB model, or a bound on the memory that it may use (residency.py).

A session gets frames of 2 MiB from the device, wherever they are, as it needs them. Its first module (memory/translation/segments.py) shows what is free in them as one
contiguous range for each allocation. A change of what is mapped is one edit of the table, however many ranges end and begin in it.

The device's second module (memory/translation/tasks.py) shows the variables of the session that runs at fixed addresses (PROGRAM), which are the same for all: a switch from one session's
launches to another's flips enable bits.

Locking: `Physical` locks for itself, spaces belong to their sessions' threads. Source: docs/explanation/systems.md, S2 points 1, 4 and 5.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from farlane.backend.memory.paging import PAGE_2M, PAGE_4K, Frames, OutOfFrames, PageTable
from farlane.backend.memory.translation.segments import SegmentView
from farlane.backend.memory.translation.tasks import TaskRanges

PROGRAM = 0x7000_0000_0000  # outside of all windows (window.py)


class Span(NamedTuple):
    """Whole pages from `start` on."""

    start: int
    length: int
    writable: bool = True


class Physical:
    """The physical memory of a device, and whose program is at the fixed range."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // PAGE_2M) * PAGE_2M
        #: What the window of this process's one session maps, where another process counts what it holds (processes/).
        self.file: int | None = None
        self._frames: Frames | None = None  # made at the first use: most sessions have no space
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.programs = TaskRanges(PROGRAM)

    @property
    def free_granules(self) -> int:
        """Frames of 2 MiB that no session has."""
        with self._lock:
            return (self.size if self._frames is None else self._frames.free_bytes) // PAGE_2M

    def take(self, count: int, number: int = 0) -> list[int]:
        """Frames of 2 MiB for the space of this number. Raises OutOfFrames."""
        with self._lock:
            if self._frames is None:
                self._frames = Frames(self.size, order="scattered")
            return self._frames.allocate(PAGE_2M, count)

    def give(self, frames: Sequence[int]) -> None:
        if not frames:  # there may be none at all yet
            return
        with self._lock:
            assert self._frames is not None
            self._frames.free(frames)

    def end(self, number: int, frames: Collection[int]) -> None:
        """The space of this number has ended, which has these frames."""
        self.bind(number, ())
        self.give(sorted(frames))

    def new_task(self) -> int:
        return next(self._numbers)

    def bind(self, task: int, segments: Sequence[tuple[int, int]]) -> None:
        """The task's program lies in these segments, one behind the other; none: it has no program. Whether it is active stays."""
        with self._lock:
            programs, active = self.programs, self.programs.active == task
            if programs.bound(task):
                programs.unbind(task)
            if segments:
                programs.bind(task, segments)
                if active:
                    programs.activate(task)

    def activate(self, task: int) -> None:
        """The fixed range is this task's."""
        if self.programs.active != task:
            with self._lock:
                if self.programs.bound(task):
                    self.programs.activate(task)


class Space:
    """The mappings of one session.

    Args:
        page_bytes: the size of its pages.
        limit: bytes of physical memory that it has, from the beginning to the end; None: what it needs. Raises OutOfFrames.
        program: [start, end) of the addresses that belong to the session's program.
    """

    def __init__(
        self, physical: Physical, program: tuple[int, int], page_bytes: int = PAGE_4K, limit: int | None = None
    ) -> None:
        self.page_bytes = page_bytes
        self.page_table = PageTable()
        self._physical = physical
        self._program = program
        self._task = physical.new_task()
        self._view = SegmentView(0, page_bytes)
        self._fixed = limit is not None
        self._frames: set[int] = set()
        if limit is not None:
            self._grow(limit // PAGE_2M)

    @property
    def translations(self) -> SegmentView:
        """The first module; `translations.table` maps the session's addresses."""
        return self._view

    @property
    def number(self) -> int:
        """The device's number for it."""
        return self._task

    @property
    def granules(self) -> int:
        """Frames of 2 MiB that it has."""
        return len(self._frames)

    @property
    def room(self) -> int:
        """Bytes that can be mapped without anything's leaving the device."""
        return self._view.free_bytes + (0 if self._fixed else self._physical.free_granules * PAGE_2M)

    def occupancy(self) -> dict[int, list[tuple[int, int]]]:
        """For each of its frames of 2 MiB, the (start, length) that are mapped there."""
        return self._view.occupancy(self._frames, PAGE_2M)

    def translate(self, address: int) -> int | None:
        """The physical address, by the translation table."""
        found = self._view.table.lookup(address)
        return None if found is None else found.physical

    def remap(self, ended: Sequence[Span], begun: Sequence[Span]) -> None:
        """Ends and begins mappings in one edit. What ends is mapped, what begins is not. Raises OutOfFrames, and changes nothing."""
        view = self._view
        wanted = sum(span.length for span in begun) - sum(span.length for span in ended) - view.free_bytes
        if wanted > 0:
            if self._fixed:
                raise OutOfFrames(f"{wanted} bytes more than the {len(self._frames) * PAGE_2M} of the session")
            self._grow(-(-wanted // PAGE_2M))
        _, places = view.remap([span[:2] for span in ended], [span[:2] for span in begun])
        for span in ended:
            self.page_table.unmap(span.start, span.length)
        for span, segments in zip(begun, places, strict=True):
            frames = [np.arange(at, at + size, self.page_bytes, dtype=np.uint64) for at, size in segments]
            pages: npt.NDArray[np.uint64] = frames[0] if len(frames) == 1 else np.concatenate(frames)
            self.page_table.map(span.start, pages, self.page_bytes, span.writable)
        if any(self._program[0] <= span.start < self._program[1] for span in (*ended, *begun)):
            self._bind()
        if ended and view.free_bytes >= PAGE_2M and not self._fixed:
            self._shrink()

    def run(self) -> None:
        """The session's launches run now."""
        self._physical.activate(self._task)

    def close(self) -> None:
        """Gives the frames back."""
        self._physical.end(self._task, self._frames)
        self._frames.clear()
        self._view = SegmentView(0, self.page_bytes)

    # Pages that allocations share -------------------------------------------------------------------------------
    def cover(self, start: int, end: int, writable: bool) -> None:
        """Maps whatever of the pages round [start, end) is not mapped."""
        size = self.page_bytes
        first, last = start // size * size, -(-end // size) * size
        edges = {first, last - size}
        inner = [Span(page, size, writable) for page in edges if not self._view.mapped_bytes(page, size)]
        if last - first > 2 * size:
            inner.append(Span(first + size, last - first - 2 * size, writable))
        self.remap((), sorted(inner))

    def uncover(self, start: int, end: int, used: Callable[[int, int], bool]) -> None:
        """Ends the mapping of the pages round [start, end), but for those in which something is still `used`."""
        size = self.page_bytes
        first, last = start // size * size, -(-end // size) * size
        if used(first, first + size):
            first += size
        if last > first and used(last - size, last):
            last -= size
        if first < last:
            self.remap((Span(first, last - first),), ())

    # Frames -----------------------------------------------------------------------------------------------------
    def _grow(self, count: int) -> None:
        for frame in self._physical.take(count, self._task):
            self._frames.add(frame)
            self._view.grow(frame, PAGE_2M)

    def _shrink(self) -> None:
        """Frames of which nothing is mapped go back to the device: another session may need them."""
        spare = []
        for start, length in self._view.free_segments:
            first = -(-start // PAGE_2M) * PAGE_2M
            spare += [frame for frame in range(first, start + length - PAGE_2M + 1, PAGE_2M) if frame in self._frames]
        for frame in spare:
            if self._view.shrink(frame, PAGE_2M):
                self._frames.discard(frame)
                self._physical.give([frame])

    def _bind(self) -> None:
        start, end = self._program
        pieces = self._view.table.pieces(start, end - start)
        self._physical.bind(self._task, [(piece.physical, piece.end - piece.start) for piece in pieces])
