"""A session of the simulated device with small hand-written kernels, and short ways to use it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from farlane.backend.device.base import LEGACY_STREAM, LaunchShape, Rows
from farlane.backend.device.sim import SimDevice
from farlane.backend.device.sim.context import SimContext

PTX = (Path(__file__).parent / "kernels.ptx").read_bytes()
QUOTA = 1 << 30


class Program:
    """A session with the test kernels, or an image of one's own, loaded, and short ways to use it."""

    def __init__(self, device: SimDevice, image: bytes = PTX) -> None:
        context = device.open_context(QUOTA)
        assert isinstance(context, SimContext)
        self.context = context
        self.image = image
        self.module = context.load_module(image)
        self.stream = context.default_stream(LEGACY_STREAM)
        self._next = context.window.base

    def allocate(self, size: int, content: bytes = b"") -> int:
        """New memory on pages of its own, with an unmapped page behind it."""
        address = self._next
        self._next += (size + 4095) // 4096 * 4096 + 4096
        self.context.allocate(address, size)
        if content:
            self.write(address, content)
        return address

    def write(self, address: int, content: bytes) -> None:
        self.context.write(Rows(address, len(content), len(content), 1), memoryview(content), self.stream)

    def read(self, address: int, size: int) -> bytes:
        return b"".join(bytes(piece) for piece in self.context.read(Rows(address, size, size, 1), self.stream))

    def launch(self, kernel: str, parameters: bytes = b"", *, grid: Any = 1, block: Any = 1, shared: int = 0) -> None:
        shape = LaunchShape(_triple(grid), _triple(block), shared)
        function = self.context.function(self.module, kernel)
        self.context.launch(function, shape, memoryview(parameters), self.stream)


def _triple(value: Any) -> tuple[int, int, int]:
    return (value, 1, 1) if isinstance(value, int) else value


def pack(form: str, *values: float) -> bytes:
    return struct.pack("<" + form, *values)
