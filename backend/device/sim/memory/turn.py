"""A session's turn: what it holds while it uses device memory that it shares with other sessions.

Owns the order of the two locks: first the device, which the task manager gives (tasks.py), then the session's gate, behind which its memory ends. What the rule of switching
moves at once is moved here, by the thread of the session that got the device.

For one thread, the session's own; it may enter again. Another one may acquire and release, as the session's end does.
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.backend.device.base import CudaError
from farlane.backend.device.sim.memory.shared import Shared
from farlane.backend.device.sim.tasks import Interrupted, Manager, Task
from farlane.backend.generated_errors import LAUNCH_FAILURE
from farlane.backend.plane import Gate


class Turn:
    """Held by a session while it uses device memory: it has the device, and `close` may not give the memory back."""

    def __init__(self, manager: Manager, physical: Shared, task: Task, gate: Gate) -> None:
        self._manager, self._physical = manager, physical
        self._task, self._gate = task, gate
        self._depth = 0  # of the session's one thread

    def __enter__(self) -> None:
        if not self._depth:
            self._ask(self._manager.enter)
            self._gate.__enter__()
        self._depth += 1

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._gate.__exit__(*raised)
            self._manager.leave(self._task)

    def acquire(self, timeout: float) -> bool:
        """For the session's end, which waits for its own work alone."""
        return self._gate.acquire(timeout)

    def release(self) -> None:
        self._gate.release()

    def step_aside(self) -> None:
        """At a boundary inside: gives the device to sessions of a higher priority that wait, and waits for it again."""
        self._ask(self._manager.step_aside)

    def _ask(self, ask: Callable[[Task], Task | None]) -> None:
        try:
            previous = ask(self._task)
        except Interrupted:
            raise CudaError(LAUNCH_FAILURE, "the session has been interrupted", sticky=True) from None
        self._came(previous)

    def _came(self, previous: Task | None) -> None:
        """The session has the device, which another one may have had before."""
        if previous is None:
            return
        try:
            self._physical.switched(previous, self._task)
        except BaseException:
            self._manager.leave(self._task)
            raise
