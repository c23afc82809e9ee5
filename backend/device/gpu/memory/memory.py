"""One session's memory on a GPU: allocations in the window, copies into, out of and within it.

An allocation may be an array (textures.py): then no memory is mapped there, and copies of its bytes are copies of boxes (boxes.py). Owns the rule that every byte a copy touches lies in one live allocation or variable, the quota, and the way of bytes through pinned memory. Which memory is
mapped where is window.py's, which pinned memory is free staging.py's. Copies are issued and not waited for, but for reads.

One thread at a time.
Source: CUDA driver API, "Memory Management"; programming guide, "Asynchronous Concurrent Execution".
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import NamedTuple

from farlane.backend.device.allocations import Allocation, Allocations
from farlane.backend.device.base import NO_ACCESS, CudaError, Rows
from farlane.backend.device.gpu.driver.errors import called
from farlane.backend.device.gpu.driver.interface import LEGACY, OUT_OF_MEMORY, BoxEnd, Direction, Driver, SetWork
from farlane.backend.device.gpu.memory.boxes import Array, InArray, InMemory, Side, boxes
from farlane.backend.device.gpu.memory.staging import PIECE, Incoming
from farlane.backend.device.gpu.memory.window import Space
from farlane.backend.generated_errors import INVALID_VALUE
from farlane.backend.plane import Cuda, Ranges
from farlane.demangle import readable

_ELEMENTS = (1, 2, 4)


class Physical(NamedTuple):
    """Memory that the guest maps: the driver's handle."""

    memory: int
    size: int


class Memory:
    """Allocations and copies. Streams are the driver's handles here."""

    def __init__(
        self, driver: Driver, space: Space, quota: int, native: Cuda, incoming: Incoming, ranges: Ranges
    ) -> None:
        self._driver = driver
        self.space = space
        self.quota = quota
        self._native = native
        self._incoming = incoming
        self.allocations = Allocations(ranges)
        self.arrays: dict[int, Array] = {}  # by the start of their allocations
        self._used = 0

    def clear(self) -> None:
        """Ends every allocation. No work runs, and the arrays have ended."""
        self.allocations.clear()
        self.arrays.clear()
        self._used = 0
        self.space.clear()

    # Allocations ------------------------------------------------------------------------------------------------
    def allocate(self, address: int, size: int) -> None:
        end, window = address + size, self.space.window
        if size < 1 or address < window.base or end > window.base + window.size:
            raise CudaError(INVALID_VALUE, f"[{address:#x}, {end:#x}) is no range of the session's window")
        self._check_quota(size)
        self._check_free(address, size)
        self.space.back(address, end)
        self.allocations.add(Allocation(address, size))
        self._used += size

    def _check_quota(self, size: int) -> None:
        if self._used + size > self.quota:
            raise CudaError(
                OUT_OF_MEMORY, f"{size} bytes asked for, {self._used} of the session's {self.quota} are in use"
            )

    def _check_free(self, address: int, size: int) -> None:
        clash = self.allocations.overlapping(address, address + size)
        if clash is not None:
            raise CudaError(INVALID_VALUE, f"{size} bytes at {address:#x} overlap the live {clash}")

    def create_physical(self, size: int) -> Physical:
        self._check_quota(size)
        memory = self.space.create_physical(size)
        self._used += size
        return Physical(memory, size)

    def free_physical(self, physical: Physical) -> None:
        self._used -= physical.size
        self.space.free_physical(physical.memory)

    def map_physical(self, address: int, physical: Physical, offset: int, size: int) -> None:
        self._check_free(address, size)
        self.space.map_physical(address, physical.memory, offset, size)
        self.allocations.map_range(address, address + size, NO_ACCESS)

    def unmap_physical(self, address: int, size: int) -> None:
        self.allocations.unmap_range(address, address + size)
        self.space.unmap_physical(address, size)

    def set_access(self, address: int, size: int, access: int) -> None:
        self.space.set_access(address, size, access)
        self.allocations.unmap_range(address, address + size)
        self.allocations.map_range(address, address + size, access)

    def free(self, address: int) -> None:
        window = self.space.window
        if not window.base <= address < window.base + window.size:
            raise CudaError(INVALID_VALUE, f"free of {address:#x}, which is outside the session's window")
        allocation = self.allocations.remove(address)
        if allocation is None:
            raise CudaError(
                INVALID_VALUE,
                f"free of {address:#x}: no allocation starts there ({self.allocations.describe(address)})",
            )
        self._used -= allocation.size
        array = self.arrays.pop(address, None)
        if array is None:
            self._native.freed(allocation.start, allocation.end)
            self.space.drop(allocation.start, allocation.end)
        else:
            self._driver.synchronize()  # as cudaFreeArray waits for what uses it
            self._driver.destroy_array(array.handle)

    def become_array(self, array: Array) -> None:
        """The allocation at the array's address, whose bytes it has by now, needs no memory any more."""
        allocation = self.allocations.holding(array.address)
        assert allocation is not None
        self.arrays[array.address] = array
        self.allocations.ranges.remove(array.address)  # its bytes are not the plane's to copy
        self.space.drop(allocation.start, allocation.end)

    def array_at(self, address: int) -> Array | None:
        if not self.arrays:
            return None
        allocation = self.allocations.holding(address)
        return None if allocation is None else self.arrays.get(allocation.start)

    def _side(self, rows: Rows) -> Side:
        array = self.array_at(rows.address)
        return InMemory(rows) if array is None else InArray(array, rows)

    def add_variable(self, name: str, address: int, size: int) -> None:
        """A variable that the driver placed: copies may touch it from now on."""
        self.allocations.add(Allocation(address, size, f"variable {readable(name)}"))

    def remove_variable(self, address: int) -> None:
        self.allocations.remove(address)

    # Copies -----------------------------------------------------------------------------------------------------
    def set(self, rows: Rows, value: int, element: int, stream: int) -> None:
        if element not in _ELEMENTS or rows.width % element or rows.address % element or rows.pitch % element:
            raise CudaError(INVALID_VALUE, f"memset of {rows} in elements of {element} bytes")
        if self.allocations.require(rows, "memset"):
            if self.array_at(rows.address) is not None:
                raise CudaError(INVALID_VALUE, f"memset of {rows}, which is an array")
            self._driver.set(set_work(rows, value, element), stream)

    def write(self, rows: Rows, data: memoryview, stream: int) -> None:
        """Copies packed rows from the guest: into pinned memory at once, on from there when the stream comes to it."""
        if data.nbytes != rows.width * rows.height:
            raise CudaError(INVALID_VALUE, f"{data.nbytes} bytes for {rows.height} rows of {rows.width}")
        if not self.allocations.require(rows, "copy to the device"):
            return
        data = data.cast("B")
        if self.arrays and self.array_at(rows.address) is not None:
            self._write_boxes(rows, data, stream)
            return
        self.put(rows, data, stream)

    def put(self, rows: Rows, data: memoryview, stream: int) -> None:
        """Packed bytes to memory that is mapped."""
        for part in pieces(rows):
            size = part.width * part.height
            place = self._staged(data[:size], stream)
            data = data[size:]
            if part.height == 1:
                self._driver.copy(part.address, place, size, Direction.TO_DEVICE, stream)
            else:
                self._driver.copy_rows(
                    part.address, part.pitch, place, part.width, part.width, part.height, Direction.TO_DEVICE, stream
                )

    def _staged(self, data: memoryview, stream: int) -> int:
        return called(self._driver, self._native.put, data, stream)

    def _write_boxes(self, rows: Rows, data: memoryview, stream: int) -> None:
        for box in boxes(self._side(rows), InMemory(rows), PIECE):
            size = box.width * box.height
            place = self._staged(data[:size], stream)
            data = data[size:]
            source = BoxEnd(address=place, pitch=box.width, host=True)
            self._driver.copy_box(box.work(source=source), stream)

    def read(self, rows: Rows, stream: int) -> Iterator[memoryview]:
        """Packed rows for the guest. A piece is pinned memory, and valid until the next call to this session."""
        if not self.allocations.require(rows, "copy from the device"):
            return iter(())
        if self.arrays and self.array_at(rows.address) is not None:
            return self._incoming.read(list(boxes(InMemory(rows), self._side(rows), PIECE)), stream)
        return self._incoming.read(list(pieces(rows)), stream)

    def fetch(self, address: int, size: int) -> bytes:
        """What memory that is mapped contains."""
        return b"".join(map(bytes, self._incoming.read(list(pieces(Rows(address, size, size, 1))), LEGACY)))

    def copy(self, destination: Rows, source: Rows, stream: int) -> None:
        if (destination.width, destination.height) != (source.width, source.height):
            raise CudaError(INVALID_VALUE, f"copy between unlike shapes: {source} to {destination}")
        if not self.allocations.require(destination, "copy's destination") or not self.allocations.require(
            source, "copy's source"
        ):
            return
        if self.arrays and (self.array_at(destination.address) or self.array_at(source.address)):
            for box in boxes(self._side(destination), self._side(source)):
                self._driver.copy_box(box.work(), stream)
        elif destination.contiguous and source.contiguous:
            size = source.width * source.height
            self._driver.copy(destination.address, source.address, size, Direction.WITHIN, stream)
        else:
            self._driver.copy_rows(
                destination.address,
                destination.pitch,
                source.address,
                source.pitch,
                source.width,
                source.height,
                Direction.WITHIN,
                stream,
            )


def set_work(rows: Rows, value: int, element: int) -> SetWork:
    value &= (1 << 8 * element) - 1
    if rows.contiguous:
        return SetWork(rows.address, 0, value, element, rows.width * rows.height // element, 1)
    return SetWork(rows.address, rows.pitch, value, element, rows.width // element, rows.height)


def pieces(rows: Rows) -> Iterator[Rows]:
    """The rows in parts of at most PIECE bytes: plain ranges, or several whole rows."""
    if rows.contiguous:
        size = rows.width * rows.height
        for at in range(0, size, PIECE):
            width = min(PIECE, size - at)
            yield Rows(rows.address + at, width, width, 1)
    elif rows.width > PIECE // 2:
        for row in range(rows.height):
            yield from pieces(Rows(rows.address + row * rows.pitch, rows.width, rows.width, 1))
    else:
        step = PIECE // rows.width
        for row in range(0, rows.height, step):
            yield Rows(rows.address + row * rows.pitch, rows.pitch, rows.width, min(step, rows.height - row))


def view_of(address: int, size: int) -> memoryview:
    """Host memory as bytes."""
    return memoryview((ctypes.c_uint8 * size).from_address(address)).cast("B")
