"""The TLB hierarchy for real use: the interface of `ReferenceTlb`, compiled.

The first requests of a process load the compiled code (memory/native.py); the first of all on a machine compile it, which takes tens of seconds. `feed` releases the GIL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from farlane.backend.memory import native
from farlane.backend.memory.paging.table import PageTable
from farlane.backend.memory.tlb import arrays, counts, layout
from farlane.backend.memory.tlb.counts import Counts
from farlane.backend.memory.tlb.spec import Spec
from farlane.backend.memory.tlb.stream import Stream


class FastTlb:
    """One hierarchy over one page table. Contents stay from kernel to kernel; time begins anew with each. One thread at a time."""

    def __init__(self, spec: Spec, table: PageTable) -> None:
        self.spec = spec
        self._table = table
        self._state = arrays.empty(spec, table.words.view(np.int64), table.root, table.base)
        self._nothing = Stream.of(spec.cores, [], [])
        self._ready()

    def _ready(self) -> None:
        self._left = self._nothing
        self._started = False
        arrays.begin(self._state, self.spec)

    def load(self) -> None:
        """Has the compiled code, which the first request would otherwise wait for."""
        self._code()

    def feed(self, stream: Stream) -> None:
        """Takes more requests of the kernel, and goes as far as is certain without those to come."""
        if stream.cores != self.spec.cores:
            raise ValueError(f"a stream of {stream.cores} cores for {self.spec.cores}")
        self._run(stream, final=False)

    def finish(self) -> Counts:
        """Ends the kernel: runs to the last answer. The counts of the kernel."""
        self._run(self._nothing, final=True)
        found = Counts(*self._state.counts.tolist())
        self._ready()
        return found

    def run(self, stream: Stream) -> Counts:
        """A whole kernel."""
        self.feed(stream)
        return self.finish()

    def invalidate(self, pages: Iterable[int]) -> None:
        """Forgets translations, between kernels: after an unmap, or a change of rights."""
        gone = np.sort(np.fromiter(pages, dtype=np.int64))
        state = self._state
        state.walk_cache[0] = -1
        if not len(gone):
            return
        for pages_of in (state.private[:, layout.PAGE], state.shared[layout.PAGE]):
            pages_of[gone[np.searchsorted(gone[:-1], pages_of)] == pages_of] = -1
        if self.spec.sharing == "directory":
            self._enter(state._replace(pages=gone), layout.FORGET)

    def contents(self) -> list[list[list[tuple[int, int]]]]:
        """(page, frame) by use, for each set of each core; the last list is the shared TLB's."""
        private = [_by_use(core, self.spec.private.ways) for core in self._state.private]
        return [*private, _by_use(self._state.shared, self.spec.shared.ways)]

    def save(self) -> dict[str, Any]:
        """The state between two kernels, for JSON."""
        if self._started:
            raise ValueError("a kernel is running")
        return {name: getattr(self._state, name).tolist() for name in layout.CONTENTS}

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes a state that `save` gave, of a hierarchy of the same spec."""
        own = {name: getattr(self._state, name) for name in layout.CONTENTS}
        values = {name: np.array(saved[name], dtype=array.dtype) for name, array in own.items()}
        for name, array in own.items():
            if values[name].shape != array.shape:
                raise ValueError(f"{name} is of another hierarchy: {values[name].shape} instead of {array.shape}")
        for name, array in own.items():
            array[...] = values[name]
        self._ready()

    def _run(self, stream: Stream, final: bool) -> None:
        state, left = self._state, self._left
        if len(stream.page):  # otherwise cores go on where they are
            left = _join(left, state.cores[:, layout.C_NEXT], stream)
            state.cores[:, layout.C_NEXT] = 0
        now = state._replace(
            words=self._table.words.view(np.int64),
            offsets=left.offsets,
            pages=left.page,
            gaps=left.gap,
            left_out=left.left_out if left.left_out.any() else left.left_out[:0],
        )
        begin, self._started = not self._started, True
        if self._enter(now, layout.FINISH if final else layout.CONTINUE, begin):
            raise RuntimeError("more events than the model has room for")
        self._left = left

    def _enter(self, state: layout.State, what: int, begin: bool = False) -> int:
        for name, row, array in zip(state._fields, state.table, state, strict=True):
            if array.shape[-1] != layout.LAST.get(name, array.shape[-1]):
                raise TypeError(f"{name} of {array.shape}: compiled code takes rows of {layout.LAST[name]}")
            if array.dtype.itemsize != 8 or not array.flags.c_contiguous:
                raise TypeError(f"an array of {array.dtype} with strides {array.strides}")
            row[0], row[1 : 1 + array.ndim] = array.ctypes.data, array.shape
        return self._code()(state.table.ctypes.data, what, int(begin))

    def _code(self) -> native.Entry:
        return native.entry(f"{__package__}.compiled", layout.__name__, counts.__name__)


def _join(old: Stream, taken: layout.Array, new: Stream) -> Stream:
    """What is left of a stream, and another one behind it."""
    starts = old.offsets[:-1] + taken
    if not np.any(old.offsets[1:] - starts):
        return new
    mask = np.arange(len(old.page)) >= np.repeat(starts, np.diff(old.offsets))
    cores = np.concatenate([old.core_of()[mask], new.core_of()])
    order = np.argsort(cores, kind="stable")
    rest = old.offsets[1:] - starts
    offsets = np.concatenate([[0], np.cumsum(rest + np.diff(new.offsets))]).astype(np.int64)
    parts = [
        np.concatenate([getattr(old, name)[mask], getattr(new, name)])[order] for name in ("page", "gap", "left_out")
    ]
    return Stream(offsets, *parts)


def _by_use(entries: layout.Array, ways: int) -> list[list[tuple[int, int]]]:
    sets = []
    for first in range(0, entries.shape[1], ways):
        part = entries[:, first : first + ways]
        order = [
            slot for slot in np.argsort(part[layout.STAMP], kind="stable").tolist() if part[layout.PAGE, slot] >= 0
        ]
        sets.append([(int(part[layout.PAGE, slot]), int(part[layout.FRAME, slot])) for slot in order])
    return sets
