"""Operations of the tape on the device as a whole: FENCE, DEVICE_SYNCHRONIZE, DEVICE_RESET, DEVICE_LIMIT, CHECK_END.

Does not own the sticky error that DEVICE_RESET clears: that is the replay's.
"""

from __future__ import annotations

from farlane.backend.errors import SUCCESS
from farlane.backend.resources import Resources


def fence(resources: Resources) -> int:
    """Answered by its place on the tape."""
    return SUCCESS


def device_synchronize(resources: Resources) -> int:
    resources.context.synchronize()
    return SUCCESS


def device_reset(resources: Resources) -> int:
    resources.reset()
    return SUCCESS


def check_end(resources: Resources) -> int:
    return resources.context.finish_checks()


def device_limit(resources: Resources, limit: int, value: int) -> None:
    resources.context.set_limit(limit, value)
