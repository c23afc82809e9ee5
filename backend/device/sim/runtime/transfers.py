"""Copies and sets that kernels ask for: from the arguments of a call to ranges of memory, and doing them.

Owns what the functions' arguments mean. Does not own when a copy is done (nested.py).

Source: cuda_device_runtime_api.h; CUDA runtime API, cudaMemcpy3DParms, cudaPitchedPtr, cudaExtent. Arrays are nothing that kernels can copy.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.sim.memory.memory import Memory
from farlane.backend.device.sim.observers.observer import Observers
from farlane.backend.generated_errors import (
    ILLEGAL_ADDRESS,
    INVALID_MEMCPY_DIRECTION,
    INVALID_PITCH_VALUE,
    INVALID_VALUE,
)
from farlane.backend.jit import Call, ServiceKind

_WITHIN_DEVICE, _BY_ADDRESS = 3, 4  # cudaMemcpyKind
_PITCHED = struct.Struct("<QQQQ")  # cudaPitchedPtr: address, pitch, width, height
_EXTENT = struct.Struct("<QQQ")  # cudaExtent: width, height, depth
_PARAMETERS = struct.Struct("<Q3Q4QQ3Q4Q3Qi4x")  # cudaMemcpy3DParms: array, position and pitched pointer of both sides


class Transfer(NamedTuple):
    """A copy, or (without sources) a set of bytes; in three dimensions one range for each slice."""

    destinations: tuple[Rows, ...]
    sources: tuple[Rows, ...] | None
    value: int = 0


def asked(call: Call, lane: int) -> tuple[Transfer, int]:
    """What a thread asks for, and its stream. Raises CudaError, ServiceFault."""
    return _SHAPES[call.kind](call, lane)


def do(transfer: Transfer, memory: Memory, observers: Observers) -> None:
    """Raises a sticky CudaError."""
    try:
        for number, destination in enumerate(transfer.destinations):
            if transfer.sources is None:
                memory.set(destination, transfer.value, 1)
                observers.written(destination, by_kernel=True)
            else:
                memory.copy(destination, transfer.sources[number])
                observers.copied(destination, transfer.sources[number], by_kernel=True)
    except CudaError as error:
        raise CudaError(ILLEGAL_ADDRESS, f"a kernel's copy or set: {error.message}", sticky=True) from None


def _copy(call: Call, lane: int) -> tuple[Transfer, int]:
    destination, source, size, kind, stream = (call.argument(number, lane) for number in range(5))
    _within_device(kind)
    return Transfer(_volume(destination, size, 0, size, 1), _volume(source, size, 0, size, 1)), stream


def _set(call: Call, lane: int) -> tuple[Transfer, int]:
    destination, value, size, stream = (call.argument(number, lane) for number in range(4))
    return Transfer(_volume(destination, size, 0, size, 1), None, value & 0xFF), stream


def _copy_2d(call: Call, lane: int) -> tuple[Transfer, int]:
    to, to_pitch, from_, from_pitch, width, height, kind, stream = (call.argument(number, lane) for number in range(8))
    _within_device(kind)
    return Transfer(_volume(to, to_pitch, 0, width, height), _volume(from_, from_pitch, 0, width, height)), stream


def _set_2d(call: Call, lane: int) -> tuple[Transfer, int]:
    destination, pitch, value, width, height, stream = (call.argument(number, lane) for number in range(6))
    return Transfer(_volume(destination, pitch, 0, width, height), None, value & 0xFF), stream


def _set_3d(call: Call, lane: int) -> tuple[Transfer, int]:
    address, pitch, _, rows = _PITCHED.unpack(call.read(call.argument(0, lane), _PITCHED.size, lane))
    extent = _EXTENT.unpack(call.read(call.argument(2, lane), _EXTENT.size, lane))
    volume = _volume(address, pitch, pitch * rows, *extent)
    return Transfer(volume, None, call.argument(1, lane) & 0xFF), call.argument(3, lane)


def _copy_3d(call: Call, lane: int) -> tuple[Transfer, int]:
    fields = _PARAMETERS.unpack(call.read(call.argument(0, lane), _PARAMETERS.size, lane))
    extent, kind = fields[16:19], fields[19]
    _within_device(kind)
    volumes = []
    for array, x, y, z, address, pitch, _, rows in (fields[:8], fields[8:16]):
        if array:
            raise CudaError(INVALID_VALUE, "a kernel copies an array")
        volumes.append(_volume(address + x + pitch * (y + rows * z), pitch, pitch * rows, *extent))
    source, destination = volumes
    return Transfer(destination, source), call.argument(1, lane)


def _within_device(kind: int) -> None:
    if kind not in (_WITHIN_DEVICE, _BY_ADDRESS):
        raise CudaError(INVALID_MEMCPY_DIRECTION, "a kernel copies from or to the host")


def _volume(address: int, pitch: int, slice_pitch: int, width: int, height: int, depth: int = 1) -> tuple[Rows, ...]:
    """A range for each slice, none where there is nothing. Raises CudaError."""
    if not width or not height:
        return ()
    if pitch < width and (height > 1 or depth > 1):
        raise CudaError(INVALID_PITCH_VALUE, "rows of a kernel's copy or set overlap")
    return tuple(Rows(address + slice_pitch * number, pitch, width, height) for number in range(depth))


_SHAPES = {
    ServiceKind.COPY: _copy,
    ServiceKind.SET: _set,
    ServiceKind.COPY_2D: _copy_2d,
    ServiceKind.SET_2D: _set_2d,
    ServiceKind.COPY_3D: _copy_3d,
    ServiceKind.SET_3D: _set_3d,
}
