"""What a session can do on a GPU (`device.base.Context`): its calls, each in the CUDA context of the process.

Work is issued and not waited for; what waits is reads, synchronizations, and the first moment at which memory must be given back. How a
session's share begins and ends, and its locking, is lifetime.py's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any, TypeVar

from farlane.backend.device.base import CudaError, LaunchShape, Rows
from farlane.backend.device.gpu.driver.errors import STICKY, called, to_cuda, translated
from farlane.backend.device.gpu.driver.interface import DriverError, FunctionAttribute
from farlane.backend.device.gpu.memory.memory import Physical
from farlane.backend.device.gpu.saving import Saving
from farlane.backend.device.gpu.work.modules import GpuFunction, GpuModule
from farlane.backend.device.objects import ObjectDescription
from farlane.backend.device.plan import Body, Columns, Results, Stop
from farlane.backend.device.tensors import TensorMap
from farlane.backend.plane import Entry, Event, Stream

T = TypeVar("T")

_COLLECT_FROM = 64 << 20  # idle bytes that are not kept beyond a synchronization

log = logging.getLogger("farlane.gpu")


class GpuContext(Saving):
    """See `Context`."""

    # Memory -----------------------------------------------------------------------------------------------------
    @translated
    def allocate(self, address: int, size: int) -> None:
        self._enter()
        self._memory.allocate(address, size)
        self._streams.allocated(address, size)

    @translated
    def free(self, address: int) -> None:
        self._enter()
        self._memory.free(address)
        self._note_idle()

    def _note_idle(self) -> None:
        """Whether the next synchronization of the device is ours, which gives memory back, or the plane's."""
        self._native.set_collects(self._space.idle_bytes >= _COLLECT_FROM)

    @translated
    def create_physical(self, size: int) -> Physical:
        self._enter()
        return self._watched(lambda: self._memory.create_physical(size))

    @translated
    def free_physical(self, memory: Physical) -> None:
        self._enter()
        self._memory.free_physical(memory)

    @translated
    def map_physical(self, address: int, memory: Physical, offset: int, size: int) -> None:
        self._enter()
        self._watched(lambda: self._memory.map_physical(address, memory, offset, size))

    @translated
    def unmap_physical(self, address: int, size: int) -> None:
        self._enter()
        self._watched(lambda: self._memory.unmap_physical(address, size))

    @translated
    def set_access(self, address: int, size: int, access: int) -> None:
        self._enter()
        self._memory.set_access(address, size, access)

    @translated
    def set(self, rows: Rows, value: int, element: int, stream: Any) -> None:
        self._enter()
        self._streams.check(stream)
        self._memory.set(rows, value, element, stream.handle)

    @translated
    def write(self, rows: Rows, data: memoryview, stream: Any) -> None:
        self._enter()
        self._streams.check(stream)
        self._memory.write(rows, data, stream.handle)
        self._streams.wrote(stream)

    @translated
    def read(self, rows: Rows, stream: Any) -> Iterator[memoryview | bytes]:
        self._enter()
        self._streams.check(stream)
        started = time.monotonic_ns()
        pieces = self._watched(lambda: self._memory.read(rows, stream.handle))
        self.device_nanoseconds += time.monotonic_ns() - started
        return self._timed(pieces)

    def _timed(self, pieces: Iterator[memoryview]) -> Iterator[memoryview | bytes]:
        while True:
            started = time.monotonic_ns()
            try:
                piece = self._watched(lambda: next(pieces, None))
            except DriverError as error:
                raise to_cuda(error) from None
            self.device_nanoseconds += time.monotonic_ns() - started
            if piece is None:
                return
            yield piece

    @translated
    def copy(self, destination: Rows, source: Rows, stream: Any) -> None:
        self._enter()
        self._streams.check(stream)
        self._memory.copy(destination, source, stream.handle)

    # Textures and surfaces --------------------------------------------------------------------------------------
    @translated
    def create_object(self, description: ObjectDescription) -> int:
        self._enter()
        made = self._watched(lambda: self._textures.create(description))
        self._note_idle()
        return made

    @translated
    def destroy_object(self, value: int, *, surface: bool) -> None:
        self._enter()
        self._watched(lambda: self._textures.destroy(value, surface))

    # Tensor maps: they hold addresses, and the driver keeps nothing of them ---------------------------------------
    @translated
    def tensor_map(self, description: TensorMap) -> bytes:
        self._enter()
        return self._driver.encode_tensor(description)

    @translated
    def moved_tensor_map(self, map: bytes, address: int) -> bytes:
        self._enter()
        return self._driver.move_tensor(map, address)

    # Modules ----------------------------------------------------------------------------------------------------
    @translated
    def load_module(self, image: bytes) -> GpuModule:
        self._enter()
        module = GpuModule(self._driver, self._memory, image)
        self._modules.add(module)
        return module

    @translated
    def unload_module(self, module: GpuModule) -> None:
        self._enter()
        self._modules.discard(module)
        module.unload()

    @translated
    def function(self, module: GpuModule, name: str) -> GpuFunction:
        self._enter()
        return module.function(name)

    @translated
    def set_function_attribute(self, function: GpuFunction, attribute: int, value: int) -> None:
        self._enter()
        self._driver.set_function_attribute(function.handle, attribute, value)
        function.checked = None
        self.direct.changed()
        if attribute == FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES:
            function.most_shared = function.max_dynamic_shared = value
        elif attribute == FunctionAttribute.NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
            function.non_portable_clusters = bool(value)

    @translated
    def variable(self, module: GpuModule, name: str) -> tuple[int, int]:
        self._enter()
        return module.variable(name)

    def launch(self, function: GpuFunction, shape: LaunchShape, parameters: memoryview, stream: Any) -> None:
        try:
            self._enter()
            self._streams.check(stream)
            self._go_on()
            self._launcher.launch(function, shape, parameters, stream.handle)
            self.direct.launches += 1
            self._printing |= function.module.prints
        except DriverError as error:
            self._lost = self._lost or error.code in STICKY
            raise to_cuda(error) from None

    def lay_out(self, function: GpuFunction, shape: LaunchShape, size: int, stream: Stream) -> Entry | None:
        return self._launcher.lay_out(function, shape, size, stream) if self.direct.enabled else None

    def fault(self, code: int, call: str) -> CudaError:
        self._lost = self._lost or code in STICKY
        return to_cuda(self._driver.error(code, call))

    @translated
    def repeat(self, body: Body, columns: Columns, results: Results) -> Stop | None:
        self._enter()
        self._go_on()
        self._printing |= any(step.function is not None and step.function.module.prints for step in body.steps)
        stop = self._watched(lambda: self.repeater.repeat(body, columns, results))
        if stop is not None:
            of_each = sum(step.function is not None for step in body.steps)
            self.direct.launches += of_each * stop.iterations  # not those of an iteration that ended early
            self._lost = self._lost or (stop.error is not None and stop.error.sticky)
        return stop

    def take_output(self) -> tuple[bytes, bytes]:
        """A guest that asks has waited for what it launched, and expects to see what that printed."""
        if (self.direct.take_printing() or self._printing) and not self._closed:
            self._printing = False
            self._quietly(self._driver.synchronize)
        return self._output()

    def report(self) -> dict[str, dict[str, int]]:
        return {"gpu": dict(self._counts) | self._space.report(), "plane": self.direct.counts()}

    # Streams and events -----------------------------------------------------------------------------------------
    @translated
    def default_stream(self, number: int) -> Stream:
        self._enter()
        return self._streams.default(number)

    @translated
    def create_stream(self, flags: int, priority: int) -> Stream:
        self._enter()
        return self._streams.create(flags, priority)

    @translated
    def destroy_stream(self, stream: Stream) -> None:
        self._enter()
        called(self._driver, self._native.leave, stream)
        self._streams.destroy(stream)

    @translated
    def wait_event(self, stream: Stream, event: Event) -> None:
        self._enter()
        self._streams.check(stream)
        self._streams.check_event(event)
        self._driver.wait_event(stream.handle, event.handle)

    @translated
    def stream_done(self, stream: Stream) -> bool:
        self._enter()
        self._streams.check(stream)
        return self._watched(lambda: self._driver.stream_done(stream.handle))

    @translated
    def create_event(self, flags: int) -> Event:
        self._enter()
        return self._streams.create_event(flags)

    @translated
    def destroy_event(self, event: Event) -> None:
        self._enter()
        self._streams.destroy_event(event)

    @translated
    def record_event(self, event: Event, stream: Stream, flags: int) -> None:
        self._enter()
        self._streams.record(event, stream)

    @translated
    def event_done(self, event: Event) -> bool:
        self._enter()
        self._streams.check_event(event)
        return self._watched(lambda: self._driver.event_done(event.handle))

    @translated
    def elapsed_ms(self, start: Event, end: Event) -> float:
        self._enter()
        return self._streams.elapsed_ms(start, end)

    @translated
    def synchronize(self, stream: Stream | None = None, event: Event | None = None) -> None:
        self._enter()
        started = time.monotonic_ns()
        if event is not None:
            self._streams.check_event(event)
            self._watched(lambda: self._driver.synchronize_event(event.handle))
        elif stream is not None:
            self._streams.check(stream)
            self._watched(lambda: self._driver.synchronize_stream(stream.handle))
        else:
            self._watched(self._driver.synchronize)
            self._streams.synchronized()
            if self._space.idle_bytes >= _COLLECT_FROM:
                self._space.collect()
            self._note_idle()
        self.device_nanoseconds += time.monotonic_ns() - started

    def rest(self) -> bool:
        """Nothing waits to be replayed: memory without a use goes back, once the GPU has nothing to do either."""
        if self._closed or self._lost or not self._space.idle_bytes:
            return True
        try:
            self._enter()
            if not all(map(self._driver.stream_done, self._streams.handles())):
                return False
            self._driver.synchronize()  # streams that have been destroyed may have work yet
            self._space.collect()
        except DriverError as error:  # the next call reports it
            self._lost = self._lost or error.code in STICKY
        return True

    @translated
    def set_limit(self, limit: int, value: int) -> None:
        self._enter()
        self._driver.set_limit(limit, value)
        self._limits[limit] = value
