"""One session's device memory: allocations in a window, and the copies into, out of and within it.

Owns the rule that every byte a copy touches lies in one live allocation (CUDA: cudaErrorInvalidValue otherwise), the
quota, and zero as the content of new memory. New memory has no specified content in CUDA; zero keeps runs repeatable
and one allocation's content away from the next. Kernels do not come here: they test the window's page flags, so what
they may touch is rounded to pages of 4 KiB.

Which pages are there, and how bytes get to them, are methods of their own, which managed.py replaces for sessions that may allocate more than the
device memory they have. A space (space.py), which says where pages lie in physical memory, is kept where something reads it.

The window has two parts: the guest's, in which the guest mints addresses, and behind it the module area, in which the
host places the variables of modules.

Not thread-safe; one session's thread at a time. Large copies release the GIL.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from farlane.backend.device.allocations import Allocation, Allocations
from farlane.backend.device.base import MEMORY_PARTS, CudaError, MemoryMap
from farlane.backend.device.base import Window as AddressRange
from farlane.backend.device.sim.memory.content import Content
from farlane.backend.device.sim.memory.host_mappings import HostMappingTable
from farlane.backend.device.sim.memory.physical import Part as PhysicalPart
from farlane.backend.device.sim.memory.physical import PhysicalFile
from farlane.backend.device.sim.memory.space import Physical, Space
from farlane.backend.device.sim.memory.window import ALIGNMENT, PAGE, READABLE, WRITABLE, Window
from farlane.backend.generated_errors import INVALID_VALUE, MEMORY_ALLOCATION, NOT_SUPPORTED
from farlane.backend.jit.runtime.services import PageAnswer, Where
from farlane.backend.memory.paging import OutOfFrames
from farlane.backend.plane import Budget, Room
from farlane.backend.system.mappings import MappingError

if TYPE_CHECKING:
    from farlane.backend.plane import Refusal

GUEST_BYTES = 1 << 36
MODULE_BYTES = 1 << 34
RESERVABLE = 17  # times the device's memory: addresses that guests may reserve without memory behind them
MODULE_ALIGNMENT = 256


class Part(NamedTuple):
    """A variable's place in its module."""

    offset: int
    size: int
    label: str
    writable: bool = True  # by kernels; otherwise it shares no page with one that is


class Memory(Content):
    """The memory of one session."""

    #: Whether launches are to be announced (before_launch).
    attended = False
    #: Whether `expect` is of use.
    looks_ahead = False

    def __init__(
        self, quota: int, budget: Budget, physical: Physical | None = None, place: AddressRange | None = None
    ) -> None:
        """Reserves a window for sessions of this quota.

        Args:
            place: the guest's part of it, of a session that had it before.

        Raises:
            CudaError: 2, there is no address space for it.
        """
        self.quota = quota
        self._budget = budget
        self._physical = physical or Physical(budget.limit)
        # Twice the quota, so that fragments of the guest's address space do not end it before its memory does.
        guest = -(-max(GUEST_BYTES, 2 * quota) // ALIGNMENT) * ALIGNMENT
        reservable = -(-RESERVABLE * budget.limit // ALIGNMENT) * ALIGNMENT
        try:
            if place is not None:
                guest, reservable = place.size, 0
            size, file = guest + reservable + MODULE_BYTES, self._physical.file
            self.window = Window(size, None if place is None else place.base, file)
            guest += reservable
        except MappingError as refused:
            if place is not None:
                raise CudaError(
                    MEMORY_ALLOCATION, f"its addresses, from {place.base:#x} on, are taken here: {refused.strerror}"
                ) from None
            try:
                self.window = Window(guest + MODULE_BYTES, file=file)
            except MappingError as error:
                raise CudaError(
                    MEMORY_ALLOCATION, f"the host's process has no room for another session: {error.strerror}"
                ) from None
        self.guest = AddressRange(self.window.base, guest)
        self.allocations = Allocations()
        self.host_mappings = HostMappingTable(self.window)
        self.physical = PhysicalFile(self.window)
        self.room = Room(self.allocations.map, self.guest.base, guest, quota, budget=budget, pages=self.window.in_use)
        self._module_bytes = 0
        self._modules: dict[int, list[int]] = {}  # a module's base: where its parts start
        self.space: Space | None = None

    def open_space(self, page_bytes: int = PAGE) -> Space:
        """Where the pages lie from now on; those that are there already are placed in the order of their addresses. Raises CudaError."""
        if self.space is None:
            self.space = space = self._new_space(page_bytes)
            self.attended = True
            self.room.attend(True)
            for first, last, flags in self.window.runs():
                self._cover(space, first, last, flags)
        return self.space

    def _new_space(self, page_bytes: int, limit: int | None = None) -> Space:
        return Space(self._physical, (self.guest.base + self.guest.size, self.window.end), page_bytes, limit)

    @staticmethod
    def _cover(space: Space, first: int, last: int, flags: int) -> None:
        try:
            space.cover(first, last, bool(flags & WRITABLE))
        except OutOfFrames as error:
            raise CudaError(MEMORY_ALLOCATION, f"no physical memory: {error}") from None

    def close(self) -> None:
        """Gives the window back. What is tried later finds nothing allocated and no quota."""
        if self.space is not None:
            self.space.close()
            self.space = None
        self._budget.give(self.allocations.bytes + self.physical.bytes)
        self.room.set_quota(0)
        self.physical.close()
        self.host_mappings.end(self.window.base, self.window.end)
        self.allocations.clear()
        self.quota = 0
        self.window.close()

    def clear(self) -> None:
        """Ends every allocation, variables and physical memory included."""
        self._budget.give(self.physical.bytes)
        self.physical.clear(self.allocations)
        for allocation in list(self.allocations):
            self._release(allocation.start)
        self._modules.clear()
        self.room.reset()
        self._module_bytes = 0

    # Allocations ------------------------------------------------------------------------------------------------
    def allocate(self, address: int, size: int) -> None:
        """Backs an address that the guest minted."""
        self._check(self.room.allocate(address, size, self._hooks), Allocation(address, size))

    def free(self, address: int) -> Allocation:
        """Ends the guest's allocation that starts there, and says which it was."""
        ended = self._ending(address)
        self._check(self.room.free(address, self._hooks), ended)
        return ended

    def map_host(self, address: int, device: int, size: int) -> None:
        """Kernels find these whole pages of one allocation at another address, too, until it ends."""
        allocation = self.allocations.holding(device)
        if allocation is None or device + size > allocation.end or allocation.mapped:
            raise CudaError(
                INVALID_VALUE, f"a host mapping of {size} bytes at {device:#x}, {self.allocations.describe(device)}"
            )
        self.host_mappings.add(address, device, size)
        self.room.attend(True)  # they end before the allocation does
        self.allocations.map.changed()  # what kernels may touch is another

    def create_physical(self, size: int) -> PhysicalPart:
        """Memory that has no address yet. Raises CudaError 2; 801 where pages have places of their own (space.py)."""
        if self.attended:
            raise CudaError(
                NOT_SUPPORTED,
                "physical memory is not mapped where device memory is bounded",
            )
        refusal = self.room.take(size)
        if refusal is not None:
            raise self._refused(refusal, Allocation(0, size), f"a physical allocation of {size} bytes")
        try:
            return self.physical.create(size)
        except CudaError:
            self.room.give(size)
            raise

    def free_physical(self, part: PhysicalPart) -> None:
        self.room.give(part.size)
        self.physical.free(part)

    @property
    def _hooks(self) -> Memory | None:
        """Who maps pages: the window itself, where nothing is kept beside it."""
        return self if self.attended else None

    def _check(self, refusal: Refusal | None, allocation: Allocation) -> None:
        if refusal is not None:
            raise self._refused(refusal, allocation, str(allocation))

    def _refused(self, refusal: Refusal, allocation: Allocation, what: str) -> CudaError:
        start, end, size = allocation.start, allocation.end, allocation.size
        if refusal == "range":
            return CudaError(INVALID_VALUE, f"[{start:#x}, {end:#x}) is no range of the session's window")
        if refusal == "clash":
            return CudaError(INVALID_VALUE, f"{what} overlaps the live {self.allocations.overlapping(start, end)}")
        if refusal == "unknown":
            return self._unknown(start)
        if refusal == "quota":
            used = f"{self.room.used} of the session's {self.quota} are in use"
            return CudaError(MEMORY_ALLOCATION, f"{size} bytes asked for, {used}")
        used = f"the sessions of the device use {self._budget.used} of its {self._budget.limit} bytes"
        return CudaError(MEMORY_ALLOCATION, f"{what}: {used}")

    def _unknown(self, address: int) -> CudaError:
        where = self.allocations.describe(address)
        return CudaError(INVALID_VALUE, f"free of {address:#x}: no allocation starts there ({where})")

    def _ending(self, address: int) -> Allocation:
        """The allocation that starts there. Its host mappings end."""
        allocation = self.allocations.holding(address)
        if allocation is None or allocation.start != address or allocation.mapped:
            raise self._unknown(address)
        self.host_mappings.end(allocation.start, allocation.end)
        return allocation

    def allocate_module(self, size: int, parts: Sequence[Part], alignment: int = MODULE_ALIGNMENT) -> int:
        """Finds size bytes in the module area and backs these parts of them; returns their address."""
        wanted = sum(part.size for part in parts)
        if self._module_bytes + wanted > self.quota:
            raise CudaError(
                MEMORY_ALLOCATION,
                f"variables of {wanted} bytes; modules use {self._module_bytes} of the session's {self.quota} already",
            )
        place = self.guest.base + self.guest.size
        for allocation in self.allocations.since(place):
            if allocation.start - place >= size:
                break
            place = -(-allocation.end // alignment) * alignment
            if self.window.read_only(place):  # a constant's last page
                place = -(-place // max(alignment, PAGE)) * max(alignment, PAGE)
        if place + size > self.window.end:
            raise CudaError(MEMORY_ALLOCATION, f"no {size} bytes in a row are left for a module's variables")
        backed: list[int] = []
        try:
            for part in parts:
                self._back(Allocation(place + part.offset, part.size, part.label), part.writable)
                backed.append(place + part.offset)
        except CudaError:
            for address in backed:
                self._release(address)
            raise
        self._modules[place] = backed
        self._module_bytes += wanted
        return place

    def areas(self) -> dict[int, list[int]]:
        """What the host has placed: where each area's parts start, by its base."""
        return self._modules

    def restore_area(self, base: int, parts: Sequence[tuple[Allocation, bool]]) -> None:
        """Backs what another host had placed, at the same addresses. The flag: whether kernels may write there. Raises CudaError."""
        for allocation, writable in parts:
            if allocation.start < self.guest.base + self.guest.size or allocation.end > self.window.end:
                raise CudaError(INVALID_VALUE, f"{allocation} is not in the host's part of the window")
            self._back(allocation, writable)
        self._modules[base] = [allocation.start for allocation, _ in parts]
        self._module_bytes += sum(allocation.size for allocation, _ in parts)

    def require_area(self, base: int, parts: Sequence[Part]) -> int:
        """The area's base, where exactly these parts are there (`restore_area`). Raises CudaError."""
        found = sorted((start - base, self._size_at(start)) for start in self._modules.get(base, ()))
        if found != sorted((part.offset, part.size) for part in parts):
            raise CudaError(INVALID_VALUE, f"the variables of a module are not at {base:#x}")
        return base

    def _size_at(self, start: int) -> int:
        allocation = self.allocations.holding(start)
        return 0 if allocation is None else allocation.size

    def free_module(self, base: int) -> None:
        for address in self._modules.pop(base):
            self._module_bytes -= self._release(address).size

    def _back(self, allocation: Allocation, writable: bool = True) -> None:
        flags = READABLE | (WRITABLE if writable else 0)
        self._check(self.room.back(allocation, flags, self._hooks), allocation)

    def _release(self, address: int) -> Allocation:
        ended = self._ending(address)
        self._check(self.room.release(address, self._hooks), ended)
        return ended

    # Pages, as the room has them mapped where something is kept beside the window -----------------------------------
    def map_pages(self, first: int, last: int, flags: int, label: str) -> None:
        """Makes pages accessible, of which those at the edges may be already. Raises MappingError, CudaError."""
        if self.space is not None:
            self._cover(self.space, first, last, flags)
        self.window.map(first, last, flags)

    def unmap_pages(self, first: int, last: int) -> None:
        self.window.unmap(first, last)
        if self.space is not None:
            self.space.uncover(first, last, self.window.any)

    def zero(self, address: int, size: int) -> None:
        """Clears bytes of one allocation."""
        self.window.bytes[address - self.window.base : address + size - self.window.base] = 0

    # Launches ---------------------------------------------------------------------------------------------------
    def before_launch(self, parameters: memoryview, variables: Iterable[int], again: bool = False) -> bool:
        """A launch comes next, which refers to the variables at these addresses; or the rest of one (`again`). Whether several threads may run it."""
        if self.space is not None:
            self.space.run()
        return True

    def before_loop(self) -> bool:
        """Whether launches and copies may come that are not announced, and find everything where it is."""
        return True

    def fits(self, size: int) -> bool:
        """Whether, in such a loop, an allocation of this size leaves everything where it is."""
        return True

    def page_fault(self, address: int, size: int, write: bool, where: Where) -> PageAnswer:
        """What comes of a kernel's access to a page that is held."""
        return PageAnswer.ILLEGAL

    def expect(self, launches: Sequence[memoryview | bytes]) -> None:
        """The parameters of launches that will come."""

    def map(self) -> MemoryMap:
        """What is where now. From any thread."""
        space = self.space
        ranges = () if space is None else space.translations.table.ranges[:MEMORY_PARTS]
        return MemoryMap(
            [part[:3] for part in itertools.islice(self.allocations, MEMORY_PARTS)],
            [(each.start, each.physical, each.end - each.start) for each in ranges],
        )

    def report(self) -> dict[str, dict[str, int]]:
        """Counts for the report of the run, by section."""
        return {}
