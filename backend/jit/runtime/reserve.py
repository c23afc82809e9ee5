"""Arenas for blocks that begin because the ones before them wait for them (waiting_blocks.ll).

Owns how many there may be, and makes them when compiled code asks: what waits for later blocks on a GPU relies on all of them being there, so
as many as the largest of GPUs has at once suffice. They go when the launch has ended.

Ordering: compiled code asks from any of the launch's threads, one at a time for the GIL.

Source: CUDA programming guide, "Technical specifications per compute capability" (blocks and threads of a multiprocessor).
"""

from __future__ import annotations

import ctypes
import logging
import math

from farlane.backend.jit.runtime.arenas import Kernel, Worker
from farlane.backend.jit.runtime.structures import Launch, WorkerState

MULTIPROCESSORS = 132
THREADS, BLOCKS = 2048 * MULTIPROCESSORS, 32 * MULTIPROCESSORS  # at once
PATIENCE = 2048  # turns
KNOWN_PATIENCE = 16  # where blocks are known to wait for later ones, it does not take long to see

_log = logging.getLogger(__name__)
_More = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


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
