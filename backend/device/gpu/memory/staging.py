"""Pinned host memory that bytes go through on their way from a GPU, of reads that the plane leaves to us: rows that are apart, and arrays.

Owns pieces in turns, so that the GPU fills one while the other is sent. The plane has its own for plain reads, and what goes to the GPU goes
through pinned memory of the plane's (backend/plane/src/device/cuda).

One thread at a time.
Source: CUDA programming guide, "Page-Locked Host Memory".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence

from farlane.backend.device.base import Rows
from farlane.backend.device.gpu.driver.interface import DISABLE_TIMING, BoxEnd, Direction, Driver
from farlane.backend.device.gpu.memory.boxes import Box

PIECE = 1 << 20
_TURNS = 3

Part = Rows | Box


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
