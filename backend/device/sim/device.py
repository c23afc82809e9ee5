"""The simulated device: what its sessions share.

Owns the description, the thread pool, the parsed modules and the list of open contexts. Kernels really run, on the CPU;
see docs/explanation/simulated-device/README.md.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from farlane.backend.device import reports
from farlane.backend.device.base import Context, CudaError, Description, Device, Window
from farlane.backend.device.limits import Limits
from farlane.backend.device.options import DEFAULT, DeviceOptions
from farlane.backend.device.saved import SavedContext, Unsaveable, filled
from farlane.backend.device.sim.context import SimContext
from farlane.backend.device.sim.launching.pool import Pool
from farlane.backend.device.sim.memory.space import Physical
from farlane.backend.device.sim.memory.window import spread
from farlane.backend.device.sim.options import Oversubscription, Settings
from farlane.backend.device.sim.runtime.modules import Library
from farlane.backend.device.specification import Specification, attributes
from farlane.backend.generated_errors import DEVICES_UNAVAILABLE
from farlane.backend.jit import processor
from farlane.backend.memory.switching import RULES
from farlane.backend.plane import Budget

if TYPE_CHECKING:
    from farlane.backend.device.sim.memory.shared import Switching


class SimDevice(Device):
    """A device that executes PTX on this machine's CPU."""

    name = "sim"

    def __init__(
        self,
        options: DeviceOptions = DEFAULT,
        *,
        threads: int | None = None,
        total_memory: int | None = None,
        oversubscription: Oversubscription | None = None,
        model: Settings | None = None,
        ends: tuple[int, int, int] | None = None,
    ) -> None:
        """Opens the device. What is given besides the options comes before them.

        Args:
            threads: CPU threads that run kernels; by default what the process may use.
            total_memory: what the device claims to have; by default half of this machine's memory.
            oversubscription: how sessions get by with less device memory than they allocate; by default they have what they allocate.
            model: what of the memory system is modelled.
            ends: descriptors of a session's process whose listener keeps the books of memory that sessions share (processes/channel.py).

        Raises:
            ValueError: an option is wrong.
        """
        threads = threads or options.threads or len(os.sched_getaffinity(0))
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._options = options
        self._total_memory = total_memory or physical // 2 & -(2 << 20)
        self._budget = Budget(self._total_memory)
        self._capability = options.compute_capability
        self._attributes = attributes(Specification(multiprocessors=threads, compute_capability=self._capability))
        self._limits = Limits(self._attributes)
        self._pool = Pool(threads, options.order == "fast")
        self._library = Library(self._capability)
        self._contexts: set[SimContext] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._oversubscription = oversubscription or Oversubscription.of(options)
        shared = self._oversubscription.shared if self._oversubscription else None
        self._physical = Physical(self._total_memory)
        self._switching: Switching | None = None
        self._kind: Callable[..., SimContext] = SimContext
        if self._oversubscription is not None and shared is not None:
            from farlane.backend.device.sim.switched import SwitchedContext

            if ends is not None:
                from farlane.backend.device.sim.processes.client import RemoteSwitching

                self._switching = RemoteSwitching(shared, ends)
            else:
                from farlane.backend.device.sim.memory.shared import LocalSwitching

                self._switching = LocalSwitching(shared, RULES[self._oversubscription.rule])
            self._physical = self._switching.physical
            self._kind = functools.partial(SwitchedContext, self._switching)
        self._model = Settings.load(options.model) if model is None and options.model else model
        self._sessions = 0
        if self._model is not None:
            self._model.configuration()  # a wrong one is an error now

    def describe(self) -> Description:
        return Description(
            backend=self.name,
            name=f"Farlane simulated device ({platform.machine()}, {self._pool.threads} threads)",
            uuid=hashlib.blake2b(f"farlane sim {platform.node()}".encode(), digest_size=16).digest(),
            compute_capability=self._capability,
            total_memory=self._total_memory,
            takes_ptx=True,
            takes_machine_code=False,
            takes_any_ptx=True,
            has_host_mappings=True,
            has_conditions=True,
            has_mappings=self._model is None and not (self._oversubscription and self._oversubscription.active),
            attributes=self._attributes,
        )

    def prepare(self) -> None:
        processor()  # which loads LLVM

    def open_context(self, quota: int, place: Window | None = None) -> Context:
        if self._closed:
            raise CudaError(DEVICES_UNAVAILABLE, "the device has been closed")
        with self._lock:
            self._sessions += 1
            modelled = None if self._model is None else (self._model, self._sessions)
            number = self._sessions
        context = self._kind(
            quota, self._budget, self._physical, self._library, self._pool, self._limits, self._forget, modelled,
            self._oversubscription, number, self._options, place,
        )  # fmt: skip
        with self._lock:
            self._contexts.add(context)
        return context

    def spread(self) -> None:
        spread()

    def reopen_context(self, quota: int, saved: SavedContext) -> Context:
        if self._model is not None or (self._oversubscription is not None and self._oversubscription.active):
            raise Unsaveable("this host models or bounds the memory of its device, and restores no sessions")
        return filled(lambda: self.open_context(quota, saved.window), saved)

    def close(self) -> None:
        """Closes the contexts that are still open, too, which ends what they run."""
        self._closed = True
        for context in list(self._contexts):
            context.close()
        self._pool.close()
        reports.write(self.report(), self._options.reports)

    def report(self) -> dict[str, dict[str, int]]:
        """What the device has counted for all its sessions, by section."""
        return {} if self._switching is None else self._switching.report()

    def _forget(self, context: SimContext) -> None:
        with self._lock:
            self._contexts.discard(context)
