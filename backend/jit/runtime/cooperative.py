"""Cooperative launches: what all blocks of a grid need to be alive at once on one CPU thread.

Owns the worker states of the blocks and their arenas: each block has shared and local memory, fibers and barriers of its own, so that one
that waits for another (grid.sync) keeps them while the other runs. cooperative.ll deals out the turns, in the order of the blocks, so every run
is the same. Only kernels with barriers need it: without one no block waits for another.

Source: CUDA programming guide, "Grid Synchronization"; facts page "Barriers".
"""

from __future__ import annotations

import ctypes
from typing import Any

from farlane.backend.jit.runtime import clusters
from farlane.backend.jit.runtime.arenas import Kernel, Worker
from farlane.backend.jit.runtime.structures import Launch, WorkerState

WORKSPACE_BYTES = 64  # what %envreg1 and %envreg2 point to: a size, and the barrier's counter at byte 4


class Cooperative:
    """Worker states for `blocks` blocks of a kernel. They may be used again for a launch of the same kernel, shape and shared memory."""

    def __init__(self, kernel: Kernel, launch: Launch, blocks: int) -> None:
        self._workers = [Worker() for _ in range(blocks)]
        for worker in self._workers:
            worker.reserve_block(kernel, launch)
        self.states: Any = (WorkerState * blocks)(*(worker.state for worker in self._workers))
        size = clusters.size(launch)
        if size > 1:
            for number in range(blocks):
                self.states[number].peers = self.address + number // size * size * ctypes.sizeof(WorkerState)

    @property
    def address(self) -> int:
        """For Launch.cooperative."""
        return ctypes.addressof(self.states)

    def share(self, worker: Worker) -> None:
        """The blocks use the latches, and the number, of the worker that runs the launch."""
        for state in self.states:
            state.latches, state.index, state.touches = worker.state.latches, worker.state.index, worker.state.touches
