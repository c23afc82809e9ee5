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


def _nobody() -> None:
    """No other session waits."""


def _not_charged(nanoseconds: int) -> None:
    """No other session shares the device's time."""


class Stops:
    """Of one session.

    Args:
        step_aside: lets waiting sessions have the device, and returns when it is this one's again.
        word: of a u32: others write there, and 0 when it is this session's turn. None: `request` writes to one of its own.
        helped: is given the nanoseconds for which other threads have worked for the session.
    """

    def __init__(
        self,
        step_aside: Callable[[], None] = _nobody,
        word: int | None = None,
        helped: Callable[[int], None] = _not_charged,
    ) -> None:
        self._step_aside = step_aside
        self.helped = helped
        self._own = ctypes.c_uint32(0)
        self.word: int = word or ctypes.addressof(self._own)
        self.in_loop = False  # which ends when it is to stop: its launches do not

    @property
    def can_come(self) -> bool:
        """Whether a launch may be asked to stop: it then takes one block, or cluster, at a time."""
        return self._step_aside is not _nobody

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
