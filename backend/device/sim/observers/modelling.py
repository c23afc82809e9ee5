"""A session under the model of the memory system: what the device reports to it, and the report at the end.

Owns the recording of one session: the buffer that compiled kernels fill, the model (farlane.backend.memory.cores) that it goes to, and the files that are written when the session ends.
The device computes as without it, but for two things: a launch's blocks run in order on one thread, so that what a kernel touches does not depend on the
schedule even where its blocks race with each other; and loops are replayed call by call.

Session n writes the files of its `Settings` with `.n` before the suffix, the first one without.

Source: docs/explanation/systems.md, S3, S5; docs/explanation/memory/README.md.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from farlane.backend.device.allocations import Allocations
from farlane.backend.device.base import LaunchShape, Rows
from farlane.backend.device.sim.memory.memory import Memory
from farlane.backend.device.sim.observers.observer import Ended, Observer
from farlane.backend.device.sim.options import Settings
from farlane.backend.jit import KernelInfo, Options, Worker
from farlane.backend.jit.runtime import touches
from farlane.backend.memory.cores.model import MemoryModel
from farlane.backend.memory.cores.touches import Words
from farlane.backend.memory.paging import PageTable
from farlane.backend.memory.paging.spec import shift_of
from farlane.backend.memory.slots.core import Demand
from farlane.backend.system import files

if TYPE_CHECKING:
    from farlane.backend.memory.cores.objects import Accesses
    from farlane.backend.memory.cores.trace import TraceWriter

_LEGACY = 0  # the number of the legacy default stream

_log = logging.getLogger(__name__)


def numbered(path: str, session: int) -> Path:
    """The file of a session."""
    found = Path(path)
    return found if session == 1 else found.with_name(f"{found.stem}.{session}{found.suffix}")


class ModelObserver(Observer):
    """One session. One thread at a time."""

    def __init__(self, wanted: Settings, session: int, open_table: Callable[[int], PageTable] | None) -> None:
        """`open_table`: the session's page table, for pages of so many bytes; None: the model has one of its own, in which pages stay where they are."""
        self._settings, self._session = wanted, session
        self._config = wanted.configuration()
        spec = self._config.tlb
        table = None if open_table is None else open_table(spec.page_bytes)
        self._writer: TraceWriter | None = None
        if wanted.trace:
            from farlane.backend.memory.cores.trace import TraceWriter  # few sessions want it

            self._writer = TraceWriter(numbered(wanted.trace, session), spec.cores, spec.page_bytes)
        self._model = MemoryModel(self._config, tlb=wanted.tlb, fast=wanted.fast, trace=self._writer, table=table)
        self._accesses: Accesses | None = None
        if wanted.accesses:
            from farlane.backend.memory.cores.objects import Accesses  # likewise

            self._accesses = Accesses(spec.page_bytes)
        self._touched: list[Any] = []
        self._buffer = touches.Buffer(self._take, shift_of(spec.page_bytes))
        self._streams: dict[int, tuple[int, Any]] = {}  # by identity; the stream is kept, so that none takes its place
        self._sizes: dict[int, int] = {}
        self._behind_legacy = False
        self._stream = _LEGACY
        self._started = time.perf_counter()
        self._kernel_seconds = 0.0
        self._open = True

    @classmethod
    def of(cls, wanted: Settings, session: int, memory: Memory) -> ModelObserver:
        """What records a session with this memory."""
        if memory.attended:  # its page table says where pages are now, not where they were
            return cls(wanted, session, None)
        return cls(wanted, session, lambda page_bytes: memory.open_space(page_bytes).page_table)

    follows_pages = True

    def options(self, options: Options) -> Options:
        return dataclasses.replace(options, touches=True)

    def attach(self, worker: Worker) -> None:
        """What this worker's kernels touch is recorded."""
        self._buffer.attach(worker)

    # Launches ---------------------------------------------------------------------------------------------------
    def stream(self, stream: Any, legacy: bool) -> None:
        """What the next launch is in."""
        self._stream = _LEGACY if legacy else self._streams.setdefault(id(stream), (len(self._streams) + 1, stream))[0]

    def begin(self, name: str, info: KernelInfo, shape: LaunchShape, memory: Memory) -> None:
        """Before a launch."""
        legacy = self._stream == _LEGACY
        if legacy or self._behind_legacy:
            self._model.barrier()
        self._behind_legacy = legacy
        threads = shape.block[0] * shape.block[1] * shape.block[2]
        # A kernel that is launched with so many threads is compiled for so few registers.
        registers = max(16, min(info.registers, self._config.cores.registers // (-(-threads // 32) * 32) // 8 * 8))
        demand = Demand(info.static_shared + shape.shared_bytes, registers, threads)
        self._model.begin(name, self._stream, demand, shape.grid[0] * shape.grid[1] * shape.grid[2])

    def ended(self, launch: Ended, allocations: Allocations) -> None:
        if not launch.done:
            self._buffer.flush()
            self._model.abandon()
            self._touched.clear()
            return
        self._kernel_seconds += launch.seconds
        self._buffer.flush()
        if self._accesses is not None and self._touched:
            parameters = launch.parameters
            words = np.frombuffer(parameters[: len(parameters) // 8 * 8], np.uint64).tolist()
            self._accesses.launched(np.concatenate(self._touched), words)
            self._touched.clear()

    def synchronized(self) -> None:
        self._model.barrier()

    def _take(self, words: Words) -> None:
        self._model.touch(words)
        if self._accesses is not None:
            from farlane.backend.memory.cores.objects import pages_of

            self._touched.append(pages_of(words))

    # Memory -----------------------------------------------------------------------------------------------------
    def allocated(self, address: int, size: int) -> None:
        self._sizes[address] = size
        if self._accesses is not None:
            self._accesses.allocated(address, size)

    def ending(self, address: int) -> None:
        """What has been launched is modelled first."""
        self._model.gone(address, address + self._sizes.pop(address, 0))
        if self._accesses is not None:
            self._accesses.freed(address)

    def cleared(self, allocations: Allocations) -> None:
        for address in list(self._sizes):
            self.ending(address)

    def written(self, rows: Rows, by_kernel: bool = False) -> None:
        if not by_kernel:
            self._copied((rows, True))

    def read(self, rows: Rows) -> None:
        self._copied((rows, False))

    def copied(self, destination: Rows, source: Rows, by_kernel: bool = False) -> None:
        if not by_kernel:
            self._copied((destination, True), (source, False))

    def _copied(self, *ranges: tuple[Rows, bool]) -> None:
        """A copy or memset, and which of its rows are written."""
        if self._accesses is not None:
            self._accesses.copied((rows.address, rows.width * rows.height, written) for rows, written in ranges)

    # The end ----------------------------------------------------------------------------------------------------
    def close(self, memory: Mapping[str, Any]) -> None:
        """Writes the files. Idempotent. `memory`: what the session's memory has to report, of what moved between device and host."""
        if not self._open:
            return
        self._open = False
        report = self._model.report()
        report["migration"] = dict(memory)
        report["seconds"]["kernels"] = self._kernel_seconds
        report["seconds"]["session"] = time.perf_counter() - self._started
        if self._writer is not None:
            self._writer.close()
        if self._accesses is not None and self._settings.accesses:
            if self._accesses.full:
                _log.warning("the trace of accesses is full; what came later is left out")
            files.replace(
                numbered(self._settings.accesses, self._session), json.dumps(self._accesses.to_json()).encode()
            )
        files.replace(numbered(self._settings.report, self._session), json.dumps(report).encode())
