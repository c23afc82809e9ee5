"""Streams and events of a session.

Work runs when it is issued, in tape order, on the thread that issues it: an order that every stream rule of CUDA allows.
So a stream has no queue, waiting for an event is always over, and an event's record is the moment at which it is issued,
which is when all work before it has just been done.

Source: CUDA runtime API, "Stream synchronization behavior" and "Event Management".
"""

from __future__ import annotations

from farlane.backend.device.base import LEGACY_STREAM, PER_THREAD_STREAM, CudaError
from farlane.backend.generated_errors import INVALID_RESOURCE_HANDLE
from farlane.backend.plane import Event, Stream

DISABLE_TIMING = 2


class Timeline:
    """The streams and events of one session."""

    def __init__(self) -> None:
        self._defaults = {LEGACY_STREAM: Stream(), PER_THREAD_STREAM: Stream()}

    def default_stream(self, number: int) -> Stream:
        try:
            return self._defaults[number]
        except KeyError:
            raise CudaError(INVALID_RESOURCE_HANDLE, f"there is no default stream {number}") from None

    def create_stream(self, flags: int, priority: int) -> Stream:
        return Stream()

    def destroy_stream(self, stream: Stream) -> None:
        self.check_stream(stream)
        if stream in self._defaults.values():
            raise CudaError(INVALID_RESOURCE_HANDLE, "a default stream cannot be destroyed")
        stream.end()

    def create_event(self, flags: int) -> Event:
        return Event(timed=not flags & DISABLE_TIMING)

    def destroy_event(self, event: Event) -> None:
        self.check_event(event)
        event.end()

    def record(self, event: Event, stream: Stream) -> None:
        self.check_stream(stream)
        self.check_event(event)
        event.record()

    def elapsed_ms(self, start: Event, end: Event) -> float:
        return (self._time(end) - self._time(start)) / 1e6

    def _time(self, event: Event) -> int:
        self.check_event(event)
        if not event.timed:
            raise CudaError(INVALID_RESOURCE_HANDLE, "an event created without timing has no time")
        recorded = event.nanoseconds
        if recorded is None:
            raise CudaError(INVALID_RESOURCE_HANDLE, "an event that was never recorded has no time")
        return recorded

    def check_stream(self, stream: Stream) -> None:
        if not stream.alive:
            raise CudaError(INVALID_RESOURCE_HANDLE, "the stream has been destroyed")

    def check_event(self, event: Event) -> None:
        if not event.alive:
            raise CudaError(INVALID_RESOURCE_HANDLE, "the event has been destroyed")
