"""The null device: accepts everything, computes nothing.

Owns the bookkeeping that the contract of `Context` asks for: allocations (disjoint, inside the window, within the quota), ranges of
copies, events' records. Reads answer zeros, kernels are only counted. For measuring the path to a device and for testing the
layers above it.

It knows no image's contents: any kernel name is a kernel, any variable name a variable of the largest size the tape can address.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from farlane.backend.device.allocations import Allocation, Allocations
from farlane.backend.device.base import NO_ACCESS, Context, CudaError, Description, Device, LaunchShape, Rows, Window
from farlane.backend.device.bulk import Numbers, first_stop, in_bulk
from farlane.backend.device.options import DeviceOptions
from farlane.backend.device.plan import Body, Columns, Kind, Results, Stop
from farlane.backend.device.specification import Specification, attributes
from farlane.backend.generated_errors import INVALID_RESOURCE_HANDLE, INVALID_VALUE, MEMORY_ALLOCATION
from farlane.backend.plane import Direct, Entry, Event, Stream

_DISABLE_TIMING = 2  # cudaEventDisableTiming

_ALIGNMENT = 256
_ALLOCATIONS = 1 << 22  # bounds what a session can make the host remember
_PIECE = 1 << 20
_ZEROS = memoryview(bytes(_PIECE))
# Session windows lie above every user address of today's machines, each in a slot of its own: [base, base + half) for
# allocations, the upper half for variables.
_FIRST_SLOT = 1 << 48
_SLOT = 1 << 46
_HALF = _SLOT // 2
_SLOTS = 1 << 14
_VARIABLE_BYTES = 1 << 32


class _Module:
    def __init__(self) -> None:
        self.variables: dict[str, int] = {}


class NullContext(Context):
    """One session's bookkeeping."""

    def __init__(self, base: int, quota: int) -> None:
        self.window = Window(base, _HALF)
        self.quota = quota
        self.closed = False
        self.live = Allocations()
        self.direct = Direct(self.live.ranges, backed=False)
        self._physical = 0  # bytes of physical allocations
        self._default_streams: dict[int, Stream] = {}
        self._next_variable = base + _HALF
        self._variables: dict[int, int] = {}  # address -> size
        self._bulk: tuple[Numbers, Numbers] | None = None  # starts and ends of the allocations, for repeat ...
        self._version = 0  # ... and which allocations they are of

    def close(self) -> None:
        self.closed = True
        self._clear()

    def reset(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.live.clear()
        self._physical = 0
        self._default_streams.clear()
        self._variables.clear()
        self._bulk = None

    @property
    def used_bytes(self) -> int:
        return self.live.bytes + self._physical

    @property
    def launches(self) -> int:
        """So far, by the plane and by Python."""
        return self.direct.launches

    @property
    def allocations(self) -> int:
        return len(self.live)

    # Memory -----------------------------------------------------------------------------------------------------

    def allocate(self, address: int, size: int) -> None:
        window = self.window
        if size <= 0 or address % _ALIGNMENT or not window.base <= address <= window.base + window.size - size:
            raise CudaError(INVALID_VALUE, f"an allocation of {size} bytes at {address:#x}")
        self._check_quota(size)
        if len(self.live) >= _ALLOCATIONS:
            raise CudaError(MEMORY_ALLOCATION, f"{_ALLOCATIONS} allocations are alive")
        self._check_free(address, size)
        self.live.add(Allocation(address, size))

    def free(self, address: int) -> None:
        if self.live.remove(address) is None:
            raise CudaError(INVALID_VALUE, f"no allocation starts at {address:#x}")

    def create_physical(self, size: int) -> int:
        """The null device's physical allocation is its size."""
        self._check_quota(size)
        self._physical += size
        return size

    def free_physical(self, memory: int) -> None:
        self._physical -= memory

    def map_physical(self, address: int, memory: int, offset: int, size: int) -> None:
        self._check_free(address, size)
        self.live.map_range(address, address + size, NO_ACCESS)

    def unmap_physical(self, address: int, size: int) -> None:
        self.live.unmap_range(address, address + size)

    def set_access(self, address: int, size: int, access: int) -> None:
        self.live.unmap_range(address, address + size)
        self.live.map_range(address, address + size, access)

    def _check_quota(self, size: int) -> None:
        used = self.live.bytes + self._physical
        if used + size > self.quota:
            raise CudaError(MEMORY_ALLOCATION, f"{size} bytes more than {used} exceed the quota of {self.quota}")

    def _check_free(self, address: int, size: int) -> None:
        clash = self.live.overlapping(address, address + size)
        if clash is not None:
            raise CudaError(INVALID_VALUE, f"{size} bytes at {address:#x} reach into the {clash}")

    def _check(self, rows: Rows) -> None:
        extent = (rows.height - 1) * rows.pitch + rows.width
        end = rows.address + extent
        found = self.live.holding(rows.address)
        if found is not None and found.access and end <= found.end:
            return
        if rows.address >= self.window.base + _HALF:
            start = rows.address - (rows.address - self.window.base) % _VARIABLE_BYTES
            if end <= start + self._variables.get(start, 0):
                return
        raise CudaError(INVALID_VALUE, f"{extent} bytes at {rows.address:#x} are not in one allocation")

    def set(self, rows: Rows, value: int, element: int, stream: Any) -> None:
        self._check(rows)

    def write(self, rows: Rows, data: memoryview, stream: Any) -> None:
        self._check(rows)

    def read(self, rows: Rows, stream: Any) -> Iterator[memoryview | bytes]:
        self._check(rows)
        return _zeros(rows.width * rows.height)

    def copy(self, destination: Rows, source: Rows, stream: Any) -> None:
        self._check(destination)
        self._check(source)

    # Modules ----------------------------------------------------------------------------------------------------

    def load_module(self, image: bytes) -> Any:
        return _Module()

    def unload_module(self, module: _Module) -> None:
        for address in module.variables.values():
            self._variables.pop(address, None)
            self.live.ranges.remove(address)

    def function(self, module: _Module, name: str) -> Any:
        return name

    def set_function_attribute(self, function: Any, attribute: int, value: int) -> None:
        pass

    def variable(self, module: _Module, name: str) -> tuple[int, int]:
        address = module.variables.get(name)
        if address is None:
            address = self._next_variable
            if address + _VARIABLE_BYTES > self.window.base + _SLOT:
                raise CudaError(MEMORY_ALLOCATION, "the null device has no address left for a variable")
            self._next_variable += _VARIABLE_BYTES
            module.variables[name] = address
            self._variables[address] = _VARIABLE_BYTES
            self.live.ranges.add(address, address + _VARIABLE_BYTES)
        return address, _VARIABLE_BYTES

    def launch(self, function: Any, shape: LaunchShape, parameters: memoryview, stream: Any) -> None:
        self.direct.launches += 1

    def launch_from(
        self, function: Any, shape: LaunchShape, message: memoryview, begin: int, end: int, stream: Any
    ) -> None:
        self.direct.launches += 1

    def lay_out(self, function: Any, shape: LaunchShape, size: int, stream: Any) -> Entry:
        return self.direct.counted()

    def repeat(self, body: Body, columns: Columns, results: Results) -> Stop | None:
        if not in_bulk(body):
            return None
        if self._bulk is None or self._version != self.live.version:
            self._version = self.live.version
            usable = [each for each in self.live if each.access]
            starts = np.array([each.start for each in usable], np.uint64)
            self._bulk = starts, np.array([each.end for each in usable], np.uint64)
        stop = first_stop(body, columns, self._inside)
        self._record(body, stop)
        return stop

    def _inside(self, address: Numbers, span: Numbers) -> npt.NDArray[np.bool_]:
        assert self._bulk is not None
        starts, ends = self._bulk
        good = np.zeros(len(address), np.bool_)
        if len(starts):
            index = np.searchsorted(starts, address, "right")
            at = np.maximum(index, 1) - 1
            good = (index > 0) & (address < ends[at]) & (span <= ends[at] - address)
        for start, size in self._variables.items():
            low, end = np.uint64(start), np.uint64(start + size)
            good |= (address >= low) & (address < end) & (span <= end - address)
        return good

    def _record(self, body: Body, stop: Stop) -> None:
        """Counts the launches that were done, and records the events."""
        for index, step in enumerate(body.steps):
            times = stop.iterations + (index < stop.step)
            if step.kind is Kind.LAUNCH:
                self.direct.launches += times
            elif step.kind is Kind.RECORD and times:
                step.event.record()

    # Streams and events -----------------------------------------------------------------------------------------

    def default_stream(self, number: int) -> Any:
        return self._default_streams.setdefault(number, Stream())

    def create_stream(self, flags: int, priority: int) -> Any:
        return Stream()

    def destroy_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, stream: Any, event: Event) -> None:
        pass

    def stream_done(self, stream: Any) -> bool:
        return True

    def create_event(self, flags: int) -> Any:
        return Event(timed=not flags & _DISABLE_TIMING)

    def destroy_event(self, event: Event) -> None:
        pass

    def record_event(self, event: Event, stream: Any, flags: int) -> None:
        event.record()

    def event_done(self, event: Event) -> bool:
        return True

    def elapsed_ms(self, start: Event, end: Event) -> float:
        began, ended = start.nanoseconds, end.nanoseconds
        if not (start.timed and end.timed) or began is None or ended is None:
            raise CudaError(INVALID_RESOURCE_HANDLE, "an event that was not recorded, or has no timing")
        return (ended - began) / 1e6

    def synchronize(self, stream: Any | None = None, event: Event | None = None) -> None:
        pass

    def set_limit(self, limit: int, value: int) -> None:
        pass


def _zeros(size: int) -> Iterator[memoryview]:
    for offset in range(0, size, _PIECE):
        yield _ZEROS[: min(_PIECE, size - offset)]


class NullDevice(Device):
    """A device of any number of sessions."""

    name = "null"

    def __init__(self, options: DeviceOptions | None = None) -> None:
        """No option changes what it does."""
        self._slots = itertools.count()

    def describe(self) -> Description:
        return Description(
            backend="null",
            name="Farlane Null Device",
            uuid=b"farlane-null-dev",
            compute_capability=Specification().compute_capability,
            total_memory=16 << 30,
            takes_ptx=True,
            takes_machine_code=True,
            has_mappings=True,
            takes_any_ptx=True,
            attributes=attributes(Specification()),
        )

    def open_context(self, quota: int) -> NullContext:
        return NullContext(_FIRST_SLOT + next(self._slots) % _SLOTS * _SLOT, quota)

    def close(self) -> None:
        pass
