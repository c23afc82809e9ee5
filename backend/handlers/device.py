"""Operations of the tape on the device as a whole: FENCE, DEVICE_SYNCHRONIZE, DEVICE_RESET, DEVICE_LIMIT, CHECK_END, CONTEXT.

Does not own the sticky errors, which DEVICE_RESET clears and of which CONTEXT chooses one: they are the replay's.
"""

from __future__ import annotations

from farlane.backend.errors import ProtocolError
from farlane.backend.generated_errors import SUCCESS
from farlane.backend.objects.handles import FIRST_MINTED, LAST_MINTED
from farlane.backend.objects.resources import Resources


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


def context(resources: Resources, flags: int, context: int) -> int:
    """The context whose records follow. Work is the same in all of them; the replay keeps their errors apart."""
    if context and not FIRST_MINTED <= context <= LAST_MINTED:
        raise ProtocolError(f"context {context} is outside the range that a guest may mint")
    return context


def device_limit(resources: Resources, limit: int, value: int) -> None:
    resources.context.set_limit(limit, value)
