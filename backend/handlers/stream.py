"""Stream operations of the tape: STREAM_CREATE, STREAM_DESTROY, STREAM_WAIT_EVENT, STREAM_SYNCHRONIZE, STREAM_QUERY.

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


def stream_wait_event(resources: Resources, stream: int, event: int) -> None:
    resources.context.wait_event(resources.streams.get(stream), resources.events.get(event))


def stream_synchronize(resources: Resources, stream: int) -> int:
    resources.context.synchronize(stream=resources.streams.get(stream))
    return SUCCESS


def stream_query(resources: Resources, stream: int) -> int:
    return SUCCESS if resources.context.stream_done(resources.streams.get(stream)) else NOT_READY
