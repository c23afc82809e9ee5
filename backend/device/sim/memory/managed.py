"""The memory of a session that may allocate more than the device memory it has.

Owns how allocations, copies and launches meet the residency: new pages are extents, copies go to wherever the bytes are, a launch brings in what its arguments point to.
Memory is otherwise as memory.py has it, quota and checks included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt
from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.sim.memory.content import PIECE
from farlane.backend.device.sim.memory.extents import Extent
from farlane.backend.device.sim.memory.memory import Memory
from farlane.backend.device.sim.memory.residency import Residency
from farlane.backend.device.sim.memory.shared_residency import SharedResidency
from farlane.backend.device.sim.memory.space import Physical, Space
from farlane.backend.device.sim.memory.window import HELD, PAGE, PAGE_SHIFT, WRITABLE
from farlane.backend.device.sim.options import Oversubscription
from farlane.backend.generated_errors import MEMORY_ALLOCATION, NOT_SUPPORTED
from farlane.backend.jit.runtime.services import PageAnswer, Where
from farlane.backend.memory.paging import PAGE_2M, OutOfFrames
from farlane.backend.memory.planner.trace import Access
from farlane.backend.memory.replacement import DEFAULT, POLICIES, Future
from farlane.backend.plane import Budget

_WORD = np.dtype("<u8")


class ManagedMemory(Memory):
    """See the module."""

    attended = True
    space: Space

    def __init__(self, quota: int, budget: Budget, physical: Physical, options: Oversubscription) -> None:
        super().__init__(quota, budget, physical)
        self.room.attend(True)
        memory = options.shared or options.memory or -(-quota // PAGE_2M) * PAGE_2M
        self.window.huge = False  # a page that goes gives its memory back at once
        try:
            self.space = self._new_space(PAGE, options.memory)  # without a bound, as much as it turns out to need
        except OutOfFrames as error:
            self.window.close()
            raise CudaError(
                MEMORY_ALLOCATION, f"no room for a session with {memory} bytes of device memory: {error}"
            ) from None
        kind = Residency if options.shared is None else SharedResidency
        self.residency = kind(self.window, self.space, memory, POLICIES[options.policy or DEFAULT]())
        self.looks_ahead = self.residency.policy.looks_ahead

    def open_space(self, page_bytes: int = PAGE) -> Space:
        if page_bytes != PAGE:
            raise CudaError(
                MEMORY_ALLOCATION, f"pages of {page_bytes} bytes in a session whose memory is reused by pages of {PAGE}"
            )
        return self.space

    def report(self) -> dict[str, dict[str, int]]:
        residency = self.residency
        return {f"memory ({residency.policy.name})": {"device_bytes": residency.memory, **asdict(residency.migrations)}}

    # Pages ------------------------------------------------------------------------------------------------------
    def map_pages(self, first: int, last: int, flags: int, label: str) -> None:
        while first < last and self.window.any(first, first + PAGE):
            first += PAGE
        while first < last and self.window.any(last - PAGE, last):
            last -= PAGE
        if first < last:
            self.window.map(first, last, HELD)
            try:
                self.residency.add(self._page(first), self._page(last), label, bool(flags & WRITABLE))
            except OutOfFrames as error:
                self.unmap_pages(first, last)
                raise CudaError(MEMORY_ALLOCATION, f"no physical memory: {error}") from None

    def unmap_pages(self, first: int, last: int) -> None:
        self.residency.remove(self._page(first), self._page(last))
        self.window.unmap(first, last)

    def map_host(self, address: int, device: int, size: int) -> None:
        raise CudaError(
            NOT_SUPPORTED,
            "kernels do not reach registered memory by the program's address where device memory is reused",
        )

    def _page(self, address: int) -> int:
        return (address - self.window.base) >> PAGE_SHIFT

    # Launches ---------------------------------------------------------------------------------------------------
    def page_fault(self, address: int, size: int, write: bool, where: Where) -> PageAnswer:
        return self.residency.fault(address, size, write, where)

    def before_launch(self, parameters: memoryview, variables: Iterable[int], again: bool = False) -> bool:
        self.space.run()
        self.residency.begin(self._pointed_to(parameters, variables), again)
        return self.residency.complete

    def before_loop(self) -> bool:
        return self.residency.begin_untracked()

    def fits(self, size: int) -> bool:
        return self.residency.fits(size)

    def expect(self, launches: Sequence[memoryview | bytes]) -> None:
        """The parameters of the launches to come."""
        steps: list[list[Access]] = []
        sizes: dict[int, int] = {}
        for parameters in launches:
            step = self._pointed_to(memoryview(parameters), ())
            steps.append([Access(extent.number, True, extent.written) for extent in step])
            sizes.update((extent.number, extent.size) for extent in step)
        residency = self.residency
        residency.policy.expect(Future(residency.step + 1, steps, sizes, residency.memory))

    def _pointed_to(self, parameters: memoryview, variables: Iterable[int]) -> list[Extent]:
        """The extents of the allocations that a launch is given."""
        words = np.frombuffer(parameters[: len(parameters) & -8], _WORD)
        base, end = self.window.base, self.window.end
        pointers = words[(words >= base) & (words < end)].tolist()
        found: dict[int, Extent] = {}
        for address in (*pointers, *variables):
            allocation = self.allocations.holding(address)
            if allocation is not None:
                last = self._page(allocation.end - 1) + 1
                for extent in self.residency.extents.overlapping(self._page(allocation.start), last):
                    found[extent.number] = extent
        return list(found.values())

    # Copies -----------------------------------------------------------------------------------------------------
    def zero(self, address: int, size: int) -> None:
        for view in self.residency.views(address, size, True):
            view.fill(0)

    def set(self, rows: Rows, value: int, element: int) -> None:
        if (
            self._direct(rows, True)
            or not element
            or rows.width % element
            or rows.address % element
            or rows.pitch % element
        ):
            super().set(rows, value, element)
        elif self.allocations.require(rows, "memset"):
            low = (value & ((1 << 8 * element) - 1)).to_bytes(element, "little")
            pattern = np.frombuffer(low, np.dtype(f"<u{element}"))[0]
            for view in self._all_views(rows, True):
                view.view(np.dtype(f"<u{element}")).fill(pattern)

    def write(self, rows: Rows, data: memoryview) -> None:
        if self._direct(rows, True) or data.nbytes != rows.width * rows.height:
            super().write(rows, data)
        elif self.allocations.require(rows, "copy to the device"):
            source = np.frombuffer(data, np.uint8)
            done = 0
            for view in self._all_views(rows, True):
                view[:] = source[done : done + len(view)]
                done += len(view)

    def read(self, rows: Rows) -> Iterator[memoryview]:
        if self._direct(rows, False):
            return super().read(rows)
        if self.allocations.require(rows, "copy from the device"):
            return self._pieces_of(rows)
        return iter(())

    def copy(self, destination: Rows, source: Rows) -> None:
        # Both, for each makes room or counts as changed by itself.
        direct = self._direct(destination, True)
        if (self._direct(source, False) and direct) or (destination.width, destination.height) != (
            source.width,
            source.height,
        ):
            super().copy(destination, source)
        elif self.allocations.require(destination, "copy's destination") and self.allocations.require(
            source, "copy's source"
        ):
            for row in range(source.height):  # overlapping rows: as CUDA leaves it open, row by row
                packed = np.concatenate(self._views(source, row, False))
                done = 0
                for view in self._views(destination, row, True):
                    view[:] = packed[done : done + len(view)]
                    done += len(view)

    def _direct(self, rows: Rows, write: bool) -> bool:
        """Whether the rows can be used where they are in the window: they are there, or no rows at all (which is for the caller to find)."""
        if rows.width <= 0 or rows.height <= 0 or rows.pitch < 0:
            return True
        span = (rows.height - 1) * rows.pitch + rows.width
        allocation = self.allocations.holding(rows.address)
        if allocation is None or rows.address + span > allocation.end:
            return True
        if not self.residency.all_there(rows.address, span):
            return False
        if write:
            self.residency.views(rows.address, span, True)
        return True

    def _views(self, rows: Rows, row: int, write: bool) -> list[npt.NDArray[np.uint8]]:
        return self.residency.views(rows.address + row * rows.pitch, rows.width, write)

    def _all_views(self, rows: Rows, write: bool) -> Iterator[npt.NDArray[np.uint8]]:
        for row in range(rows.height):
            yield from self._views(rows, row, write)

    def _pieces_of(self, rows: Rows) -> Iterator[memoryview]:
        for view in self._all_views(rows, False):
            for start in range(0, len(view), PIECE):
                yield view[start : start + PIECE].data

    def extents_of(self, rows: Rows) -> Iterator[tuple[Extent, bool]]:
        """The extents that the rows lie in, and whether the rows are all of each."""
        if rows.width <= 0 or rows.height <= 0:
            return
        span = (rows.height - 1) * rows.pitch + rows.width
        whole = rows.width == rows.pitch or rows.height == 1
        first, last = self._page(rows.address), self._page(rows.address + span - 1) + 1
        for extent in self.residency.extents.overlapping(first, last):
            yield extent, whole and first <= extent.first and extent.last <= last
