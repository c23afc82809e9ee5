"""How a session's share of a GPU begins and ends, and what becomes of it when a kernel faults.

CUDA's context belongs to the process, so a fault of a kernel ends every session in it: hosts run each session in a process of its own
(backend/workers), where `reset` can also end the CUDA context and begin a new one. Running work cannot be interrupted from here, only with
its process.

Locking: one thread at a time, any thread; the CUDA context is made current for each that comes. `interrupt` may come from another.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from farlane.backend.device import reports
from farlane.backend.device.base import Context, CudaError, Window
from farlane.backend.device.gpu.driver.errors import STICKY, translated
from farlane.backend.device.gpu.driver.interface import Driver, DriverError
from farlane.backend.device.gpu.memory.memory import Memory
from farlane.backend.device.gpu.memory.staging import Incoming
from farlane.backend.device.gpu.memory.textures import Textures
from farlane.backend.device.gpu.memory.window import Mapped, Slab
from farlane.backend.device.gpu.work.launches import Launcher
from farlane.backend.device.gpu.work.modules import GpuModule
from farlane.backend.device.gpu.work.repeats import Choice, Repeater
from farlane.backend.device.gpu.work.streams import Streams
from farlane.backend.device.options import DeviceOptions
from farlane.backend.generated_errors import LAUNCH_FAILURE
from farlane.backend.plane import Cuda, Direct, Event, Ranges

T = TypeVar("T")

log = logging.getLogger("farlane.gpu")


class Lifetime(Context):
    """A session's share, without its calls (context.py).

    Args:
        alone: whether no other session uses the process's CUDA context.
        on_close: tells the device that the session has ended.
        output: what kernels have printed since it was last asked, and what their assertions have said.
        place: where the window was at another host.
    """

    def __init__(
        self,
        driver: Driver,
        gpu: int,
        quota: int,
        attributes: dict[int, int],
        options: DeviceOptions,
        *,
        maps: bool,
        alone: Callable[[], bool],
        on_close: Callable[[Lifetime], None],
        output: Callable[[], tuple[bytes, bytes]],
        place: Window | None = None,
    ) -> None:
        self._driver = driver
        self._gpu = gpu
        self._attributes = attributes
        self._options = options
        self._maps = maps
        self._alone = alone
        self._on_close = on_close
        self._output = output
        self._closed = self._lost = self._interrupted = self._printing = False
        self._generation = 1  # of the CUDA context
        self._entered = (
            threading.local()
        )  # the generation that is the thread's; a thread's number may be used again, this is not
        self._cuda = driver.retain(gpu)
        try:
            self._enter()
            self._space: Mapped | Slab = Mapped(driver, gpu, quota, place) if maps else Slab(driver, quota)
        except BaseException:
            driver.release(gpu)
            raise
        self._native, self._ranges = Cuda(driver.addresses, self._cuda), Ranges()
        self.direct = Direct.on_driver(self._ranges, self._native)
        self.window = self._space.window
        self.quota = quota if isinstance(self._space, Mapped) else self._space.quota
        self.device_nanoseconds = 0
        self._counts = Counter(graph_launches=0, graph_iterations=0, graphs_given_up=0)
        self._begin()

    def _begin(self) -> None:
        driver = self._driver
        self._incoming = Incoming(driver)
        self._memory = Memory(driver, self._space, self.quota, self._native, self._incoming, self._ranges)
        self._textures = Textures(driver, self._memory)
        self._streams = Streams(driver, self._native)
        self._launcher = Launcher(driver, self._attributes, self.direct, self._native)
        self.repeater = Repeater(
            driver, self._memory, self._streams, self._launcher, self._cuda, Choice(self._options.graphs), self._counts,
            self._native, self.direct, self._go_on,
        )  # fmt: skip
        self._modules: set[GpuModule] = set()
        self._limits: dict[int, int] = {}  # that the guest has set
        self._restored: list[tuple[int, int]] = []  # whole pages of a restored session
        self._times: dict[Event, int] = {}  # of its events, when it was saved last

    def _enter(self) -> None:
        """Makes the CUDA context this thread's."""
        if getattr(self._entered, "generation", 0) != self._generation:
            self._driver.set_current(self._cuda)
            self._entered.generation = self._generation

    # The end ----------------------------------------------------------------------------------------------------
    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.direct.disable()
        reports.write(self.report(), self._options.reports)
        self._quietly(self._enter)
        self._end_all()
        if self._lost and self._alone():
            self._quietly(self._driver.reset, self._gpu)  # the next session of this process finds a good one
        self._space.close()
        self._quietly(self._driver.release, self._gpu)
        self._on_close(self)

    @translated
    def reset(self) -> None:
        self._enter()
        self._end_all()
        if self._lost:
            if not self._alone():
                raise CudaError(
                    LAUNCH_FAILURE, "the process's CUDA context is lost, and other sessions use it", sticky=True
                )
            self._renew()
        self._begin()

    def _renew(self) -> None:
        """A new CUDA context; the window stays where it is."""
        driver = self._driver
        driver.reset(self._gpu)
        driver.release(self._gpu)
        self._cuda, self._generation = driver.retain(self._gpu), self._generation + 1
        self._native.set_context(self._cuda)
        self._enter()
        if self._maps:
            good = self._space.clear()
        else:
            self._space = Slab(driver, self.quota)  # the old one ended with its context
            good = self._space.window == self.window
            self._memory.space = self._space
        if not good:
            raise CudaError(LAUNCH_FAILURE, "the session's memory cannot be had at its addresses again", sticky=True)
        self._lost = False

    def _end_all(self) -> None:
        """Ends everything but the window and the CUDA context. Errors of a lost context are of no interest any more."""
        self._quietly(self._driver.synchronize)
        self.repeater.close()
        streams, events = self._streams.end()
        for event in events:
            self._quietly(self._driver.destroy_event, event.handle)
        for stream in streams:
            self._quietly(self._driver.destroy_stream, stream.handle)
        for module in self._modules:
            module.end()
            self._quietly(self._driver.unload_module, module.handle)
        self._modules.clear()
        self._native.end()
        self._incoming.close(
            lambda address: self._quietly(self._driver.free_pinned, address),
            lambda event: self._quietly(self._driver.destroy_event, event),
        )
        self._textures.close(self._quietly)
        self._memory.clear()

    def _quietly(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except DriverError as error:
            self._lost = self._lost or error.code in STICKY
            log.debug("ending a session: %s", error)

    def interrupt(self) -> None:
        """What is issued later fails. What runs goes on: it ends with its process."""
        self._interrupted = True
        self.direct.interrupt()

    def _go_on(self) -> None:
        if self._interrupted:
            raise CudaError(LAUNCH_FAILURE, "the session has been interrupted", sticky=True)

    def _watched(self, call: Callable[[], T]) -> T:
        """A call that may report what failed before it."""
        try:
            return call()
        except DriverError as error:
            self._lost = self._lost or error.code in STICKY
            raise
