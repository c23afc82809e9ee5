"""Operations of the tape on the device as a whole: DEVICE_SYNCHRONIZE, DEVICE_RESET, DEVICE_LIMIT, CHECK_END.

Does not own the sticky errors, which DEVICE_RESET clears: they are the plane's.
"""

from __future__ import annotations

from farlane.backend.generated_errors import SUCCESS
from farlane.backend.objects.resources import Resources


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
