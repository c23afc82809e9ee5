"""Sessions that give way to each other on one simulated device, and share its memory (`farlane serve --shared-memory`).

Owns how a session meets the task manager: each operation on device memory, a copy or a launch, is done while the session has the device. Who has it when is the
manager's (tasks.py), what moves is the shared memory's (memory/shared.py). What a session does otherwise is context.py's.

A kernel is compiled, and an image read, before the session asks for the device.
Source: docs/explanation/systems.md, S2 points 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from farlane.backend.device.base import LaunchShape, Rows
from farlane.backend.device.sim.context import SimContext
from farlane.backend.device.sim.launching.stops import Stops
from farlane.backend.device.sim.memory.managed import ManagedMemory
from farlane.backend.device.sim.memory.shared import Switching
from farlane.backend.device.sim.memory.shared_residency import SharedResidency
from farlane.backend.device.sim.memory.turn import Turn
from farlane.backend.device.sim.runtime.modules import SimFunction, SimModule

_READ_BYTES = 4 << 20  # of a copy to the host, for which the session has the device at once


class SwitchedContext(SimContext):
    """See the module."""

    def __init__(self, switching: Switching, *arguments: Any) -> None:
        self._switching = switching
        self._manager = switching.manager
        self._task = self._manager.new_task()
        super().__init__(*arguments)
        assert isinstance(self._memory, ManagedMemory)
        assert isinstance(self._memory.residency, SharedResidency)
        self._managed, self._residency = self._memory, self._memory.residency
        self._working = Turn(switching.manager, switching.physical, self._task, self.direct.gate)
        switching.physical.join(self._managed.space.number, self._task, self._residency)

    def _begin(self) -> None:
        super()._begin()
        self._launcher.stops = Stops(self._step_aside)
        self._manager.set_stop(self._task, self._launcher.stops.request)

    def _step_aside(self) -> None:
        assert isinstance(self._working, Turn)
        self._working.step_aside()

    def prioritize(self, priority: int) -> None:
        self._manager.prioritize(self._task, priority)

    def rest(self) -> bool:
        self._manager.rest(self._task)
        return True

    def interrupt(self) -> None:
        super().interrupt()
        self._manager.interrupt(self._task)

    def close(self) -> None:
        self._manager.interrupt(self._task)
        super().close()

    def reset(self) -> None:
        with self._working:
            super().reset()

    def counts(self) -> dict[str, int]:
        return super().counts() | self._switching.counts(self._task, self._residency).brief()

    def report(self) -> dict[str, dict[str, int]]:
        return {**super().report(), "switching": self._switching.counts(self._task, self._residency).report()}

    # Memory -----------------------------------------------------------------------------------------------------
    def allocate(self, address: int, size: int) -> None:
        with self._working:
            super().allocate(address, size)

    def free(self, address: int) -> None:
        with self._working:
            super().free(address)

    def read(self, rows: Rows, stream: Any) -> Iterator[memoryview | bytes]:
        with self._working:
            super().read(rows, stream)  # what is wrong with it is said at once
        return self._copies(rows)

    def _copies(self, rows: Rows) -> Iterator[bytes]:
        """The bytes: what is shown of device memory could leave it while the guest takes it."""
        for part in _parts(rows):
            pieces: list[bytes] = []
            with self._working:
                if self._closed:
                    return
                pieces += map(bytes, self._memory.read(part))
            yield from pieces

    # Modules and launches ---------------------------------------------------------------------------------------
    def load_module(self, image: bytes) -> SimModule:
        self._library.parse(image)
        with self._working:
            return super().load_module(image)

    def unload_module(self, module: SimModule) -> None:
        with self._working:
            super().unload_module(module)

    def launch(self, function: SimFunction, shape: LaunchShape, parameters: memoryview, stream: Any) -> None:
        self._launcher.compile(function, shape)
        super().launch(function, shape, parameters, stream)

    def expect(self, launches: Sequence[memoryview | bytes]) -> None:
        with self.direct.gate:
            if not self._closed:
                self._memory.expect(launches)

    def set_limit(self, limit: int, value: int) -> None:
        with self._working:
            super().set_limit(limit, value)


def _parts(rows: Rows) -> Iterator[Rows]:
    """The same rows in pieces of at most _READ_BYTES."""
    if rows.width > _READ_BYTES:
        for row in range(rows.height):
            for start in range(0, rows.width, _READ_BYTES):
                width = min(_READ_BYTES, rows.width - start)
                yield Rows(rows.address + row * rows.pitch + start, width, width, 1)
        return
    each = max(1, _READ_BYTES // max(1, rows.width))
    for row in range(0, rows.height, each):
        yield Rows(rows.address + row * rows.pitch, rows.pitch, rows.width, min(each, rows.height - row))
