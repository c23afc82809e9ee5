"""Where the work of one session stops for other sessions: launches at block boundaries, loops between two steps.

Owns the word that asks for it, and what reads that. A launch that is stopped takes no more blocks; those that it has taken run to their end. What is left of it is known
by its next block: that, and its parameters, is its context. A launch whose blocks wait for each other has all of them begun, and is not stopped.

Who comes when is the task manager's (tasks.py) where sessions share memory, which asks by `request`; else the listening process's, which writes the word itself
(farlane.backend.plane, Scheduler). Threads: `request` is called from any, all else from the session's.
Source: docs/explanation/systems.md, S2 point 5 (a), (b) and (e).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from farlane.backend.device.sim.runtime.prepared import Prepared
from farlane.backend.jit import Worker
from farlane.backend.plane import Place


def _nobody() -> None:
    """No other session waits."""


class Stops:
    """Of one session.

    Args:
        step_aside: lets waiting sessions have the device, and returns when it is this one's again.
        place: of a session that shares the device's time: others write to its word, and 0 when it is this session's turn. None: `request` writes to
            one of this object's own.
    """

    def __init__(
        self,
        step_aside: Callable[[], None] = _nobody,
        place: Place | None = None,
    ) -> None:
        self._step_aside = step_aside
        self._place = place
        self._own = ctypes.c_uint32(0)
        self.word: int = ctypes.addressof(self._own) if place is None else place.word
        self.in_loop = False  # which ends when it is to stop: its launches do not

    @property
    def can_come(self) -> bool:
        """Whether a launch may be asked to stop: it then takes one block, or cluster, at a time."""
        return self._step_aside is not _nobody

    @property
    def crowded(self) -> bool:
        """Whether other sessions wait for what a helper of this one takes, a processor."""
        return self._place is not None and self._place.crowded

    def run(self, code: int, first: int, second: int = 0) -> int | None:
        """Runs machine code that does not call back, on this thread or where it gives way to others. None: no other session shares the device's time."""
        return None if self._place is None else self._place.run(code, first, second)

    def run_blocks(self, prepared: Prepared, worker: Worker, attended: bool) -> int:
        """Runs blocks of a launch with this worker alone, as `run` does. Returns a STATUS_*.

        Args:
            attended: its accesses may call back, whatever the kernel asks for.
        """
        kernel, launch, status = prepared.kernel, prepared.launch, None
        if not (attended or prepared.calls_back):
            status = self.run(kernel.address, ctypes.addressof(launch), ctypes.addressof(worker.state))
        return kernel.run(launch, worker) if status is None else status

    def helped(self, nanoseconds: int) -> None:
        """Other threads have worked for the session for so long."""
        if self._place is not None:
            self._place.add(nanoseconds)

    def request(self) -> None:
        """Whatever runs, or comes next, is to stop soon."""
        self._own.value = 1

    def begin(self, prepared: Prepared) -> None:
        """A launch is about to run."""
        prepared.launch.pause = None if prepared.has_blocks or self.in_loop else self.word

    def went_aside(self, prepared: Prepared) -> bool:
        """Where the launch has stopped before its end: lets others run, and returns when it may go on. False: it was through."""
        launch = prepared.launch
        if launch.pause is None or launch.next_block >= launch.end_block:
            return False
        self._own.value = 0
        self._step_aside()
        return True

    def end(self, prepared: Prepared) -> None:
        prepared.launch.pause = None

    def before_loop(self) -> None:
        """A loop comes next, which the word ends: others run now, for inside of it memory has to stay."""
        self._own.value = 0
        self._step_aside()
