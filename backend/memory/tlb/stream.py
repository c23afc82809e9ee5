"""What the model consumes: for each core, the pages its warps ask for, in order.

One request per distinct page and warp instruction is the exact reference. `compress` leaves out requests that must find their page in the private TLB
or on its way there; what that changes is measured, not assumed (benchmarks/memory/tlb.py).

A recorder of touches appends (core, page) pairs in any interleaving of the cores, as long as each core's own order is kept: `Stream.of` sorts by core.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

MAX_PAGE = 1 << 42
MAX_GAP = 1 << 30
Ints = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Stream:
    """Requests sorted by core: core c has those from offsets[c] to offsets[c + 1].

    `gap` is how many cycles after the core's previous request it wants to make this one, at least 1. `left_out` counts requests of this core between
    its predecessor and this one that were left out as certain hits.
    """

    offsets: Ints
    page: Ints
    gap: Ints
    left_out: Ints

    @staticmethod
    def of(cores: int, core: npt.ArrayLike, page: npt.ArrayLike, gap: npt.ArrayLike | int = 1) -> Stream:
        """From one row per request. Raises ValueError for what no hardware could ask."""
        who = np.asarray(core, dtype=np.int64)
        pages = np.asarray(page, dtype=np.int64)
        gaps = np.broadcast_to(np.asarray(gap, dtype=np.int64), pages.shape)
        if who.ndim != 1 or who.shape != pages.shape:
            raise ValueError(f"cores and pages differ in shape: {who.shape} and {pages.shape}")
        if who.size and not (who.min() >= 0 and who.max() < cores):
            raise ValueError(f"cores are 0 to {cores - 1}, not {who.min()} to {who.max()}")
        if pages.size and not (pages.min() >= 0 and pages.max() < MAX_PAGE):
            raise ValueError(f"page numbers are 0 to {MAX_PAGE - 1}")
        if gaps.size and not (gaps.min() >= 1 and gaps.max() <= MAX_GAP):
            raise ValueError(f"gaps are 1 to {MAX_GAP} cycles")
        order = np.argsort(who, kind="stable")
        offsets = np.zeros(cores + 1, dtype=np.int64)
        np.cumsum(np.bincount(who, minlength=cores), out=offsets[1:])
        return Stream(offsets, pages[order], gaps[order].copy(), np.zeros(len(pages), dtype=np.int64))

    @property
    def cores(self) -> int:
        """How many cores it has."""
        return len(self.offsets) - 1

    def __len__(self) -> int:
        return len(self.page)

    @property
    def requests(self) -> int:
        """Requests, those left out included."""
        return len(self.page) + int(self.left_out.sum())

    def core_of(self) -> Ints:
        """The core of each request."""
        return np.repeat(np.arange(self.cores, dtype=np.int64), np.diff(self.offsets))

    def slice(self, start: int, stop: int) -> Stream:
        """Requests `start` to `stop` of every core, as a stream."""
        begin = np.minimum(self.offsets[:-1] + start, self.offsets[1:])
        end = np.minimum(self.offsets[:-1] + stop, self.offsets[1:])
        keep = np.zeros(len(self.page) + 1, dtype=np.int64)
        np.add.at(keep, begin, 1)
        np.add.at(keep, end, -1)
        mask = np.cumsum(keep)[:-1] > 0
        offsets = np.concatenate([[0], np.cumsum(end - begin)]).astype(np.int64)
        return Stream(offsets, self.page[mask], self.gap[mask], self.left_out[mask])

    def compress(self) -> Stream:
        """Leaves out every request for the page that the same core asked for just before.

        Where every reply fills and the least recently used entry goes, the page is then in the private TLB or on its way there. Lost is that such a request
        may wait for the miss (it is counted as a hit) and takes a place among the waiting. Where fills are refused, or the most recently used entry
        goes, it need not be a hit at all, and the difference is larger.
        """
        if not len(self.page):
            return self
        first = np.ones(len(self.page), dtype=bool)
        first[1:] = self.page[1:] != self.page[:-1]
        first[self.offsets[:-1][np.diff(self.offsets) > 0]] = True
        # A core's trailing repeats have no successor that could carry them: the last of them stays.
        last = self.offsets[1:][np.diff(self.offsets) > 0] - 1
        first[last] = True
        kept = np.flatnonzero(first)
        group = np.cumsum(first) - first  # requests left out belong to the next one kept
        gaps = np.bincount(group, weights=self.gap, minlength=len(kept)).astype(np.int64)
        left = np.bincount(group, weights=~first + self.left_out, minlength=len(kept)).astype(np.int64)
        offsets = np.searchsorted(kept, self.offsets).astype(np.int64)
        return Stream(offsets, self.page[kept], gaps, left)
