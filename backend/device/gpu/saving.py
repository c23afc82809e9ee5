"""A session's share of a GPU, as data and made from data again.

Owns what of memory is saved, and what cannot be. Between two groups kernels may still run on a GPU: a save waits for all
of them first. Then the device has allocations, modules, streams and events. Loops' graphs are made anew. The same window
is reserved at the other host, so that addresses stay; where the driver has it in use, the session is refused there.

What is refused: what the driver keeps at addresses of its own, where it cannot be read or had again (variables of
modules, the heap of kernels, arrays). An event's time is saved as a time of day; the driver knows nothing of it afterwards
(streams.py).

One thread at a time, as all of a session's calls.
Source: docs/adr/0015-a-session-is-data.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from farlane.backend.device.base import LEGACY_STREAM, CudaError, Rows
from farlane.backend.device.gpu.driver.errors import translated
from farlane.backend.device.gpu.lifetime import Lifetime
from farlane.backend.device.gpu.memory.window import Mapped
from farlane.backend.device.saved import Fetch, SavedContext, Unsaveable
from farlane.backend.plane import Event

PAGE = 4096


class Saving(Lifetime):
    """What a context of a GPU does for that."""

    def save(self) -> SavedContext:
        try:
            self._times = self._waited()
        except CudaError as error:
            raise Unsaveable(f"its context is lost by an error: {error.message}") from None
        self._require()
        inside = self.window.base + self.window.size
        return SavedContext(
            self.window,
            [(each.start, each.size) for each in self._memory.allocations if self.window.base <= each.start < inside],
            {},
            dict(self._limits),
            None,
            0,
            self.direct.launches,
            self.device_nanoseconds + self.direct.nanoseconds,
        )

    @translated
    def _waited(self) -> dict[Event, int]:
        """No work runs any more; when its events were done."""
        self._enter()
        self._watched(self._driver.synchronize)
        return self._streams.all_times()

    def _require(self) -> None:
        """Raises Unsaveable."""
        if not isinstance(self._space, Mapped):
            raise Unsaveable("its GPU's driver cannot map memory at given addresses")
        if self._memory.arrays or self._textures.used:
            raise Unsaveable("it has arrays, textures or surfaces of the GPU, whose addresses are the driver's")
        if any(module.keeps for module in self._modules):
            raise Unsaveable(
                "a module of it has variables, or kernels that allocate memory, which the driver keeps at places of its own"
            )

    def recorded_at(self, event: Event) -> int | None:
        return self._times.get(event, event.nanoseconds)

    def restore(self, saved: SavedContext) -> None:
        if saved.areas or saved.heap is not None or saved.workspace:
            raise Unsaveable("it has memory of its host's, which hosts with a GPU do not have")
        stream = self.default_stream(LEGACY_STREAM)
        try:
            for address, size in saved.allocations:
                self.allocate(address, size)
                self.set(Rows(address, size, size, 1), 0, 1, stream)
        except CudaError as error:
            raise Unsaveable(f"this host has no room for its memory: {error.message}") from None
        self._restored = self.mapped()
        self.direct.launches, self.device_nanoseconds = saved.launches, saved.nanoseconds

    def mapped(self) -> list[tuple[int, int]]:
        """Whole pages; memory is mapped in larger parts."""
        found: list[tuple[int, int]] = []
        for each in sorted(self._memory.allocations):
            start, end = each.start // PAGE * PAGE, -(-each.end // PAGE) * PAGE
            if found and start <= found[-1][1]:
                found[-1] = found[-1][0], max(end, found[-1][1])
            else:
                found.append((start, end))
        return found

    @contextlib.contextmanager
    def reading(self) -> Iterator[Fetch]:
        yield self._fetch

    @translated
    def _fetch(self, address: int, size: int) -> bytes:
        self._enter()
        return self._memory.fetch(address, size)

    @translated
    def write_pages(self, address: int, data: bytes) -> None:
        end = address + len(data)
        if address % PAGE or end % PAGE or not any(start <= address and end <= last for start, last in self._restored):
            raise Unsaveable(f"pages at {address:#x}, where the session has no memory")
        self._enter()
        stream = self._streams.default(LEGACY_STREAM)
        self._memory.put(Rows(address, len(data), len(data), 1), memoryview(data), stream.handle)
        self._streams.wrote(stream)

    def restore_module(self, image: bytes, base: int) -> Any:
        if base:
            raise Unsaveable("a module of it has variables, which the driver would put elsewhere")
        return self.load_module(image)
