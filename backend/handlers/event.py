"""Event operations of the tape: EVENT_CREATE, EVENT_DESTROY, EVENT_QUERY, EVENT_ELAPSED. The others are in generated_handlers.py.

Owns nothing: what an event has captured is the context's to know.
"""

from __future__ import annotations

import struct

from farlane.backend.generated_errors import NOT_READY, SUCCESS
from farlane.backend.objects.resources import Resources

_F32 = struct.Struct("<f")


def event_create(resources: Resources, event: int, flags: int) -> None:
    with resources.events.reserve(event) as reservation:
        reservation.fill(resources.context.create_event(flags))


def event_destroy(resources: Resources, event: int) -> None:
    value = resources.events.release(event)
    if value is not None:
        resources.context.destroy_event(value)


def event_query(resources: Resources, event: int) -> int:
    return SUCCESS if resources.context.event_done(resources.events.get(event)) else NOT_READY


def event_elapsed(resources: Resources, start: int, end: int) -> int:
    milliseconds = resources.context.elapsed_ms(resources.events.get(start), resources.events.get(end))
    return int.from_bytes(_F32.pack(milliseconds), "little")
