"""One session's share of the simulated device.

Owns the session's memory, modules, streams and events, and the time its work has taken. Every method runs its work to
the end before it returns, in the caller's order. One thread at a time; `interrupt` alone may come from another, and
`close`, which then interrupts and waits.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from farlane.backend.device import reports
from farlane.backend.device.allocations import MAPPED, Allocation
from farlane.backend.device.base import LEGACY_STREAM, Context, CudaError, LaunchShape, MemoryMap, Rows, Window
from farlane.backend.device.limits import Limits
from farlane.backend.device.options import DEFAULT, DeviceOptions
from farlane.backend.device.plan import Body, Columns, Results, Stop
from farlane.backend.device.sim.launching.launches import Launcher
from farlane.backend.device.sim.launching.layout import Layout, Ready
from farlane.backend.device.sim.launching.pool import Pool
from farlane.backend.device.sim.launching.repeats import Repeater
from farlane.backend.device.sim.launching.stops import Stops
from farlane.backend.device.sim.launching.timeline import Timeline
from farlane.backend.device.sim.memory.physical import Part as PhysicalPart
from farlane.backend.device.sim.memory.space import Physical, Space
from farlane.backend.device.sim.memory.window import PAGE
from farlane.backend.device.sim.observers.checking import KINDS, Checker
from farlane.backend.device.sim.observers.observer import Observers
from farlane.backend.device.sim.opening import open_memory
from farlane.backend.device.sim.options import Oversubscription, Settings
from farlane.backend.device.sim.runtime.modules import Library, SimFunction, SimModule
from farlane.backend.device.sim.runtime.runtime import STACK_SIZE, Runtime
from farlane.backend.device.sim.saving import Saving
from farlane.backend.generated_errors import INVALID_RESOURCE_HANDLE, INVALID_VALUE, NOT_SUPPORTED
from farlane.backend.jit import Options
from farlane.backend.plane import Budget, Direct, Entry, Gate, Place

if TYPE_CHECKING:
    from farlane.backend.device.sim.memory.turn import Turn

_MAX_DYNAMIC_SHARED = 8  # cudaFuncAttributeMaxDynamicSharedMemorySize
_NON_PORTABLE_CLUSTERS = 14  # cudaFuncAttributeNonPortableClusterSizeAllowed
_CLOSE_SECONDS = 30.0

_log = logging.getLogger(__name__)


class SimContext(Saving, Context):
    """See `Context`; `on_close` tells the device that the context has ended."""

    def __init__(
        self,
        quota: int,
        budget: Budget,
        physical: Physical,
        library: Library,
        pool: Pool,
        limits: Limits,
        on_close: Callable[[SimContext], None],
        modelled: tuple[Settings, int] | None = None,
        oversubscription: Oversubscription | None = None,
        number: int = 1,
        options: DeviceOptions = DEFAULT,
        place: Window | None = None,
    ) -> None:
        self.quota = quota
        self.device_nanoseconds = 0
        self._library = library
        self._limits = limits
        self._pool = pool
        self._on_close = on_close
        self._options = options
        self._closed = False
        self._interrupted = False
        self._observers = Observers()
        self._memory = open_memory(quota, budget, physical, oversubscription, number, self._observers, place)
        self.direct = Direct(self._memory.allocations.ranges, backed=True, room=self._memory.room)
        self._working: Gate | Turn = (
            self.direct.gate
        )  # held while device memory is used, for `close` may come from another thread
        self.looks_ahead = self._memory.looks_ahead
        self._place: Place | None = None
        self.window: Window = self._memory.guest
        if modelled is not None:
            from farlane.backend.device.sim.observers.modelling import ModelObserver  # few sessions want it

            self._observers.add(ModelObserver.of(*modelled, self._memory))
        if self._observers or self._memory.attended:
            self.direct.disable()
        self._runtime = Runtime(self._memory, self._observers, limits.attributes, self.direct.speak)
        self.compilations = self._runtime.compilations
        self._begin()

    def _begin(self) -> None:
        self._timeline = Timeline()
        self._launcher = Launcher(
            self._memory, self._pool, self._limits, self._runtime, self._observers, self.direct, self._options.tiers,
        )  # fmt: skip
        self._follow_place()
        self._layout = Layout(self._launcher, self.direct)
        self._repeater = Repeater(self._launcher, self._memory)
        if self._interrupted:  # read behind the store, see interrupt
            self._launcher.interrupt()
        self._modules: set[SimModule] = set()

    def share(self, place: Place) -> None:
        self._place = place
        self.direct.gate.share(place)
        self._follow_place()

    def _follow_place(self) -> None:
        if self._place is not None:
            self._launcher.stops = Stops(self.direct.gate.step_aside, self._place)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._launcher.interrupt()  # whatever is tried later is refused
            self._end_modules()
            self.direct.disable()
            if self._working.acquire(_CLOSE_SECONDS):
                self._observers.close(self._memory.report())
                reports.write(self.report(), self._options.reports)
                self._memory.close()
                self._working.release()
            else:
                # Memory that a thread still works on must stay where it is.
                _log.error("a session's work does not end; its memory is not given back")
            self._on_close(self)

    def check(self, kinds: Sequence[str]) -> None:
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown or not kinds:
            raise CudaError(INVALID_VALUE, f"unknown checks {', '.join(unknown)}; there are {', '.join(KINDS)}")
        window = self._memory.window
        self.direct.disable()
        self._observers.add(Checker(kinds, window.base, window.size, self._runtime.complain))
        self._launcher.observed()

    def finish_checks(self) -> int:
        return self._observers.finish(self._memory.allocations)

    def reset(self) -> None:
        self._end_modules()
        self._observers.cleared(self._memory.allocations)
        self._memory.clear()
        self._runtime.reset()
        self._begin()

    def interrupt(self) -> None:
        """Ends a running kernel: its session is going away. From any thread; the session can only be closed afterwards."""
        self._interrupted = True
        self._launcher.interrupt()

    def _end_modules(self) -> None:
        for module in self._modules:
            module.end()
        self._modules = set()

    # Memory -----------------------------------------------------------------------------------------------------
    def space(self, page_bytes: int = PAGE) -> Space:
        """Where the session's pages lie in physical memory: its translation table and its page table, which a TLB model walks. Kept from the
        first time on that somebody asks."""
        self.direct.disable()
        with self._working:
            return self._memory.open_space(page_bytes)

    def allocate(self, address: int, size: int) -> None:
        self._memory.allocate(address, size)
        self._observers.allocated(address, size)

    def free(self, address: int) -> None:
        if self._observers:
            with self._working:
                self._observers.ending(address)
        self._observers.freed(self._memory.free(address))

    def map_host(self, address: int, device: int, size: int) -> None:
        with self._working:
            self._memory.map_host(address, device, size)

    def create_physical(self, size: int) -> PhysicalPart:
        if self._observers.follows_pages:
            raise CudaError(NOT_SUPPORTED, "physical memory is not mapped where its translation is modelled")
        return self._memory.create_physical(size)

    def free_physical(self, memory: PhysicalPart) -> None:
        self._memory.free_physical(memory)

    def map_physical(self, address: int, memory: PhysicalPart, offset: int, size: int) -> None:
        with self._working:
            self._memory.physical.map(self._memory.allocations, address, memory, offset, size)
            self._observers.written(Rows(address, size, size, 1))  # it may have been, at another address

    def unmap_physical(self, address: int, size: int) -> None:
        with self._working:
            self._memory.physical.unmap(self._memory.allocations, address, size)
        self._observers.freed(Allocation(address, size, MAPPED))

    def set_access(self, address: int, size: int, access: int) -> None:
        with self._working:
            self._memory.physical.set_access(self._memory.allocations, address, size, access)

    def set(self, rows: Rows, value: int, element: int, stream: Any) -> None:
        self._timeline.check_stream(stream)
        with self._working:
            started = time.monotonic_ns()
            self._memory.set(rows, value, element)
            self.device_nanoseconds += time.monotonic_ns() - started
            self._observers.written(rows)

    def write(self, rows: Rows, data: memoryview, stream: Any) -> None:
        self._timeline.check_stream(stream)
        with self._working:
            started = time.monotonic_ns()
            self._memory.write(rows, data)
            self.device_nanoseconds += time.monotonic_ns() - started
            self._observers.written(rows)

    def read(self, rows: Rows, stream: Any) -> Iterator[memoryview | bytes]:
        """A piece may show device memory itself: use it before the next call to this context."""
        self._timeline.check_stream(stream)
        pieces = self._memory.read(rows)
        self._observers.read(rows)
        return self._timed(pieces)

    def copy(self, destination: Rows, source: Rows, stream: Any) -> None:
        self._timeline.check_stream(stream)
        with self._working:
            started = time.monotonic_ns()
            self._memory.copy(destination, source)
            self.device_nanoseconds += time.monotonic_ns() - started
            self._observers.copied(destination, source)

    def _timed(self, pieces: Iterator[memoryview]) -> Iterator[memoryview | bytes]:
        while True:
            with self._working:
                started = time.monotonic_ns()
                piece = None if self._closed else next(pieces, None)
                self.device_nanoseconds += time.monotonic_ns() - started
            if piece is None:
                return
            yield piece

    # Modules ----------------------------------------------------------------------------------------------------
    def load_module(self, image: bytes) -> SimModule:
        return self.restore_module(image, None)

    def restore_module(self, image: bytes, base: int | None) -> SimModule:
        module = SimModule(self._library.parse(image), self._memory, self._observers, base)
        self._modules.add(module)
        return module

    def unload_module(self, module: SimModule) -> None:
        self._modules.discard(module)
        module.unload()

    def check_module(self, image: bytes, unit: bool) -> None:
        self._library.check(image, unit)
        super().check_module(image, unit)

    def function(self, module: SimModule, name: str) -> SimFunction:
        if module not in self._modules:
            raise CudaError(INVALID_RESOURCE_HANDLE, "the module has been unloaded")
        return module.function(name)

    def set_function_attribute(self, function: SimFunction, attribute: int, value: int) -> None:
        if attribute == _MAX_DYNAMIC_SHARED:
            function.max_dynamic_shared = value
            function.unprepare()
            self.direct.changed()
        elif attribute == _NON_PORTABLE_CLUSTERS:
            function.non_portable_clusters = bool(value)
            function.unprepare()
            self.direct.changed()
        # The others are hints (carve-out, cluster preferences) which have no effect on results.

    def variable(self, module: SimModule, name: str) -> tuple[int, int]:
        if module not in self._modules:
            raise CudaError(INVALID_RESOURCE_HANDLE, "the module has been unloaded")
        return module.variable(name)

    def launch(self, function: SimFunction, shape: LaunchShape, parameters: memoryview, stream: Any) -> None:
        self._timeline.check_stream(stream)
        if self._place is not None and function.prepared is None:
            began = time.thread_time_ns()
            self._launcher.compile(function, shape)  # before it has the device
            self._place.add(time.thread_time_ns() - began)
        with self._working:
            if self._observers:
                self._observers.stream(stream, stream is self._timeline.default_stream(LEGACY_STREAM))
            self.device_nanoseconds += self._launcher.launch(function, shape, parameters)
            self._layout.follow()

    def lay_out(self, function: SimFunction, shape: LaunchShape, size: int, stream: Any) -> Entry | None:
        with self._working:
            return self._layout.lay_out(function, shape, size)

    def failure(self, laid_out: Ready) -> CudaError:
        return self._layout.failure(laid_out)

    def account(self, laid_out: Ready, nanoseconds: int) -> None:
        self._layout.account(laid_out, nanoseconds)

    def _synchronized(self) -> None:
        """What comes later is ordered behind all that was."""
        if self._observers:
            with self._working:
                self._observers.synchronized()

    def expect(self, launches: Sequence[memoryview | bytes]) -> None:
        with self._working:
            if not self._closed:
                self._memory.expect(launches)

    @property
    def used_bytes(self) -> int:
        return self._memory.allocations.bytes + self._memory.physical.bytes

    def counts(self) -> dict[str, int]:
        return super().counts() | self.compilations.counts()

    def memory_map(self) -> MemoryMap:
        return self._memory.map()

    def report(self) -> dict[str, dict[str, int]]:
        return self._memory.report()

    def take_output(self) -> tuple[bytes, bytes]:
        return self._runtime.take_output()

    def repeat(self, body: Body, columns: Columns, results: Results) -> Stop | None:
        if self._observers:
            return None  # call by call: a loop has no place for what lies between launches
        with self._working:
            stop, nanoseconds = self._repeater.repeat(body, columns, results)
            self.device_nanoseconds += nanoseconds
            self._layout.follow()
        return stop

    # Streams and events -----------------------------------------------------------------------------------------
    def default_stream(self, number: int) -> Any:
        return self._timeline.default_stream(number)

    def create_stream(self, flags: int, priority: int) -> Any:
        return self._timeline.create_stream(flags, priority)

    def destroy_stream(self, stream: Any) -> None:
        self._timeline.destroy_stream(stream)

    def wait_event(self, stream: Any, event: Any) -> None:
        self._timeline.check_stream(stream)
        self._timeline.check_event(event)
        self._synchronized()

    def stream_done(self, stream: Any) -> bool:
        self._timeline.check_stream(stream)
        return True

    def create_event(self, flags: int) -> Any:
        return self._timeline.create_event(flags)

    def destroy_event(self, event: Any) -> None:
        self._timeline.destroy_event(event)

    def record_event(self, event: Any, stream: Any, flags: int) -> None:
        self._timeline.record(event, stream)

    def event_done(self, event: Any) -> bool:
        self._timeline.check_event(event)
        return True

    def elapsed_ms(self, start: Any, end: Any) -> float:
        return self._timeline.elapsed_ms(start, end)

    def synchronize(self, stream: Any | None = None, event: Any | None = None) -> None:
        if stream is not None:
            self._timeline.check_stream(stream)
        if event is not None:
            self._timeline.check_event(event)
        self._synchronized()

    def set_limit(self, limit: int, value: int) -> None:
        """Limits count from the next launch on; those of the L2 cache bound nothing that is simulated."""
        self._runtime.set_limit(limit, value)
        if limit == STACK_SIZE:
            local = max(value, Options().local_stack_bytes)
            self._launcher.options = dataclasses.replace(self._launcher.options, local_stack_bytes=local)
            self.direct.changed()
            for module in self._modules:
                for function in module.functions.values():
                    function.forget()
