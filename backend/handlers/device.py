"""Operations of the tape on the device as a whole: CHECK_END and TIMELINE.

The others of the family are in generated_handlers.py.
"""

from __future__ import annotations

import struct
import time

from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.memory import Reading
from farlane.backend.objects.resources import Resources

_TIMELINE_HEAD = struct.Struct("<QI4x")
TIMELINE_SIZES = (_TIMELINE_HEAD.size, 64 << 10)  # the least and the most bytes of TIMELINE's answer


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
