"""Blocks that are there at once on one CPU thread: those of cooperative launches, and those that begin because others wait for them.

Owns the worker states of such blocks and their arenas: each block has shared and local memory, fibers and barriers of its own, so that one that waits keeps
them while another runs. Only kernels with barriers, or with loops that wait, need it: in others no block waits for another.

A cooperative launch (`Cooperative`, cooperative.ll) has all blocks from the start. cooperative.ll deals out the turns in the order of the blocks, so every run
is the same.

Reserve arenas (`Reserve`, waiting_blocks.ll) are made when compiled code asks for them, from any of the launch's threads, one at a time for the GIL. What waits for
later blocks on a GPU relies on all of them being there, so as many as the largest GPU has at once suffice. They go when the launch has ended.

Source: CUDA programming guide, "Grid Synchronization", "Technical specifications per compute capability"; facts page "Barriers".
"""

from __future__ import annotations

import ctypes
import logging
import math
from typing import Any

from farlane.backend.jit.runtime import clusters
from farlane.backend.jit.runtime.arenas import Kernel, Worker
from farlane.backend.jit.runtime.structures import Launch, WorkerState

WORKSPACE_BYTES = 64  # what %envreg1 and %envreg2 point to: a size, and the barrier's counter at byte 4
MULTIPROCESSORS = 132
THREADS, BLOCKS = 2048 * MULTIPROCESSORS, 32 * MULTIPROCESSORS  # at once
PATIENCE = 2048  # turns
KNOWN_PATIENCE = 16  # where blocks are known to wait for later ones, it does not take long to see

_log = logging.getLogger(__name__)
_More = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


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


class Reserve:
    """For the launches of one kernel, shape and shared memory, one at a time."""

    def __init__(self, kernel: Kernel, launch: Launch) -> None:
        self._kernel, self._launch = kernel, launch
        x, y, z = kernel.info.block
        self.most = min(BLOCKS, THREADS // (-(-x * y * z // 32) * 32))
        self._workers: list[Worker] = []
        self._callback = _More(self.more)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value

    def more(self, asking: int) -> int | None:
        """The state of another block, for a thread of which this is the worker's state; None: there are enough."""
        if len(self._workers) >= self.most:
            return None
        try:
            worker = Worker()
            worker.reserve_block(self._kernel, self._launch)
        except OSError:
            _log.exception("no room for more than %d blocks that wait for later ones", len(self._workers))
            return None
        own = WorkerState.from_address(asking)
        state = worker.state
        state.latches, state.index, state.touches = own.latches, own.index, own.touches
        self._workers.append(worker)
        return ctypes.addressof(state)

    def ended(self, alone: bool) -> None:
        """The launch has. `alone`: one thread ran it; with others, some blocks may only have waited long for earlier ones, which run elsewhere."""
        blocks = math.prod(self._launch.grid)
        if self._workers and (alone or 2 * len(self._workers) >= min(blocks, self.most)):
            self._launch.patience = KNOWN_PATIENCE
        self._workers.clear()
