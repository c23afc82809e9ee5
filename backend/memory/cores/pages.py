"""A page table for requests that come without one (a trace file): pages are mapped when they are first asked for.

Frames come in a fixed order, so the same requests make the same table. Not thread-safe: one owner.
"""

from __future__ import annotations

from collections.abc import Iterable

from farlane.backend.memory.config import Config
from farlane.backend.memory.paging import Frames, OutOfFrames, PageTable
from farlane.backend.memory.paging.frames import Order


class Pages:
    """Pages of one size."""

    def __init__(self, page_bytes: int, memory_bytes: int, order: Order, table_bytes: int) -> None:
        self.page_bytes = page_bytes
        self._frames = Frames(memory_bytes, order=order)
        self.table = PageTable(limit_bytes=table_bytes)
        self._mapped: set[int] = set()

    @staticmethod
    def of(config: Config) -> Pages:
        """As a configuration says."""
        paging = config.paging
        return Pages(config.tlb.page_bytes, paging.memory_mib << 20, paging.frame_order, paging.table_mib << 20)

    def __len__(self) -> int:
        return len(self._mapped)

    def need(self, pages: Iterable[int]) -> None:
        """Maps those that are not. Raises OutOfFrames when the configured memory is too small."""
        new = [page for page in pages if page not in self._mapped]
        try:
            frames = self._frames.allocate(self.page_bytes, len(new))
        except OutOfFrames as error:
            raise OutOfFrames(f"{error}; paging.memory_mib bounds what a model can hold") from None
        for page, frame in zip(new, frames, strict=True):
            self.table.map(page * self.page_bytes, [frame], self.page_bytes)
        self._mapped.update(new)

    def gone(self, first: int, last: int) -> list[int]:
        """Unmaps the pages from `first` to before `last`, and answers which had been mapped."""
        if last - first > len(self._mapped):
            found = sorted(page for page in self._mapped if first <= page < last)
        else:
            found = [page for page in range(first, last) if page in self._mapped]
        for page in found:
            self._frames.free(self.table.unmap(page * self.page_bytes, self.page_bytes))
        self._mapped.difference_update(found)
        return found
