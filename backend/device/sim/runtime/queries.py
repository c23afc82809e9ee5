"""What kernels ask about their device: attributes, limits, the names and texts of errors.

Owns the texts of errors in device memory, made when a kernel first asks for one. The answers are those that the host would get.

One thread at a time, under the runtime's lock.

Source: CUDA programming guide, "CUDA Dynamic Parallelism", "API Reference"; cuda_device_runtime_api.h.
"""

from __future__ import annotations

from collections.abc import Mapping

from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.sim.memory.memory import Memory, Part
from farlane.backend.device.sim.runtime.nested import DEFAULT_PENDING, Nested
from farlane.backend.generated_errors import ERRORS, INVALID_DEVICE, INVALID_VALUE, UNSUPPORTED_LIMIT
from farlane.backend.jit import Call, ServiceKind

PENDING_LAUNCH_COUNT = 4  # cudaLimitDevRuntimePendingLaunchCount
_INITIAL = {0: 1024, 1: 1 << 20, 2: 8 << 20, PENDING_LAUNCH_COUNT: DEFAULT_PENDING, 5: 128, 6: 0}  # by cudaLimit
_UNKNOWN = ("unrecognized error code", "unrecognized error code")


class Queries:
    """Answers one session's questions."""

    def __init__(self, memory: Memory, nested: Nested, attributes: Mapping[int, int]) -> None:
        self._memory = memory
        self._nested = nested
        self._attributes = attributes
        self._observers = nested.observers
        self.reset()

    def reset(self) -> None:
        """The session's memory has been given back; limits are as at the start."""
        self._limits = dict(_INITIAL)
        self._texts: dict[int, tuple[int, int]] = {}

    def limits(self) -> dict[int, int]:
        """Those that are not as at the start."""
        return {limit: value for limit, value in self._limits.items() if value != _INITIAL.get(limit)}

    def set_limit(self, limit: int, value: int) -> None:
        self._limits[limit] = value

    def serve(self, call: Call) -> None:
        """Answers ERROR_STRING, ERROR_NAME, DEVICE_COUNT, DEVICE, ATTRIBUTE and LIMIT. Raises ServiceFault."""
        for lane in call.lanes():
            if call.kind in (ServiceKind.ERROR_NAME, ServiceKind.ERROR_STRING):
                name, text = self._text(call.argument(0, lane) & 0xFFFF_FFFF)
                call.answer(lane, name if call.kind is ServiceKind.ERROR_NAME else text)
            elif call.kind is ServiceKind.DEVICE_COUNT:
                self._nested.give(call, lane, "i", 1)
            elif call.kind is ServiceKind.DEVICE:
                self._nested.give(call, lane, "i", 0)
            elif call.kind is ServiceKind.ATTRIBUTE:
                self._attribute(call, lane)
            else:
                self._limit(call, lane)

    def _attribute(self, call: Call, lane: int) -> None:
        value = self._attributes.get(call.argument(1, lane))
        if call.argument(2, lane):
            self._nested.fail(call, lane, INVALID_DEVICE)
        elif value is None:
            self._nested.fail(call, lane, INVALID_VALUE)
        else:
            self._nested.give(call, lane, "i", value)

    def _limit(self, call: Call, lane: int) -> None:
        value = self._limits.get(call.argument(1, lane))
        if value is None:
            self._nested.fail(call, lane, UNSUPPORTED_LIMIT)
        else:
            self._nested.give(call, lane, "Q", value)

    def _text(self, code: int) -> tuple[int, int]:
        """The addresses of an error's name and text; 0 where there is no room for them."""
        if not self._texts:
            self._make_texts()
        return self._texts.get(code) or self._texts.get(-1, (0, 0))

    def _make_texts(self) -> None:
        content = bytearray()
        places: dict[int, tuple[int, int]] = {}
        for code, pair in {**ERRORS, -1: _UNKNOWN}.items():
            found = []
            for text in pair:
                found.append(len(content))
                content += text.encode() + b"\0"
            places[code] = (found[0], found[1])
        size = len(content)
        try:
            base = self._memory.allocate_module(size, [Part(0, size, "texts of errors")])
        except CudaError:
            return
        self._memory.write(Rows(base, size, size, 1), memoryview(content))
        self._observers.opened(base, base + size)
        self._observers.written(Rows(base, size, size, 1), by_kernel=True)
        self._texts = {code: (base + name, base + text) for code, (name, text) in places.items()}
