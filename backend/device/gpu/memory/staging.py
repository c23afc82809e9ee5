"""Pinned host memory that bytes go through on their way to and from a GPU.

Owns two pools. `Outgoing`: chunks that are filled one after another with what the guest sends; a chunk is filled anew only when the copies out of
it are over, which an event on each stream that used it tells. Small writes cost no event: the events are recorded when the chunk is full. `Incoming`:
pieces in turns, so that the GPU fills one while the other is sent.

Copies from pinned memory are asynchronous, those from other memory are not: that is what the copying in between buys.

One thread at a time.
Source: CUDA programming guide, "Page-Locked Host Memory".
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from farlane.backend.device.base import Rows
from farlane.backend.device.gpu.driver.interface import DISABLE_TIMING, BoxEnd, Direction, Driver
from farlane.backend.device.gpu.memory.boxes import Box

PIECE = 1 << 20
CHUNKS = 16
_TURNS = 3
_ALIGNMENT = 256

Part = Rows | Box


class _Chunk:
    """PIECE bytes of pinned memory; `events` end with the copies out of it."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.view = memoryview((ctypes.c_uint8 * PIECE).from_address(address)).cast("B")
        self.filled = 0
        self.streams: set[int] = set()
        self.events: list[int] = []


class Outgoing:
    """Bytes on their way to the device."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._full: deque[_Chunk] = deque()  # oldest first
        self._open: _Chunk | None = None
        self._free: list[_Chunk] = []
        self._chunks = 0

    def put(self, data: memoryview, stream: int) -> int:
        """Keeps at most PIECE bytes and returns their address; the caller issues the copy on that stream next."""
        size = len(data)
        chunk = self._open
        if chunk is None or chunk.filled + size > PIECE:
            if chunk is not None:
                self._close(chunk)
            chunk = self._open = self._take()
        at = chunk.filled
        chunk.view[at : at + size] = data
        chunk.filled = -(-(at + size) // _ALIGNMENT) * _ALIGNMENT
        chunk.streams.add(stream)
        return chunk.address + at

    def leave(self, stream: int) -> None:
        """The stream ends: after this nothing can be recorded on it."""
        if self._open is not None and stream in self._open.streams:
            self._mark(self._open, stream)
            self._open.streams.discard(stream)

    def _mark(self, chunk: _Chunk, stream: int) -> None:
        event = self._driver.create_event(DISABLE_TIMING)
        chunk.events.append(event)
        self._driver.record_event(event, stream)

    def _close(self, chunk: _Chunk) -> None:
        for stream in chunk.streams:
            self._mark(chunk, stream)
        chunk.streams.clear()
        self._full.append(chunk)

    def _take(self) -> _Chunk:
        """A chunk that nothing is copied out of. Only when all are in use does it wait, for the oldest."""
        if self._free:
            return self._free.pop()
        if self._full and (self._chunks >= CHUNKS or all(map(self._driver.event_done, self._full[0].events))):
            chunk = self._full.popleft()
            for event in chunk.events:
                self._driver.synchronize_event(event)
                self._driver.destroy_event(event)
            chunk.events.clear()
            chunk.filled = 0
            return chunk
        self._chunks += 1
        return _Chunk(self._driver.allocate_pinned(PIECE))

    def idle(self) -> None:
        """No work runs: everything is free again."""
        chunks = [*self._full, *([self._open] if self._open else ())]
        self._full.clear()
        self._open = None
        for chunk in chunks:
            for event in chunk.events:
                self._driver.destroy_event(event)
            chunk.events.clear()
            chunk.streams.clear()
            chunk.filled = 0
            self._free.append(chunk)

    def close(self, release: Callable[[int], None]) -> None:
        """Gives the memory back. No work runs, or the context is lost."""
        for chunk in [*self._full, *self._free, *([self._open] if self._open else ())]:
            release(chunk.address)
        self._full.clear()
        self._free.clear()
        self._open, self._chunks = None, 0


class Incoming:
    """Bytes on their way from the device."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._places: list[int] = []
        self._events: list[int] = []

    def read(self, parts: Sequence[Part], stream: int) -> Iterator[memoryview]:
        """Copies the parts, each at most PIECE bytes; up to two are on their way while one is looked at."""
        driver = self._driver
        turns = min(len(parts), _TURNS)
        while len(self._places) < turns:
            self._places.append(driver.allocate_pinned(PIECE))
            self._events.append(driver.create_event(DISABLE_TIMING))
        if len(parts) == 1:
            self._issue(parts[0], self._places[0], stream)
            driver.synchronize_stream(stream)
            return iter((self._view(parts[0], self._places[0]),))
        return self._in_turns(parts, stream)

    def _in_turns(self, parts: Sequence[Part], stream: int) -> Iterator[memoryview]:
        driver = self._driver
        issued = taken = 0
        try:
            for number, part in enumerate(parts):
                while issued < len(parts) and issued < number + _TURNS - 1:
                    turn = issued % _TURNS
                    self._issue(parts[issued], self._places[turn], stream)
                    driver.record_event(self._events[turn], stream)
                    issued += 1
                driver.synchronize_event(self._events[number % _TURNS])
                taken = number + 1
                yield self._view(part, self._places[number % _TURNS])
        finally:
            if issued > taken:  # given up halfway: the next read must find the places free
                driver.synchronize_stream(stream)

    def _issue(self, part: Part, place: int, stream: int) -> None:
        if isinstance(part, Box):
            self._driver.copy_box(part.work(destination=BoxEnd(address=place, pitch=part.width, host=True)), stream)
        elif part.height == 1:
            self._driver.copy(place, part.address, part.width, Direction.TO_HOST, stream)
        else:
            self._driver.copy_rows(
                place, part.width, part.address, part.pitch, part.width, part.height, Direction.TO_HOST, stream
            )

    @staticmethod
    def _view(part: Part, place: int) -> memoryview:
        return memoryview((ctypes.c_uint8 * (part.width * part.height)).from_address(place)).cast("B")

    def close(self, release: Callable[[int], None], end: Callable[[int], None]) -> None:
        for place in self._places:
            release(place)
        for event in self._events:
            end(event)
        self._places.clear()
        self._events.clear()
