"""A worker that ignores the turns of a device whose memory sessions share: it runs its kernels without asking for the device.

Only for memory it asks, since nothing else gives it some.
"""

from __future__ import annotations

from typing import Any


def begin() -> None:
    from farlane.backend.device.sim.processes.channel import Kind
    from farlane.backend.device.sim.processes.client import RemoteManager

    take = RemoteManager.take

    def take_and_leave(manager: Any, count: int) -> None:
        manager._wait(Kind.ENTER)
        try:
            take(manager, count)
        finally:
            with manager._state:
                manager._inside, manager._held = False, 0
                manager._tell(Kind.LEAVE, 1)

    def ignore(manager: Any, task: Any) -> None:
        pass

    RemoteManager.take = take_and_leave  # type: ignore[method-assign]
    RemoteManager.enter = RemoteManager.leave = RemoteManager.step_aside = RemoteManager.rest = ignore  # type: ignore[method-assign]
