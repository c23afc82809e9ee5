"""The double itself. Its public methods are the interface's; each is recorded, and may be told to fail."""

from __future__ import annotations

import bisect
import ctypes
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from farlane.backend.device.base import LEGACY_STREAM, READ_WRITE, CudaError, LaunchShape, Rows
from farlane.backend.device.gpu.interface import (
    CopyWork,
    Direction,
    DriverError,
    FunctionAttribute,
    KernelWork,
    Parameter,
    Properties,
    SetWork,
)
from farlane.backend.device.sim import SimDevice
from farlane.backend.device.specification import Specification, attributes
from farlane.backend.fatbin import choose_all
from farlane.backend.fatbin.joined import join

from gpu_double.layout import layout_of
from gpu_double.textures import Textures
from gpu_double.timeline import Event, Stream, Timeline

GRANULE = 2 << 20
MEMORY = 1 << 36
CAPABILITY = (9, 0)


class DoubleDriver(Textures):
    """See the package.

    Args:
        maps: it has virtual memory management.
        tells_layout: it knows cuFuncGetParamInfo.
        memory: bytes of the GPU.
        hints: it honours hints of addresses that it has.
    """

    def __init__(
        self, *, maps: bool = True, tells_layout: bool = True, memory: int = 16 << 30, hints: bool = True, gpus: int = 1
    ) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.counts: Counter[str] = Counter()
        self.failures: dict[str, list[int]] = {}
        self.lost = 0
        self._said = [b"", b""]
        self.is_farlane = False
        self._life, self._current = 1, threading.local()  # of the context; and the one that is a thread's
        self._maps, self._tells_layout, self._memory, self._hints, self._gpus = maps, tells_layout, memory, hints, gpus
        self._attributes = attributes(Specification(multiprocessors=4, compute_capability=CAPABILITY))
        # A window is many times the memory, and all windows of a process share its addresses.
        self._sim = SimDevice(threads=1, total_memory=MEMORY)
        self._gpu = self._sim.open_context(MEMORY)
        self._base, self._end = self._gpu.window.base, self._gpu.window.base + self._gpu.window.size
        self._numbers = itertools.count(1000)
        self._retained = 0
        # Address ranges and what is mapped there are the process's, not the context's.
        self._ranges: list[tuple[int, int]] = []  # reserved
        self._physical: dict[int, tuple[int, Any]] = {}  # size, the simulated device's memory
        self._mapped: dict[int, tuple[int, int, bool]] = {}  # by start: end, memory, allowed
        self._starts: list[int] = []
        self._clear()

    def _clear(self) -> None:
        self._timeline = Timeline()
        self._plain: dict[int, int] = {}
        self._pinned: dict[int, Any] = {}
        self._modules: dict[int, tuple[Any, str]] = {}
        self._functions: dict[int, tuple[Any, str, list[tuple[int, int]], int]] = {}
        self._events: dict[int, Event] = {}
        self._graphs: dict[int, list[Any]] = {}
        self._executables: dict[int, list[Any]] = {}
        self._rigid: set[int] = set()  # nodes that cannot be changed
        self._variables: list[tuple[int, int]] = []
        self._forget_textures()

    # For tests --------------------------------------------------------------------------------------------------
    def fail(self, name: str, *codes: int) -> None:
        """The next calls of that name end with these codes; 0 lets one pass."""
        self.failures.setdefault(name, []).extend(codes)

    def left(self) -> dict[str, int]:
        """What has not been given back."""
        things = {
            "windows": self._ranges, "memory": self._physical, "mappings": self._mapped, "allocations": self._plain,
            "pinned": self._pinned, "modules": self._modules, "events": self._events, "graphs": self._graphs,
            "executables": self._executables, "arrays": self._arrays, "textures": self._textures,
            "surfaces": self._surfaces, "streams": list(self._timeline.streams)[1:],
        }  # fmt: skip
        counts = {name: len(each) for name, each in things.items() if each}
        return counts | ({"contexts": self._retained} if self._retained else {})

    def printed(self) -> bytes:
        """What kernels have printed: CUDA's driver writes it to the process's standard output."""
        return self._say(0)

    def complained(self) -> bytes:
        """What failed assertions have said: CUDA's driver writes it to standard error."""
        return self._say(1)

    def _say(self, where: int) -> bytes:
        for index, text in enumerate(self._gpu.take_output()):
            self._said[index] += text
        said, self._said[where] = self._said[where], b""
        return said

    def close(self) -> None:
        self._sim.close()

    def entered(self) -> bool:
        """Whether this thread has made the context current, as long as it lives."""
        return getattr(self._current, "life", 0) == self._life

    # GPUs and contexts ------------------------------------------------------------------------------------------
    def version(self) -> int:
        return 13000

    def count(self) -> int:
        return self._gpus

    def properties(self, gpu: int) -> Properties:
        return Properties("Double of a GPU", bytes(range(16)), self._memory, "0000:01:00.0")

    def attribute(self, gpu: int, attribute: int) -> int:
        if attribute == 102:
            return int(self._maps)
        if attribute not in self._attributes:
            raise DriverError(1, "attribute")
        return self._attributes[attribute]

    def retain(self, gpu: int) -> int:
        self._retained += 1
        return 77 + gpu

    def release(self, gpu: int) -> None:
        self._retained -= 1
        if not self._retained:
            self._life += 1  # the last release ends it

    def reset(self, gpu: int) -> None:
        for address in self._plain:
            self._gpu.free(address)
        for module, _ in self._modules.values():
            self._gpu.unload_module(module)
        self._end_textures()
        self._clear()
        self.lost = 0
        self._life += 1

    def set_current(self, context: int) -> None:
        assert context >= 77
        assert self._retained, "a context that nobody retains"
        self._current.life = self._life

    def synchronize(self) -> None:
        self._run(self._timeline.complete_all)

    def _run(self, call: Callable[[], Any]) -> Any:
        """Anything that lets work run may be told of its fault."""
        try:
            return call()
        except CudaError as error:
            if error.sticky:
                self.lost = error.code
            raise DriverError(error.code, "work issued before", error.message) from None

    def memory_info(self) -> tuple[int, int]:
        return self._left, self._memory

    @property
    def _left(self) -> int:
        return self._memory - sum(size for size, _ in self._physical.values()) - sum(self._plain.values())

    def set_limit(self, limit: int, value: int) -> None:
        self._gpu.set_limit(limit, value)

    # Virtual memory ---------------------------------------------------------------------------------------------
    def _needs_vmm(self) -> None:
        if not self._maps:
            raise DriverError(801, "virtual memory management")

    def granularity(self, gpu: int) -> int:
        self._needs_vmm()
        return GRANULE

    def _free_range(self, start: int, end: int) -> bool:
        return (
            self._base <= start and end <= self._end and all(end <= low or high <= start for low, high in self._ranges)
        )

    def reserve(self, size: int, alignment: int, hint: int) -> int:
        self._needs_vmm()
        assert size % GRANULE == 0
        assert alignment % GRANULE == 0
        places = [hint] if hint and self._hints else []
        places += [-(-place // alignment) * alignment for place in (self._base, *(end for _, end in self._ranges))]
        for place in places:
            if self._free_range(place, place + size):
                bisect.insort(self._ranges, (place, place + size))
                return place
        raise DriverError(2, "reserve")

    def unreserve(self, address: int, size: int) -> None:
        assert not any(address <= start < address + size for start in self._mapped), "it is still mapped"
        self._ranges.remove((address, address + size))

    def create(self, size: int, gpu: int) -> int:
        if size % GRANULE or size > self._left:
            raise DriverError(2, "create")
        number = next(self._numbers)
        self._physical[number] = size, self._gpu.create_physical(size)
        return number

    def destroy(self, memory: int) -> None:
        assert all(memory != each for _, each, _ in self._mapped.values()), "it is still mapped"
        self._gpu.free_physical(self._physical.pop(memory)[1])

    def map(self, address: int, size: int, memory: int, offset: int = 0) -> None:
        end = address + size
        inside = any(low <= address and end <= high for low, high in self._ranges)
        if (
            not inside
            or offset  # "currently must be zero"
            or size % GRANULE
            or size > self._physical[memory][0]
            or any(start < end and address < stop for start, (stop, _, _) in self._mapped.items())
        ):
            raise DriverError(1, "map")
        self._gpu.map_physical(address, self._physical[memory][1], offset, size)
        self._mapped[address] = (end, memory, False)
        bisect.insort(self._starts, address)

    def allow(self, address: int, size: int, gpu: int, access: int = READ_WRITE) -> None:
        end, memory, _ = self._mapped[address]
        assert end == address + size
        self._gpu.set_access(address, size, access)
        self._mapped[address] = (end, memory, bool(access))

    def unmap(self, address: int, size: int) -> None:
        assert not self._timeline.pending, "memory is unmapped while work is pending"
        end, _, _ = self._mapped.pop(address)
        assert end == address + size
        self._starts.remove(address)
        self._gpu.unmap_physical(address, size)

    # Plain memory -----------------------------------------------------------------------------------------------
    def allocate(self, size: int) -> int:
        if size > self._left:
            raise DriverError(2, "allocate")
        place = max([self._base, *(start + length for start, length in self._plain.items())])
        self._gpu.allocate(place, size)
        self._plain[place] = size
        return place

    def free(self, address: int) -> None:
        self._timeline.complete_all()
        if address not in self._plain:
            raise DriverError(1, "free")
        self._gpu.free(address)
        del self._plain[address]

    def allocate_pinned(self, size: int) -> int:
        buffer = (ctypes.c_uint8 * size)()
        self._pinned[ctypes.addressof(buffer)] = buffer
        return ctypes.addressof(buffer)

    def free_pinned(self, address: int) -> None:
        assert not self._timeline.pending, "pinned memory is freed while work is pending"
        del self._pinned[address]

    # Work -------------------------------------------------------------------------------------------------------
    def _parts(self, address: int, size: int) -> Iterator[tuple[int, int]]:
        """[address, address + size) cut where mappings end: the simulated device knows each as an allocation."""
        while size:
            index = bisect.bisect_right(self._starts, address) - 1
            step = size
            if index >= 0 and (end := self._mapped[self._starts[index]][0]) > address:
                assert self._mapped[self._starts[index]][2], "memory that nobody may access"
                step = min(size, end - address)
            elif not any(a <= address and address + size <= a + n for a, n in self._variables) and not any(
                a <= address and address + size <= a + n for a, n in self._plain.items()
            ):
                raise CudaError(700, f"a copy at {address:#x}", sticky=True)
            yield address, step
            address, size = address + step, size - step

    def _get(self, address: int, size: int) -> bytes:
        out = b""
        for at, part in self._parts(address, size):
            out += b"".join(bytes(piece) for piece in self._gpu.read(Rows(at, part, part, 1), self._own))
        return out

    def _put(self, address: int, data: bytes) -> None:
        at = 0
        for place, size in self._parts(address, len(data)):
            self._gpu.write(Rows(place, size, size, 1), memoryview(data[at : at + size]), self._own)
            at += size

    @property
    def _own(self) -> Any:
        return self._gpu.default_stream(LEGACY_STREAM)

    def _host(self, address: int, size: int) -> None:
        assert any(a <= address and address + size <= a + len(b) for a, b in self._pinned.items()), "not pinned memory"

    def _move(self, destination: int, source: int, size: int, direction: Direction) -> None:
        if direction is Direction.TO_DEVICE:
            self._put(destination, ctypes.string_at(source, size))
        elif direction is Direction.TO_HOST:
            ctypes.memmove(destination, self._get(source, size), size)
        else:
            self._put(destination, self._get(source, size))

    def copy(self, destination: int, source: int, size: int, direction: Direction, stream: int) -> None:
        self._copy_rows(destination, size, source, size, size, 1, direction, stream)

    def copy_rows(
        self, destination: int, destination_pitch: int, source: int, source_pitch: int, width: int, height: int,
        direction: Direction, stream: int,
    ) -> None:  # fmt: skip
        self._copy_rows(destination, destination_pitch, source, source_pitch, width, height, direction, stream)

    def _copy_rows(
        self, destination: int, destination_pitch: int, source: int, source_pitch: int, width: int, height: int,
        direction: Direction, stream: int,
    ) -> None:  # fmt: skip
        for row in range(height):
            if direction is Direction.TO_DEVICE:
                self._host(source + row * source_pitch, width)
            elif direction is Direction.TO_HOST:
                self._host(destination + row * destination_pitch, width)

        def run() -> None:
            if destination_pitch == source_pitch == width:
                self._move(destination, source, width * height, direction)
                return
            for row in range(height):
                self._move(destination + row * destination_pitch, source + row * source_pitch, width, direction)

        self._timeline.issue(stream, run)

    def set(self, work: SetWork, stream: int) -> None:
        self._timeline.issue(stream, lambda: self._set(work))

    def _set(self, work: SetWork) -> None:
        data = work.value.to_bytes(work.element, "little") * work.width
        for row in range(work.height):
            self._put(work.address + row * work.pitch, data)

    def _taken(self, function: int, pointers: int, extra: int) -> bytes:
        """The parameters, as they are now."""
        _, _, layout, _ = self._functions[function]
        assert bool(pointers) != bool(extra)
        end = max((offset + size for offset, size in layout), default=0)
        if extra:
            fields = (ctypes.c_uint64 * 5).from_address(extra)
            assert (fields[0], fields[2], fields[4]) == (1, 2, 0)
            size = ctypes.c_size_t.from_address(fields[3]).value
            if size != end:
                raise DriverError(1, "launch")
            return ctypes.string_at(fields[1], size)
        array = (ctypes.c_uint64 * max(1, len(layout))).from_address(pointers)
        out = bytearray(end)
        for (offset, size), address in zip(layout, array, strict=False):
            out[offset : offset + size] = ctypes.string_at(address, size)
        return bytes(out)

    def _kernel(self, work: KernelWork, cooperative: bool = False) -> Callable[[], None]:
        function, _, _, shared = self._functions[work.function]
        if work.shared_bytes > shared or 0 in work.grid or work.block[0] * work.block[1] * work.block[2] > 1024:
            raise DriverError(1, "launch")
        shape = LaunchShape(work.grid, work.block, work.shared_bytes, cooperative)
        parameters = memoryview(self._taken(work.function, work.pointers, work.extra))
        return lambda: self._gpu.launch(function, shape, parameters, self._own)

    def launch(
        self, function: int, grid: Any, block: Any, shared_bytes: int, stream: int, pointers: int, extra: int
    ) -> None:
        self._timeline.issue(stream, self._kernel(KernelWork(function, grid, block, shared_bytes, pointers, extra)))

    def launch_cooperative(
        self, function: int, grid: Any, block: Any, shared_bytes: int, stream: int, pointers: int, extra: int
    ) -> None:
        work = KernelWork(function, grid, block, shared_bytes, pointers, extra)
        self._timeline.issue(stream, self._kernel(work, cooperative=True))

    # Modules ----------------------------------------------------------------------------------------------------
    def load_module(self, image: bytes) -> int:
        try:
            module, text = self._gpu.load_module(image), "\n".join(choose_all(image, CAPABILITY))
        except CudaError as error:
            raise DriverError(error.code, "load_module", error.message) from None
        number = next(self._numbers)
        self._modules[number] = (module, text)
        return number

    def link(self, images: Sequence[bytes]) -> bytes:
        """The simulated device links when it loads. It has NVIDIA's device library, which comes as machine code alone, in itself."""
        assert len(images) > 1
        parts = [image for image in images if _has_text(image)]
        return parts[0] if len(parts) == 1 else join(parts)

    def unload_module(self, module: int) -> None:
        assert not self._timeline.pending, "a module is unloaded while work is pending"
        self._gpu.unload_module(self._modules.pop(module)[0])

    def function(self, module: int, name: str) -> int:
        loaded, text = self._modules[module]
        try:
            function = self._gpu.function(loaded, name)
        except CudaError:
            raise DriverError(500, "function", "named symbol not found") from None
        number = next(self._numbers)
        self._functions[number] = (function, name, layout_of(text, name), 48 << 10)
        return number

    def variable(self, module: int, name: str) -> tuple[int, int]:
        try:
            found = self._gpu.variable(self._modules[module][0], name)
        except CudaError:
            raise DriverError(500, "variable", "named symbol not found") from None
        self._variables.append(found)
        return found

    def parameters(self, function: int) -> list[Parameter] | None:
        return [Parameter(*each) for each in self._functions[function][2]] if self._tells_layout else None

    def function_attribute(self, function: int, attribute: int) -> int:
        known = {
            FunctionAttribute.SHARED_SIZE_BYTES: 0,
            FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES: self._functions[function][3],
        }
        return known[FunctionAttribute(attribute)]

    def set_function_attribute(self, function: int, attribute: int, value: int) -> None:
        handle, name, layout, shared = self._functions[function]
        self._gpu.set_function_attribute(handle, attribute, value)
        if attribute == FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES:
            shared = value
        self._functions[function] = (handle, name, layout, shared)

    # Streams and events -----------------------------------------------------------------------------------------
    def create_stream(self, flags: int, priority: int) -> int:
        number = next(self._numbers)
        self._timeline.streams[number] = Stream(blocking=not flags & 1)
        return number

    def destroy_stream(self, stream: int) -> None:
        self._timeline.end(stream)

    def synchronize_stream(self, stream: int) -> None:
        self._run(lambda: self._timeline.complete(self._timeline.streams[stream].last))

    def stream_done(self, stream: int) -> bool:
        found = self._timeline.streams[stream]
        return bool(self._run(lambda: self._timeline.query(found, found.last)))

    def wait_event(self, stream: int, event: int) -> None:
        self._timeline.issue(stream, lambda: None, self._events[event].work)

    def create_event(self, flags: int) -> int:
        number = next(self._numbers)
        self._events[number] = Event()
        return number

    def destroy_event(self, event: int) -> None:
        del self._events[event]

    def record_event(self, event: int, stream: int) -> None:
        found = self._events[event]

        def run() -> None:
            found.nanoseconds = self._timeline.now()

        found.work = self._timeline.issue(stream, run)

    def synchronize_event(self, event: int) -> None:
        self._run(lambda: self._timeline.complete(self._events[event].work))

    def event_done(self, event: int) -> bool:
        found = self._events[event]
        return bool(self._run(lambda: self._timeline.query(found, found.work)))

    def elapsed_ms(self, start: int, end: int) -> float:
        first, second = self._events[start], self._events[end]
        for each in (first, second):
            if each.work is None:
                raise DriverError(400, "elapsed_ms")
            if not each.work.done:
                raise DriverError(600, "elapsed_ms")
        return (second.nanoseconds - first.nanoseconds) / 1e6

    # Graphs -----------------------------------------------------------------------------------------------------
    def create_graph(self) -> int:
        number = next(self._numbers)
        self._graphs[number] = []
        return number

    def destroy_graph(self, graph: int) -> None:
        del self._graphs[graph]

    def _add(self, graph: int, after: int | None, run: Callable[[], None], flat: bool = True) -> int:
        nodes = self._graphs[graph]
        assert after == (nodes[-1][0] if nodes else None), "a chain of nodes"
        number = next(self._numbers)
        nodes.append((number, run))
        if not flat:
            self._rigid.add(number)
        return number

    def add_kernel(self, graph: int, after: int | None, work: KernelWork) -> int:
        return self._add(graph, after, self._kernel(work))

    def add_set(self, graph: int, after: int | None, work: SetWork, context: int) -> int:
        return self._add(graph, after, lambda: self._set(work), work.height == 1)

    def add_copy(self, graph: int, after: int | None, work: CopyWork, context: int) -> int:
        return self._add(graph, after, lambda: self._copy(work), _flat(work))

    def _copy(self, work: CopyWork) -> None:
        for row in range(work.height):
            self._move(
                work.destination + row * work.destination_pitch, work.source + row * work.source_pitch, work.width,
                Direction.WITHIN,
            )  # fmt: skip

    def instantiate(self, graph: int) -> int:
        number = next(self._numbers)
        self._executables[number] = list(self._graphs[graph])
        return number

    def destroy_executable(self, executable: int) -> None:
        del self._executables[executable]

    def _change(self, executable: int, node: int, run: Callable[[], None], flat: bool = True) -> None:
        """As CUDA: copies and sets must be one-dimensional, before and after."""
        if not flat or node in self._rigid:
            raise DriverError(1, "change", "not one-dimensional")
        nodes = self._executables[executable]
        index = next(index for index, (number, _) in enumerate(nodes) if number == node)
        nodes[index] = (node, run)

    def change_kernel(self, executable: int, node: int, work: KernelWork) -> None:
        self._change(executable, node, self._kernel(work))

    def change_set(self, executable: int, node: int, work: SetWork, context: int) -> None:
        self._change(executable, node, lambda: self._set(work), work.height == 1)

    def change_copy(self, executable: int, node: int, work: CopyWork, context: int) -> None:
        self._change(executable, node, lambda: self._copy(work), _flat(work))

    def launch_graph(self, executable: int, stream: int) -> None:
        for _, run in self._executables[executable]:
            self._timeline.issue(stream, run)


def _flat(work: CopyWork) -> bool:
    return work.height == 1 or work.destination_pitch == work.source_pitch == work.width


def _has_text(image: bytes) -> bool:
    try:
        return bool(choose_all(image, CAPABILITY))
    except CudaError:
        return False
