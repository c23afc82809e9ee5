"""The device addresses of one session on a GPU: a reserved range, physical memory mapped behind it on demand.

Owns the reservation and the mappings, counted by who uses them; what an allocation is, is memory.py's. The guest mints addresses in the range, so
it must be where the host said it is. A reservation's address is a hint to CUDA, no more: what came back is compared, other bases are
tried, and in the end the base that the driver chose is taken, for the guest hears of it only afterwards. The reservation is the process's, not the
CUDA context's, and outlives a reset: the guest's addresses stay good.

Memory is mapped in granules (2 MiB on every GPU known). The whole granules inside one allocation are one mapping, its own; a granule that several
allocations share is a mapping by itself. What is freed stays mapped until `collect`: an unmapping must wait for all work that was issued
before it, and is a slow call, so it waits for a moment when the GPU is idle anyway. Until then the same addresses can be had
back for nothing, which is what a loop that allocates and frees does.

Physical memory that the guest itself maps (tape.md, "Physical memory") is the driver's, at the guest's addresses: the driver's calls, in the tape's order.

`Slab` is what is left where the driver cannot map: the whole window is one allocation made at the start.

One thread at a time.
Source: CUDA driver API, "Virtual Memory Management"; docs/explanation/systems.md, S2 points 1 and 4.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from farlane.backend.device.base import CudaError, Window
from farlane.backend.device.gpu.driver.interface import NOT_SUPPORTED, OUT_OF_MEMORY, Driver, DriverError

# Below: non-PIE programs and their heap. Above: PIE programs at 0x55..., libraries at 0x7f.... So that a device address is free in the guest, too.
FIRST_BASE = 0x2000_0000_0000
BASE_STEP = 1 << 42
BASES = 8
_SMALLEST = 1 << 36
_STEP = 2 << 20
RESERVABLE = 17  # times the GPU's memory: addresses that guests may reserve without memory behind them

log = logging.getLogger("farlane.gpu")


class Space(Protocol):
    """What memory.py needs of a range of addresses."""

    window: Window

    def back(self, start: int, end: int) -> None:
        """Makes [start, end) usable. Raises CudaError 2 and changes nothing when there is no memory."""

    def drop(self, start: int, end: int) -> None:
        """The range that was backed is no longer used; work that uses it may still run."""

    def create_physical(self, size: int) -> int:
        """Memory without an address. Raises CudaError 2, or 801 where the driver does not map."""

    def free_physical(self, memory: int) -> None: ...

    def map_physical(self, address: int, memory: int, offset: int, size: int) -> None: ...

    def unmap_physical(self, address: int, size: int) -> None: ...

    def set_access(self, address: int, size: int, access: int) -> None: ...

    @property
    def idle_bytes(self) -> int:
        """Bytes that `collect` would give back."""

    def collect(self) -> None:
        """Gives back what is not in use. Only when no work runs."""

    def clear(self) -> bool:
        """Drops everything and gives it back. Only when no work runs. False: a lost context holds some of it; once more after its end."""

    def close(self) -> None: ...

    def report(self) -> dict[str, int]: ...


@dataclass
class _Mapping:
    """Physical memory at [start, end)."""

    start: int
    end: int
    memory: int
    users: int = 1


def window_size(quota: int, granule: int, reservable: int = 0) -> int:
    """Twice the quota, so that fragments of the guest's address space do not end it before its memory does, and what guests may reserve."""
    return -(-(max(_SMALLEST, 2 * quota) + reservable) // granule) * granule


class Mapped:
    """A range reserved with the driver's virtual memory management."""

    def __init__(self, driver: Driver, gpu: int, quota: int, place: Window | None = None) -> None:
        """Reserves a window: at the place, or where there is room. Raises CudaError 2: there is none, or not there; DriverError: the
        driver has no virtual memory management."""
        self._driver = driver
        self._gpu = gpu
        self.granule = max(_STEP, driver.granularity(gpu))
        self.hints_refused = 0
        self.most_mapped = self._mapped = 0  # bytes
        reservable = RESERVABLE * driver.properties(gpu).total_memory
        sizes = window_size(quota, self.granule, reservable), window_size(quota, self.granule)
        self.window = self._reserve_first(sizes) if place is None else self._reserve_at(place, sizes)
        self._own: dict[int, _Mapping] = {}  # by its start: whole granules of one allocation
        self._shared: dict[int, _Mapping] = {}  # by granule: one granule
        self._idle: dict[int, _Mapping] = {}  # by its start: in no use
        self._stuck: list[_Mapping] = []  # what could not be unmapped: the context was lost
        self._physical: set[int] = set()  # memory that the guest has asked for ...
        self._mapped_by_guest: dict[int, int] = {}  # ... and where it has mapped it: address -> size
        self._accessible: set[int] = set()  # those of them that the GPU may access

    def _reserve_first(self, sizes: tuple[int, int]) -> Window:
        try:
            return Window(self._reserve(sizes[0]), sizes[0])
        except CudaError:
            return Window(self._reserve(sizes[1]), sizes[1])

    def _reserve_at(self, place: Window, sizes: tuple[int, int]) -> Window:
        """Raises CudaError 2."""
        if place.size not in sizes or place.base % self.granule or not 0 < place.base < 1 << 63:
            raise CudaError(OUT_OF_MEMORY, "its device addresses are those of a GPU with other memory")
        address = self._driver.reserve(place.size, self.granule, place.base)
        if address != place.base:
            self._driver.unreserve(address, place.size)
            raise CudaError(OUT_OF_MEMORY, f"its device addresses, from {place.base:#x} on, are in use at this host")
        return place

    def _reserve(self, size: int) -> int:
        for hint in range(FIRST_BASE, FIRST_BASE + BASES * BASE_STEP, BASE_STEP):
            try:
                address = self._driver.reserve(size, self.granule, hint)
            except DriverError as error:
                if error.code != OUT_OF_MEMORY:
                    raise
                address = 0
            if address == hint:
                return address
            self.hints_refused += 1
            if address:
                self._driver.unreserve(address, size)
        try:
            address = self._driver.reserve(size, self.granule, 0)
        except DriverError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            raise CudaError(OUT_OF_MEMORY, f"no {size} bytes of address space for another session") from None
        log.warning("a session's window is at %#x, where the driver put it: %d bases were refused", address, BASES)
        return address

    # Backing ----------------------------------------------------------------------------------------------------
    def _split(self, start: int, end: int) -> tuple[list[int], tuple[int, int]]:
        """The granules at the edges that others may share, and the range of whole ones between them."""
        low, high = -(-start // self.granule) * self.granule, end // self.granule * self.granule
        if low >= high:
            return list(range(start // self.granule * self.granule, end, self.granule)), (0, 0)
        edges = [low - self.granule] if low > start else []
        if high < end:
            edges.append(high)
        return edges, (low, high)

    def back(self, start: int, end: int) -> None:
        edges, (low, high) = self._split(start, end)
        done: list[int] = []
        try:
            for edge in edges:
                shared = self._shared.get(edge)
                if shared is None:
                    self._shared[edge] = self._fetch(edge, edge + self.granule)
                else:
                    shared.users += 1
                done.append(edge)
            if low < high:
                self._own[low] = self._fetch(low, high)
        except BaseException:
            for edge in done:
                self._leave(edge)
            raise

    def drop(self, start: int, end: int) -> None:
        edges, (low, high) = self._split(start, end)
        for edge in edges:
            self._leave(edge)
        if low < high:
            mapping = self._own.pop(low)
            self._idle[mapping.start] = mapping

    def _leave(self, edge: int) -> None:
        mapping = self._shared[edge]
        mapping.users -= 1
        if not mapping.users:
            self._idle[edge] = self._shared.pop(edge)

    def _fetch(self, start: int, end: int) -> _Mapping:
        """Memory behind [start, end), where no living mapping is: idle memory that lies right, or new."""
        idle = self._idle.get(start)
        if idle is not None and idle.end == end:
            del self._idle[start]
            idle.users = 1
            return idle
        self._evict(start, end)  # it lies askew, or is too much of it: rare, and worth waiting for the GPU
        try:
            return self._map(start, end)
        except DriverError as error:
            if error.code != OUT_OF_MEMORY or not self._idle:
                raise _no_memory(error, start, end) from None
        self._driver.synchronize()
        self.collect()
        try:
            return self._map(start, end)
        except DriverError as error:
            raise _no_memory(error, start, end) from None

    def _evict(self, start: int, end: int) -> None:
        """Gives back idle memory, if some of it is in the range."""
        if any(mapping.start < end and start < mapping.end for mapping in self._idle.values()):
            self._driver.synchronize()
            self.collect()

    # The guest's own mappings -----------------------------------------------------------------------------------
    def create_physical(self, size: int) -> int:
        """Raises CudaError 2."""
        try:
            memory = self._driver.create(size, self._gpu)
        except DriverError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            self._driver.synchronize()
            self.collect()
            try:
                memory = self._driver.create(size, self._gpu)
            except DriverError as again:
                raise _no_memory(again, 0, size) from None
        self._physical.add(memory)
        return memory

    def free_physical(self, memory: int) -> None:
        self._driver.destroy(memory)
        self._physical.discard(memory)

    def map_physical(self, address: int, memory: int, offset: int, size: int) -> None:
        self._evict(address, address + size)
        self._driver.map(address, size, memory, offset)
        self._mapped_by_guest[address] = size

    def unmap_physical(self, address: int, size: int) -> None:
        self._driver.synchronize()  # what was issued before it may still use the mapping
        self._driver.unmap(address, size)
        del self._mapped_by_guest[address]
        self._accessible.discard(address)

    def set_access(self, address: int, size: int, access: int) -> None:
        if address in self._accessible:
            self._driver.synchronize()  # as above
        self._driver.allow(address, size, self._gpu, access)
        self._accessible.add(address)

    def _map(self, start: int, end: int) -> _Mapping:
        driver, size = self._driver, end - start
        memory = driver.create(size, self._gpu)
        try:
            driver.map(start, size, memory)
            try:
                driver.allow(start, size, self._gpu)
            except BaseException:
                driver.unmap(start, size)
                raise
        except BaseException:
            driver.destroy(memory)
            raise
        self._mapped += size
        self.most_mapped = max(self.most_mapped, self._mapped)
        return _Mapping(start, end, memory)

    # Giving back ------------------------------------------------------------------------------------------------
    @property
    def mapped_bytes(self) -> int:
        return sum(mapping.end - mapping.start for mapping in self._mappings())

    @property
    def idle_bytes(self) -> int:
        return sum(mapping.end - mapping.start for mapping in self._idle.values())

    def _mappings(self) -> Iterator[_Mapping]:
        yield from self._own.values()
        yield from self._shared.values()
        yield from self._idle.values()
        yield from self._stuck

    def collect(self) -> None:
        while self._idle:
            self._unmap(self._idle.popitem()[1])

    def _unmap(self, mapping: _Mapping) -> None:
        self._driver.unmap(mapping.start, mapping.end - mapping.start)
        self._driver.destroy(mapping.memory)
        self._mapped -= mapping.end - mapping.start

    def clear(self) -> bool:
        mappings = list(self._mappings())
        self._own, self._shared, self._idle, self._stuck = {}, {}, {}, []
        for mapping in mappings:
            try:
                self._unmap(mapping)
            except DriverError as error:
                log.info("unmapping %#x: %s", mapping.start, error)
                self._stuck.append(mapping)
        try:
            for address, size in list(self._mapped_by_guest.items()):
                self._driver.unmap(address, size)
                del self._mapped_by_guest[address]
            self._accessible.clear()
            for memory in list(self._physical):
                self.free_physical(memory)
        except DriverError as error:
            log.info("ending the guest's mappings: %s", error)
        return not (self._stuck or self._mapped_by_guest or self._physical)

    def close(self) -> None:
        if not self.clear():
            log.warning("the window at %#x is given back by the end of the process", self.window.base)
            return
        try:
            self._driver.unreserve(self.window.base, self.window.size)
        except DriverError as error:
            log.info("giving the window at %#x back: %s", self.window.base, error)

    def report(self) -> dict[str, int]:
        return {"window_hints_refused": self.hints_refused, "mapped_bytes_at_most": self.most_mapped}


class Slab:
    """A window that is one plain allocation: where the driver has no virtual memory management."""

    def __init__(self, driver: Driver, quota: int) -> None:
        """Raises CudaError: 2, not even half of what is free can be had at once."""
        self._driver = driver
        free, _ = driver.memory_info()
        size = wanted = min(-(-quota * 17 // 16 // _STEP) * _STEP + _STEP, free & -_STEP)  # fragments take some of it
        while True:
            try:
                self.window = Window(driver.allocate(size), size)
                break
            except DriverError as error:
                if error.code != OUT_OF_MEMORY or size <= wanted // 2 or size <= 2 * _STEP:
                    raise CudaError(OUT_OF_MEMORY, f"no {size} bytes for a session: {error}") from None
                size = size * 7 // 8 & -_STEP
        self.quota = min(quota, size - _STEP)

    def back(self, start: int, end: int) -> None:
        pass

    def drop(self, start: int, end: int) -> None:
        pass

    def create_physical(self, size: int) -> int:
        raise CudaError(NOT_SUPPORTED, "this GPU's driver has no virtual memory management")

    def free_physical(self, memory: int) -> None:
        raise NotImplementedError

    def map_physical(self, address: int, memory: int, offset: int, size: int) -> None:
        raise NotImplementedError

    def unmap_physical(self, address: int, size: int) -> None:
        raise NotImplementedError

    def set_access(self, address: int, size: int, access: int) -> None:
        raise NotImplementedError

    @property
    def idle_bytes(self) -> int:
        return 0

    def collect(self) -> None:
        pass

    def clear(self) -> bool:
        return True

    def close(self) -> None:
        try:
            self._driver.free(self.window.base)
        except DriverError as error:
            log.info("giving the window at %#x back: %s", self.window.base, error)

    def report(self) -> dict[str, int]:
        return {"slab_bytes": self.window.size}


def _no_memory(error: DriverError, start: int, end: int) -> CudaError | DriverError:
    if error.code != OUT_OF_MEMORY:
        return error
    return CudaError(OUT_OF_MEMORY, f"the GPU has no memory left for {end - start} bytes at {start:#x}")
