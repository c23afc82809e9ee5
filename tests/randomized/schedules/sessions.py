"""A session of a random schedule: what it does on the simulated device, and the digest of all that it reads.

What a session does follows from its seed alone; when it comes to it does not. So the same session has the same digest alone and beside any others, on a device of
any memory. Buffers lie one behind the other, and pages are shared by neighbours.
"""

from __future__ import annotations

import hashlib
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

from farlane.backend.device.base import LEGACY_STREAM, LaunchShape, Rows
from farlane.backend.device.sim import Oversubscription, SimDevice

FOLDER = Path(__file__).parent
IMAGE = (FOLDER.parents[1] / "unit/sim/memory/reuse.ptx").read_bytes()
TURNING = (FOLDER / "turning.ptx").read_bytes()
GRANULE = 2 << 20
SIZES = (300, 4096, 70_000, 600_000, 2_500_000, 5_000_000)
STEPS = (
    "allocate",
    "free",
    "write",
    "set",
    "copy",
    "mix",
    "mix",
    "gather",
    "turn",
    "turn",
    "read",
    "wait",
    "prioritize",
)


class Session:
    """Runs `count` steps; `digest` is what it has read. `prioritize` takes its priorities; None: the device does."""

    def __init__(
        self, device: SimDevice, seed: int, count: int, prioritize: Callable[[int], None] | None = None
    ) -> None:
        self._source = random.Random(seed)
        self._waits = random.Random(seed + 1)  # not of what is computed
        self._count = count
        self._context = context = device.open_context(256 << 20)
        self._stream = context.default_stream(LEGACY_STREAM)
        self._base = context.window.base
        self._live: dict[int, int] = {}
        self._end = 0
        self._digest = hashlib.sha256()
        self._say_priority = prioritize or context.prioritize
        self._say_priority(self._waits.randrange(10))

    def run(self) -> str:
        context = self._context
        self._modules = context.load_module(IMAGE), context.load_module(TURNING)
        for _ in range(4):
            self._allocate()
        for _ in range(self._count):
            getattr(self, f"_{self._source.choice(STEPS)}")()
        for place, size in sorted(self._live.items()):
            self._take(place, size)
        context.close()
        return self._digest.hexdigest()

    def _pick(self) -> tuple[int, int]:
        place = self._source.choice(sorted(self._live))
        return place, self._live[place]

    def _rows(self, offset: int, width: int, pitch: int = 0, height: int = 1) -> Rows:
        return Rows(self._base + offset, pitch, width, height)

    def _launch(self, module: int, kernel: str, parameters: bytes, blocks: int) -> None:
        function = self._context.function(self._modules[module], kernel)
        shape = LaunchShape((blocks, 1, 1), (128, 1, 1), 0)
        self._context.launch(function, shape, memoryview(parameters), self._stream)

    def _allocate(self) -> None:
        size = self._source.choice(SIZES)
        if len(self._live) < 9:
            self._context.allocate(self._base + self._end, size)
            self._live[self._end] = size
            self._end += -(-size // 256) * 256

    def _free(self) -> None:
        place, _ = self._pick()
        if len(self._live) > 4:
            self._context.free(self._base + place)
            del self._live[place]

    def _write(self) -> None:
        place, size = self._pick()
        at = self._source.randrange(size)
        content = self._source.randbytes(min(size - at, self._source.choice((5, 3000, 1_000_000))))
        self._context.write(self._rows(place + at, len(content)), memoryview(content), self._stream)

    def _set(self) -> None:
        place, size = self._pick()
        width = size // 8 // 4 * 4
        self._context.set(self._rows(place, width, 2 * width, 2), self._source.randrange(1 << 32), 4, self._stream)

    def _copy(self) -> None:
        (to, size), (source, other) = self._pick(), self._pick()
        width = min(size, other) // 6
        if to != source:
            self._context.copy(self._rows(to, width, 2 * width, 3), self._rows(source, width, width, 3), self._stream)

    def _mix(self) -> None:
        (to, size), (source, other) = self._pick(), self._pick()
        count = min(size, other) // 4
        if to != source:
            self._launch(0, "mix", struct.pack("<QQI", self._base + to, self._base + source, count), -(-count // 128))

    def _gather(self) -> None:
        """Its destination is found through a pointer in memory."""
        (to, size), (source, other), (holder, _) = self._pick(), self._pick(), self._pick()
        count = min(size - 8, other) // 512 * 128
        if count and len({to, source, holder}) == 3:
            pointer = memoryview(struct.pack("<Q", self._base + to))
            self._context.write(self._rows(holder, 8), pointer, self._stream)
            parameters = struct.pack("<QQII", self._base + holder, self._base + source, count, 129)
            self._launch(0, "gather", parameters, count // 128)
            self._context.write(
                self._rows(holder, 8), memoryview(bytes(8)), self._stream
            )  # addresses are a session's own

    def _turn(self) -> None:
        """Takes long enough to be stopped."""
        place, size = self._pick()
        blocks = size // 512
        if blocks:
            turns = self._source.choice((1, 100, 4000)) * 4000 // blocks + 1
            self._launch(1, "turn", struct.pack("<QI", self._base + place, turns), blocks)

    def _read(self) -> None:
        place, size = self._pick()
        at = self._source.randrange(size)
        self._take(place + at, min(size - at, self._source.choice((9, 5000, 3_000_000))))

    def _take(self, offset: int, size: int) -> None:
        for piece in self._context.read(self._rows(offset, size), self._stream):
            self._digest.update(piece)

    def _wait(self) -> None:
        self._context.rest()
        time.sleep(self._waits.choice((0, 0.001, 0.01)))

    def _prioritize(self) -> None:
        self._say_priority(self._waits.randrange(10))


def shared(granules: int) -> SimDevice:
    """A device of so little memory for all of its sessions."""
    return SimDevice(threads=2, total_memory=16 << 30, oversubscription=Oversubscription(shared=granules * GRANULE))
