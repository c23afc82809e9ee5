"""Streams and events of one session on a GPU.

Owns the objects that stand for the driver's handles, and CUDA's rules that the driver does not keep for us: what was never recorded, or has no timing,
has no time. Guest streams are real streams, so their work overlaps as it does natively. The legacy default stream is the driver's own,
with its waiting for all blocking streams. The per-thread default stream is a blocking stream of the session's: CUDA's own would be the host
thread's, and the guest's threads share one on the tape.

A copy from the guest in the legacy stream is over, for the guest, when the call returns, and here it is on its way then. So work of non-blocking
streams waits for such copies, the plane's and ours; the plane knows them all (backend/plane/src/device/cuda/order.rs), and what memory was freed
while work may still use it.

One thread at a time.
Source: CUDA runtime API, "Stream synchronization behavior", "Event Management".
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from farlane.backend.device.base import LEGACY_STREAM, PER_THREAD_STREAM, CudaError
from farlane.backend.device.gpu.driver.errors import called
from farlane.backend.device.gpu.driver.interface import BLOCKING_SYNC, DISABLE_TIMING, LEGACY, NON_BLOCKING, Driver
from farlane.backend.generated_errors import INVALID_RESOURCE_HANDLE
from farlane.backend.plane import Cuda, Event, Stream


class Streams:
    """The streams and events of one session."""

    def __init__(self, driver: Driver, native: Cuda) -> None:
        self._driver = driver
        self._native = native
        self._defaults: dict[int, Stream] = {}
        self._streams: set[Stream] = set()
        self._events: set[Event] = set()

    def default(self, number: int) -> Stream:
        found = self._defaults.get(number)
        if found is None:
            if number == LEGACY_STREAM:
                found = Stream(LEGACY)
            elif number == PER_THREAD_STREAM:
                found = self.create(0, 0)
            else:
                raise CudaError(INVALID_RESOURCE_HANDLE, f"there is no default stream {number}")
            self._defaults[number] = found
        return found

    def create(self, flags: int, priority: int) -> Stream:
        handle = self._driver.create_stream(flags & NON_BLOCKING, priority)
        stream = Stream(handle, blocking=not flags & NON_BLOCKING)
        self._streams.add(stream)
        return stream

    def destroy(self, stream: Stream) -> None:
        self.check(stream)
        if stream in self._defaults.values():
            raise CudaError(INVALID_RESOURCE_HANDLE, "a default stream cannot be destroyed")
        stream.end()
        self._streams.discard(stream)
        self._driver.destroy_stream(stream.handle)

    def create_event(self, flags: int) -> Event:
        handle = self._driver.create_event(flags & (BLOCKING_SYNC | DISABLE_TIMING))
        event = Event(handle, timed=not flags & DISABLE_TIMING)
        self._events.add(event)
        return event

    def destroy_event(self, event: Event) -> None:
        self.check_event(event)
        event.end()
        self._events.discard(event)
        self._driver.destroy_event(event.handle)

    def record(self, event: Event, stream: Stream) -> None:
        self.check(stream)
        self.check_event(event)
        self._driver.record_event(event.handle, stream.handle)
        event.record()

    def elapsed_ms(self, start: Event, end: Event) -> float:
        for event in (start, end):
            self.check_event(event)
            if not event.timed:
                raise CudaError(INVALID_RESOURCE_HANDLE, "an event created without timing has no time")
            if event.nanoseconds is None:
                raise CudaError(INVALID_RESOURCE_HANDLE, "an event that was never recorded has no time")
        if start.given or end.given:
            times = self.times((start, end))
            return (times[end] - times[start]) / 1e6
        return self._driver.elapsed_ms(start.handle, end.handle)

    def times(self, events: Iterable[Event]) -> dict[Event, int]:
        """When the GPU came to them, on the monotonic clock: by the time that has passed since then. Of recorded ones that
        have a time; raises DriverError 600: one is not done."""
        driver = self._driver
        stream, now = driver.create_stream(NON_BLOCKING, 0), driver.create_event(0)
        try:
            driver.record_event(now, stream)
            driver.synchronize_event(now)
            clock = time.monotonic_ns()
            return {
                event: event.nanoseconds or 0
                if event.given
                else clock - round(1e6 * driver.elapsed_ms(event.handle, now))
                for event in events
            }
        finally:
            driver.destroy_event(now)
            driver.destroy_stream(stream)

    def all_times(self) -> dict[Event, int]:
        """Of all that have a time."""
        timed = [event for event in self._events if event.timed and event.nanoseconds is not None]
        return self.times(timed) if timed else {}

    def handles(self) -> list[int]:
        """Of all streams that are there."""
        return [LEGACY, *(stream.handle for stream in self._streams)]

    def check(self, stream: Stream) -> None:
        if not stream.alive:
            raise CudaError(INVALID_RESOURCE_HANDLE, "the stream has been destroyed")
        if not stream.blocking:
            called(self._driver, self._native.follow, stream)

    def wrote(self, stream: Stream) -> None:
        """A copy from the guest was issued in the stream."""
        self._native.wrote(stream)

    def synchronized(self) -> None:
        """All work was waited for."""
        self._native.synchronized()

    def allocated(self, address: int, size: int) -> None:
        """What is issued from now on waits for work that may still use an earlier allocation there."""
        if self._streams:
            apart = [stream.handle for stream in self._streams if not stream.blocking]
            called(self._driver, self._native.allocated, address, address + size, apart)

    def check_event(self, event: Event) -> None:
        if not event.alive:
            raise CudaError(INVALID_RESOURCE_HANDLE, "the event has been destroyed")

    def end(self) -> tuple[list[Stream], list[Event]]:
        """Forgets everything; the caller destroys the handles of what is returned, or their context."""
        streams, events = list(self._streams), list(self._events)
        self._streams.clear()
        self._events.clear()
        self._defaults.clear()
        for stream in streams:
            stream.end()
        for event in events:
            event.end()
        return streams, events
