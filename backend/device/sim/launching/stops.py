"""Where the work of one session stops for a session of a higher priority: launches at block boundaries, loops between two steps.

Owns the request and how it reaches code that runs. A launch that is stopped takes no more blocks; those that it has taken run to their end. What is left of it is known
by its next block: that, and its parameters, is its context. A launch whose blocks wait for each other has all of them begun, and is not stopped.

Who comes when is the task manager's (tasks.py). Threads: `request` is called from any, all else from the session's.
Source: mission.md S2 point 5 (a), (b) and (e).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from farlane.backend import jit
from farlane.backend.device.sim.runtime.prepared import Prepared


def _nobody() -> None:
    """No other session waits."""


class Stops:
    """Of one session.

    Args:
        step_aside: lets waiting sessions of a higher priority have the device, and returns when it is this one's again.
    """

    def __init__(self, step_aside: Callable[[], None] = _nobody) -> None:
        self._step_aside = step_aside
        self._launch: jit.Launch | None = None  # runs, and can be stopped
        self._wanted = False
        self._loop: ctypes.c_uint32 | None = None

    @property
    def can_come(self) -> bool:
        """Whether a launch may be asked to stop: it then takes one block, or cluster, at a time."""
        return self._step_aside is not _nobody

    def request(self) -> None:
        """Whatever runs is to stop soon."""
        self._wanted = True
        if (launch := self._launch) is not None:
            launch.pause = 1
        if (loop := self._loop) is not None:
            loop.value = 1

    # Launches ---------------------------------------------------------------------------------------------------
    def begin(self, prepared: Prepared) -> None:
        """A launch is about to run."""
        if not prepared.has_blocks and self._loop is None:
            prepared.launch.pause = 0
            self._launch = prepared.launch
            if self._wanted:  # read behind the store: a request is seen here, or sees the launch
                prepared.launch.pause = 1

    def went_aside(self, prepared: Prepared) -> bool:
        """Where the launch has stopped before its end: lets others run, and returns when it may go on. False: it was through."""
        launch = prepared.launch
        if not launch.pause or launch.next_block >= launch.end_block:
            return False
        self._wanted, launch.pause = False, 0
        self._step_aside()
        return True

    def end(self, prepared: Prepared) -> None:
        self._launch = None
        prepared.launch.pause = 0

    # Loops ------------------------------------------------------------------------------------------------------
    def before_loop(self, word: ctypes.c_uint32) -> None:
        """A loop comes next, which a word that is not 0 ends: others run now, for inside of it memory has to stay."""
        self._wanted, word.value = False, 0
        self._step_aside()

    def begin_loop(self, word: ctypes.c_uint32) -> None:
        self._loop = word
        if self._wanted:
            word.value = 1

    def end_loop(self) -> None:
        self._loop = None
