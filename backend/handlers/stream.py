"""Stream operations of the tape: STREAM_CREATE, STREAM_DESTROY, STREAM_QUERY. The others are in generated_handlers.py.

Owns nothing: order and completion are the context's.
"""

from __future__ import annotations

from farlane.backend.generated_errors import NOT_READY, SUCCESS
from farlane.backend.objects.resources import Resources


def stream_create(resources: Resources, stream: int, flags: int, priority: int) -> None:
    with resources.streams.reserve(stream) as reservation:
        reservation.fill(resources.context.create_stream(flags, priority))


def stream_destroy(resources: Resources, stream: int) -> None:
    value = resources.streams.release(stream)
    resources.standing.object_ended()
    if value is not None:
        resources.context.destroy_stream(value)


def stream_query(resources: Resources, stream: int) -> int:
    return SUCCESS if resources.context.stream_done(resources.streams.get(stream)) else NOT_READY
