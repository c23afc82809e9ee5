"""Which of a session's pages are on the device, when it may allocate more than the device memory it has.

Owns the state of every page (on the device or not, changed since it came, a copy in the store) and the moving; what the policy decides about are extents (extents.py). A page is on the device
when it has a frame (space.py): at most `memory` bytes of frames are ever in use, and what is not on the device is in the store and nowhere else. Kernels find
only what is there: the window's flags of everything else say PAGE_HELD, and a kernel that gets there asks (`fault`).

An extent is what one allocation brought into use. Before a launch (`begin`) the extents that its arguments point into are brought in, as a whole, and stay
until it ends, as does what it finds by itself (pointers in memory): what goes is what the launch has not touched, the policy says which. So that a touch is
seen, everything else loses its flags at the beginning of the launch. Where a launch needs more than there is, its large extents stream: they come and go by chunks, the oldest first.

A page is written back when it has been changed: pages come in readable, and the first write asks. As long as everything is on the device (`complete`), none of this
happens but the last.

Copies never wait for room: they go to where the bytes are (managed.py).

Where sessions share the device's memory (shared.py), `memory` is all of it. What another session needs leaves by granules (shared_residency.py).

Locking: requests of kernels come from the threads that run them, one lock for them; all else from the session's thread, never while a kernel runs.
Source: docs/explanation/systems.md, S4, S2 point 5 (only what is missing moves); the design in docs/explanation/memory/reuse.md.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from farlane.backend.device.sim.memory.extents import Extent, Extents
from farlane.backend.device.sim.memory.space import Space, Span
from farlane.backend.device.sim.memory.store import Migrations, Store
from farlane.backend.device.sim.memory.window import HELD, PAGE, PAGE_SHIFT, READABLE, WRITABLE, Window, runs_of
from farlane.backend.jit.runtime.services import PageAnswer, Where
from farlane.backend.memory.replacement import Policy, Resident

IN, DIRTY, STORED, AWAY = 1, 2, 4, 8  # a page's state; AWAY: in the store, for another session's sake

_LOOK = np.array([HELD, READABLE | HELD, HELD, READABLE | WRITABLE | HELD] * 4, np.uint8)  # state -> flags
_LOOK_ONLY = np.array([HELD, READABLE | HELD] * 8, np.uint8)
_DIRTY_PARTS, _DIRTY_LEAST = 16, 16  # a write makes a part of its extent dirty, of so many pages at least
_CHUNKS = 128  # that a streaming launch has room for: more than twice what one warp instruction can touch
_CHUNK_MOST = 16
_AHEAD_SHARE, _AHEAD_MOST = 16, 1024  # a piece, where pages are asked for in order: a share of the memory, pages


class Residency:
    """See the module. `memory`: bytes of device memory, what `space` is limited to."""

    def __init__(self, window: Window, space: Space, memory: int, policy: Policy) -> None:
        self.window, self.space, self.memory, self.policy = window, space, memory, policy
        self.on_touch: Callable[[Extent, bool], None] | None = (
            None  # hears of each launch's first read and write of an extent
        )
        self.store = Store(window.size)
        self.migrations = Migrations()
        self.step = 0
        self.untracked = False  # what writes to memory does not say so: every page that is there counts as changed
        self._state: npt.NDArray[np.uint8] = np.zeros(window.pages, np.uint8)
        self._budget = memory // PAGE
        self._chunk = max(1, min(_CHUNK_MOST, self._budget // _CHUNKS))
        self._chunk_most = max(self._chunk, min(_AHEAD_MOST, self._budget // _AHEAD_SHARE))
        self._asked: Where | None = None  # the instruction that asked for the last chunk
        self.extents = Extents()
        self._present = 0  # pages
        self._there: dict[int, Extent] = {}  # by number: those with pages on the device
        self._opened: list[Extent] = []
        self._used: list[Extent] = []  # pinned or streamed by this launch
        self._pinned = 0  # pages of those that are pinned
        self._stream: deque[tuple[Extent, int, int]] = deque()
        self._lock = threading.Lock()

    @property
    def complete(self) -> bool:
        """Whether every page is on the device."""
        return self._present == self.extents.pages

    @property
    def _room(self) -> int:
        """Pages that can come without any other's going."""
        return self._budget - self._present

    @property
    def _can_complete(self) -> bool:
        """Whether everything is on the device, or can come without any page's going."""
        return self.complete or self.extents.pages - self._present <= self._room

    # Extents ----------------------------------------------------------------------------------------------------
    def add(self, first: int, last: int, label: str, writable: bool) -> None:
        """Pages that are mapped from now on, held and without content."""
        opened = self.complete and not self._hides
        extent = self.extents.add(first, last, label, writable)
        if extent.pages <= self._room:
            self._bring(extent, first, last)
            if self.untracked:
                self._state[first:last] |= DIRTY
            if opened:
                self._open(extent)

    def remove(self, first: int, last: int) -> None:
        """Pages that are not mapped any more; the window forgets them."""
        for extent in list(self.extents.overlapping(first, last)):
            low, high = max(extent.first, first), min(extent.last, last)
            runs = self._runs(low, high, IN, IN)
            if runs:
                self.space.remap([self._span(extent, *run) for run in runs], ())
                self._gone(extent, runs)
            if self._state[low:high].any():
                self.store.drop(low * PAGE, high * PAGE)
                self._state[low:high] = 0
            self._there.pop(extent.number, None)
            if extent.open:
                self._opened.remove(extent)
            for part in self.extents.cut(extent, low, high):
                part.present = int(np.count_nonzero(self._state[part.first : part.last] & IN))
                if part.present:
                    self._there[part.number] = part
                if part.open:
                    self._opened.append(part)

    # Launches ---------------------------------------------------------------------------------------------------
    def begin(self, wanted: Sequence[Extent], again: bool = False) -> None:
        """A launch that is given these extents comes next. Afterwards it may run; unless everything is there, on one thread.

        Args:
            again: it has begun before, and stopped at a block boundary.
        """
        self.step += not again
        self.untracked = False
        for extent in self._used:
            extent.pinned = extent.streamed = False
        self._used.clear()
        self._stream.clear()
        self._pinned = 0
        if not self.complete and self._can_complete:
            self._bring_all()
        if self.complete and not self._hides:
            self._open_all()
            return
        for extent in self._opened:
            extent.open = False
            self.window.flags[extent.first : extent.last] = HELD
        self._opened.clear()
        fits = sum(extent.pages for extent in wanted) <= self._budget
        room = self._budget if fits else self._budget // 2
        for extent in sorted(wanted, key=lambda each: each.pages):
            extent.last_use = self.step
            if self._pinned + extent.pages <= room:
                self._pin(extent)
        for extent in wanted:
            if extent.pinned:
                self._bring(extent, extent.first, extent.last)
                if not self._hides:
                    self._open(extent)
        self.migrations.streaming_launches += not fits

    def begin_untracked(self) -> bool:
        """Something that reads and writes any memory comes next. False where it may not, for something is not there."""
        if self._hides or not self._can_complete:
            return False
        self.begin(())
        self.untracked = True
        for extent in self.extents:
            self._state[extent.first : extent.last] |= DIRTY
            extent.written = True
            self._open(extent)
        return True

    def fits(self, size: int) -> bool:
        """Whether everything would still be there with so many bytes more."""
        return self.complete and -(-size // PAGE) + 1 <= self._room

    def fault(self, address: int, size: int, write: bool, where: Where) -> PageAnswer:
        """A kernel's access that the flags did not allow. From any of its threads."""
        page = (address - self.window.base) >> PAGE_SHIFT
        with self._lock:
            extent = self.extents.holding(page)
            if extent is None or (write and not extent.writable):
                return PageAnswer.ILLEGAL
            self.migrations.requests += 1
            moved = False
            low, high = page, page + 1
            if not self._state[page] & IN:
                if self._pin_for(extent):
                    low, high = extent.first, extent.last
                else:
                    low, high = self._next_chunk(extent, page, where)
                moved = self._bring(extent, low, high)
                if extent.streamed:
                    self._stream.append((extent, low, high))
            elif not self.complete or self._hides:
                self._pin_for(extent)
            extent.last_use = self.step
            if self.on_touch is not None:
                self.on_touch(extent, write)
            if write:
                part = max(_DIRTY_LEAST, -(-extent.pages // _DIRTY_PARTS))
                start = extent.first + (page - extent.first) // part * part
                end = min(extent.last, start + part)
                state = self._state[start:end]
                state[(state & IN) != 0] |= DIRTY
                extent.written = True
                low, high = min(low, start), max(high, end)
            if not extent.open:
                low, high = extent.first, extent.last
                extent.open = True
                self._opened.append(extent)
            # While touches are recorded a page that was changed before shows no more than the access asked for.
            self._show(extent, low, high, write or not self._hides)
            return PageAnswer.MOVED if moved else PageAnswer.ALLOWED

    def _next_chunk(self, extent: Extent, page: int, where: Where) -> tuple[int, int]:
        """What a streaming extent brings in for a page: more and more at a time where pages are asked for in order, but at most one such
        piece for one instruction, so that all that it needs has room at once."""
        if page == extent.expected and where != self._asked:
            low, extent.ahead = page, min(2 * extent.ahead, self._chunk_most)
        else:
            low, extent.ahead = max(extent.first, page // self._chunk * self._chunk), self._chunk
        self._asked = where
        extent.expected = high = min(extent.last, low + extent.ahead)
        return low, high

    @property
    def _hides(self) -> bool:
        return self.on_touch is not None

    def _bring_all(self) -> None:
        for extent in self.extents:
            self._bring(extent, extent.first, extent.last)

    def _open_all(self) -> None:
        if len(self._opened) < len(self.extents):
            for extent in self.extents:
                if not extent.open:
                    self._open(extent)

    def _open(self, extent: Extent) -> None:
        if not extent.open:
            extent.open = True
            self._opened.append(extent)
        self._show(extent, extent.first, extent.last, True)

    def _show(self, extent: Extent, low: int, high: int, writable: bool) -> None:
        """The flags of an extent's pages say what their state is."""
        look = _LOOK if writable and extent.writable else _LOOK_ONLY
        self.window.flags[low:high] = look[self._state[low:high]]

    def _pin(self, extent: Extent) -> None:
        if not extent.pinned:
            extent.pinned = True
            self._pinned += extent.pages
            self._used.append(extent)

    def _pin_for(self, extent: Extent) -> bool:
        """Keeps an extent for this launch, if there is room for all of it beside those that are kept; otherwise it streams."""
        if extent.pinned:
            return True
        if not extent.streamed:
            if self._pinned + extent.pages <= (self._budget // 2 if self._stream else self._budget):
                self._pin(extent)
                return True
            self._let_stream(extent)
        return False

    def _let_stream(self, extent: Extent) -> None:
        if extent.pinned:
            extent.pinned = False
            self._pinned -= extent.pages
        else:
            self._used.append(extent)
        extent.streamed = True
        for low, high in self._runs(extent.first, extent.last, IN, IN):
            for start in range(low, high, self._chunk):
                self._stream.append((extent, start, min(high, start + self._chunk)))

    # Moving -----------------------------------------------------------------------------------------------------
    def _bring(self, extent: Extent, low: int, high: int) -> bool:
        """Pages of an extent to the device. Returns whether others went for them."""
        coming = self._runs(low, high, IN, 0)
        count = sum(end - start for start, end in coming)
        if not count:
            return False
        going = self._make_room(count - (self._budget - self._present), extent)
        for other, runs in going:
            self._write_back(other, runs)
        self.space.remap(
            [self._span(other, *run) for other, runs in going for run in runs],
            [self._span(extent, *run) for run in coming],
        )
        for other, runs in going:
            self._gone(other, runs)
        fetched = 0
        for start, end in coming:
            for first, last in self._runs(start, end, STORED, STORED):
                self._copy(self.window.bytes, self.store.bytes, first, last)
                fetched += (last - first) * PAGE
            self._came(self._state[start:end])
        extent.present += count
        self._present += count
        self._there[extent.number] = extent
        self.migrations.bytes_in += fetched
        self.migrations.moves_in += fetched > 0
        self.migrations.peak_bytes = max(self.migrations.peak_bytes, self._present * PAGE)
        return bool(going)

    def _came(self, state: npt.NDArray[np.uint8]) -> None:
        """Pages of this state are on the device now."""
        state |= IN

    def _make_room(self, count: int, wanted: Extent) -> list[tuple[Extent, list[tuple[int, int]]]]:
        """Pages that go, at least `count` of them."""
        going: list[tuple[Extent, list[tuple[int, int]]]] = []
        gone: set[int] = set()
        while count > 0:
            free = [
                each
                for each in self._there.values()
                if not (each.pinned or each.streamed or each is wanted or each.number in gone)
            ]
            if free:
                residents = [Resident(e.number, e.present * PAGE, e.last_use, self._is_dirty(e)) for e in free]
                victim = self._there[self.policy.victim(wanted.number, residents, self.step)]
                runs = self._runs(victim.first, victim.last, IN, IN)
                gone.add(victim.number)
            elif self._stream:
                victim, low, high = self._stream.popleft()
                runs = self._runs(low, high, IN, IN)
            else:
                kept = [each for each in self._used if each.pinned and each is not wanted]
                self._let_stream(max(kept, key=lambda each: each.pages))
                continue
            if runs:
                going.append((victim, runs))
                count -= sum(end - start for start, end in runs)
        return going

    def _is_dirty(self, extent: Extent) -> bool:
        return bool((self._state[extent.first : extent.last] & DIRTY).any())

    def _write_back(self, extent: Extent, runs: Iterable[tuple[int, int]]) -> None:
        moved = 0
        for low, high in runs:
            for first, last in self._runs(low, high, DIRTY, DIRTY):
                self._copy(self.store.bytes, self.window.bytes, first, last)
                self._state[first:last] |= STORED
                moved += (last - first) * PAGE
        self.migrations.bytes_out += moved
        self.migrations.moves_out += moved > 0

    def _gone(self, extent: Extent, runs: Iterable[tuple[int, int]]) -> None:
        """Pages have lost their frames: their memory goes back to the system."""
        for low, high in runs:
            self._state[low:high] &= STORED
            self.window.hide(low, high)
            extent.present -= high - low
            self._present -= high - low
        if not extent.present:
            self._there.pop(extent.number, None)

    @staticmethod
    def _copy(to: npt.NDArray[np.uint8], source: npt.NDArray[np.uint8], first: int, last: int) -> None:
        low, high = first * PAGE, last * PAGE
        to[low:high] = source[low:high]

    def _runs(self, low: int, high: int, mask: int, value: int) -> list[tuple[int, int]]:
        """The runs of pages whose state has this value under the mask."""
        if high - low == 1:
            return [(low, high)] if self._state[low] & mask == value else []
        return runs_of(low, (self._state[low:high] & mask) == value)

    def _span(self, extent: Extent, low: int, high: int) -> Span:
        return Span(self.window.base + low * PAGE, (high - low) * PAGE, extent.writable)

    # Bytes, wherever they are -----------------------------------------------------------------------------------
    def views(self, address: int, size: int, write: bool) -> list[npt.NDArray[np.uint8]]:
        """The bytes from an address on, in order: on the device or in the store. Those that are to be written count as changed."""
        start = address - self.window.base
        first, last = start >> PAGE_SHIFT, (start + size - 1 >> PAGE_SHIFT) + 1
        if write:
            for extent in self.extents.overlapping(first, last):
                fits = not extent.present and extent.pages <= self._room
                if fits and not (self._state[extent.first : extent.last] & STORED).any():
                    self._bring(extent, extent.first, extent.last)  # it is as well there: nothing has to move
        there = (self._state[first:last] & IN) != 0
        if write:
            self._state[first:last] |= np.where(there, np.uint8(DIRTY), np.uint8(STORED))
        edges = [0, *(np.flatnonzero(there[1:] != there[:-1]) + 1).tolist(), last - first]
        views = []
        for low, high in itertools.pairwise(edges):
            memory = self.window.bytes if there[low] else self.store.bytes
            views.append(memory[max(start, (first + low) * PAGE) : min(start + size, (first + high) * PAGE)])
        return views

    def all_there(self, address: int, size: int) -> bool:
        start = address - self.window.base
        first, last = start >> PAGE_SHIFT, (start + size - 1 >> PAGE_SHIFT) + 1
        return self.complete or bool((self._state[first:last] & IN).all())
