"""The block dispatcher for real use: the interface of `Dispatcher`, compiled, for the two-ended rule.

The first run loads compiled code (memory/native.py): not the making, which is part of opening a session. `dispatcher` answers it where it can be had, and the one in Python for the other rules.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from farlane.backend.memory import native
from farlane.backend.memory.slots import layout
from farlane.backend.memory.slots.core import use
from farlane.backend.memory.slots.dispatcher import Dispatcher, DispatcherSpec, Ints, Kernel, Schedule
from farlane.backend.memory.slots.policies import Policy, TwoEnded

_MOST_CORES = 256


def dispatcher(spec: DispatcherSpec, policy: Policy) -> Dispatcher:
    """The quickest there is."""
    if isinstance(policy, TwoEnded) and spec.cores <= _MOST_CORES:
        return FastDispatcher(spec, policy)
    return Dispatcher(spec, policy)


class FastDispatcher(Dispatcher):
    """Equal to `Dispatcher` with the two-ended rule."""

    def __init__(self, spec: DispatcherSpec, policy: TwoEnded) -> None:
        super().__init__(spec, policy)
        if spec.cores > _MOST_CORES:
            raise ValueError(f"{spec.cores} cores; this has room for {_MOST_CORES}")

    def run(self, kernels: Sequence[Kernel]) -> Schedule:
        spec, core = self.spec, self.spec.core
        uses = [use(kernel.demand, core) for kernel in kernels]
        counts = [len(kernel.durations) for kernel in kernels]
        total, cores = sum(counts), spec.cores
        firsts = np.cumsum([0, *counts]).tolist()
        by_stream: dict[int, list[int]] = {}
        for number, kernel in enumerate(kernels):
            if counts[number]:
                by_stream.setdefault(kernel.stream, []).append(number)
        streams: list[tuple[int, int]] = []
        order: list[int] = []
        for members in by_stream.values():
            streams.append((len(order), len(order) + len(members)))
            order += members
        where = {stream: number for number, stream in enumerate(by_stream)}
        table = [
            (
                one.slots,
                one.registers,
                one.threads,
                firsts[number],
                counts[number],
                0,
                0,
                where.get(kernels[number].stream, 0),
            )
            for number, one in enumerate(uses)
        ]
        durations = np.concatenate([np.zeros(0, np.int64), *(np.asarray(one.durations, np.int64) for one in kernels)])

        def zeros(rows: int, columns: int) -> Ints:
            return np.zeros((rows, columns), np.int64)

        arrays = [
            np.array([[core.registers, core.threads, core.blocks]], np.int64),
            np.array(table, np.int64).reshape(-1, 8),
            durations.reshape(1, -1),
            np.array(streams, np.int64).reshape(-1, 2),
            np.array([order], np.int64).reshape(1, -1),
            zeros(6, total),
            zeros(cores, 7),
            np.ones((cores, core.slots), np.int64),
            zeros(cores, spec.fifo),
            np.arange(cores, dtype=np.int64).reshape(1, -1),
            zeros(1, cores),
            zeros(1, total + 1),
            zeros(1, 6),
            zeros(total, 7),
            zeros(total + 1, 2),
        ]
        rows = np.array([(one.ctypes.data, *one.shape) for one in arrays], np.int64)
        entry = native.entry(f"{__package__}.compiled", layout.__name__)
        cycles = entry(rows.ctypes.data, 0, 0)
        scalars = arrays[layout.SCALARS][0]
        placed = arrays[layout.PLACED][: scalars[layout.V_PLACED]]
        samples = arrays[layout.SAMPLES][: scalars[layout.V_SAMPLES]]
        return Schedule(placed, tuple(one.slots for one in uses), samples, cycles)
