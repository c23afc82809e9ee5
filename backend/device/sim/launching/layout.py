"""Launches that are laid out for the plane, which then does them without Python.

Owns which launches can be, and what the plane needs of them. What a launch needs at all is the launcher's.

A launch that is laid out uses the session's worker where its arenas were, and its kernel's code as it was: when either has changed, all of
them are laid out anew.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from farlane.backend import jit
from farlane.backend.device.base import CudaError, LaunchShape
from farlane.backend.device.sim.launching.launches import Launcher
from farlane.backend.device.sim.runtime.modules import SimFunction
from farlane.backend.device.sim.runtime.prepared import ALONE_NS, Prepared
from farlane.backend.plane import Direct, Entry

_PARAMETER_ALIGNMENT = 64
_PART_NS = 5_000_000  # a launch of provisional code that takes longer is run in parts
_BRIEF_NS = 1_000_000  # a launch of provisional code that has taken less is likely to do so again


class Ready(NamedTuple):
    """A launch that needs only its parameters, and the worker's state for it. All that is in `prepared.launch` stays as long as this."""

    prepared: Prepared
    run: int  # address of the kernel's code
    worker: jit.WorkerState
    parameters: Any


class Layout:
    """Lays out the launches of one session."""

    def __init__(self, launcher: Launcher, direct: Direct) -> None:
        self._launcher = launcher
        self._direct = direct
        self._generation = launcher.worker_generation
        direct.changed()

    def follow(self) -> None:
        """Has the worker been laid out anew? Behind whatever may have done so."""
        generation = self._launcher.worker_generation
        if generation != self._generation:
            self._generation = generation
            self._direct.changed()

    def lay_out(self, function: SimFunction, shape: LaunchShape, size: int) -> Entry | None:
        """The launch that was done last, as it can be done again by this thread alone; None: it has to come here each time.

        What needs more than a thread, or something done before and after, comes here: shared launches that take long enough for helpers,
        cooperative ones and those of clusters, kernels that launch others, and long ones of provisional code.
        """
        if not self._direct.enabled:
            return None
        known = function.prepared
        if known is None or known.shape != shape or known.has_blocks or known.launch.cluster_blocks > 1:
            return None
        info, limit = known.kernel.info, (1 << 64) - 1
        if info.launches:
            return None
        if known.helpers:
            if info.waits or not known.cost.is_short(known.launch.end_block):
                return None
            limit = ALONE_NS
        if known.kernel.use is not None:
            if self._launcher.took > _BRIEF_NS:
                return None
            limit = min(limit, _PART_NS)
        prepared = self._launcher.prepare(function, shape, size)
        launch, kernel = prepared.launch, prepared.kernel
        launch.pause = self._launcher.stops.word
        parameters = ctypes.create_string_buffer(size + _PARAMETER_ALIGNMENT)
        address = ctypes.addressof(parameters)
        launch.parameters = address + -address % _PARAMETER_ALIGNMENT
        worker = self._launcher.lend(prepared)
        self.follow()
        return self._direct.lay_out(
            kernel.address,
            ctypes.addressof(launch),
            ctypes.addressof(worker),
            launch.parameters,
            size,
            next_block=jit.Launch.next_block.offset,
            end_block=jit.Launch.end_block.offset,
            grid_id=jit.Launch.grid_id.offset,
            abort=jit.Launch.abort.offset,
            provisional=kernel.use is not None,
            limit=limit,
            calls_back=prepared.calls_back,
            keep=Ready(prepared, kernel.address, worker, parameters),
        )

    def failure(self, ready: Ready) -> CudaError:
        """Why it did not come to its end."""
        return self._launcher.error(ready.prepared.function, ready.prepared)

    def account(self, ready: Ready, nanoseconds: int) -> None:
        """Its kernel has run for so long."""
        kernel = ready.prepared.kernel
        if kernel.use is not None:
            kernel.use.spent(kernel, nanoseconds)
        elif kernel.address != ready.run:
            self._direct.changed()  # it has better code
