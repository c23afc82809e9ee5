"""Operations of the tape on the device as a whole: DEVICE_SYNCHRONIZE, DEVICE_RESET, DEVICE_LIMIT, CHECK_END, TIMELINE.

Does not own the sticky errors, which DEVICE_RESET clears: they are the plane's.
"""

from __future__ import annotations

import struct
import time

from farlane.backend.errors import ProtocolError
from farlane.backend.generated_errors import SUCCESS
from farlane.backend.handlers.memory import Reading
from farlane.backend.objects.resources import Resources

_TIMELINE_HEAD = struct.Struct("<QI4x")
TIMELINE_SIZES = (_TIMELINE_HEAD.size, 64 << 10)  # the least and the most bytes of TIMELINE's answer


def device_synchronize(resources: Resources) -> int:
    resources.context.synchronize()
    return SUCCESS


def device_reset(resources: Resources) -> int:
    resources.reset()
    return SUCCESS


def check_end(resources: Resources) -> int:
    return resources.context.finish_checks()


def timeline(resources: Resources, first: int, size: int) -> Reading:
    """The session's clock, and when it did what, from line `first` on."""
    if not TIMELINE_SIZES[0] <= size <= TIMELINE_SIZES[1]:
        raise ProtocolError(f"a TIMELINE that answers with {size} bytes")
    now, text, room = time.monotonic_ns(), b"", size - _TIMELINE_HEAD.size
    if room and resources.lines is not None:
        text = resources.lines(first, room)
    return Reading(size, ((_TIMELINE_HEAD.pack(now, len(text)) + text).ljust(size, b"\0"),))


def device_limit(resources: Resources, limit: int, value: int) -> None:
    resources.context.set_limit(limit, value)
