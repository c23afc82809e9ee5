"""Where kernels put the parameters of what they launch (cudaGetParameterBuffer): short-lived pieces of device memory.

Owns which pieces are free. A piece lives from the request for it to its launch, so a few serve many launches: they are kept by size. The memory
counts against the session's quota and lasts until the device is reset.

One thread at a time.
"""

from __future__ import annotations

from farlane.backend.device.base import CudaError
from farlane.backend.device.sim.memory.memory import Memory, Part
from farlane.backend.device.sim.observers.observer import Observers

_ARENA = 256 << 10  # those of a warp, mostly
_UNIT = 64
MAX_SIZE = 64 << 10


class ParameterBuffers:
    """The pieces of one session."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.forget()

    def forget(self) -> None:
        """The session's memory has been given back."""
        self._next = self._end = 0  # what was never handed out of the newest arena
        self._free: dict[int, list[int]] = {}

    def take(self, size: int, alignment: int, observers: Observers) -> int:
        """The address of a piece, 0 without room for it. `observers` hear of new memory, for a kernel runs now."""
        if alignment & (alignment - 1) or alignment > MAX_SIZE or size > MAX_SIZE:
            return 0
        bytes_ = _rounded(size)
        free = self._free.get(bytes_)
        if free and free[-1] & (alignment - 1 if alignment else 0) == 0:
            return free.pop()
        start = -(-self._next // alignment) * alignment if alignment > _UNIT else self._next
        if start + bytes_ > self._end:
            try:
                start = self._memory.allocate_module(_ARENA, [Part(0, _ARENA, "parameters of launches")], MAX_SIZE)
            except CudaError:
                return 0
            self._end = start + _ARENA
            observers.opened(start, self._end)
        self._next = start + bytes_
        return start

    def give(self, address: int, size: int) -> None:
        """A piece of so many bytes is free again."""
        self._free.setdefault(_rounded(size), []).append(address)


def _rounded(size: int) -> int:
    return max(_UNIT, -(-size // _UNIT) * _UNIT)
