"""Arrays, textures and surfaces of the double.

An array lies in the simulated device's memory, with padding between its rows that no guest knows of; an object is the address of a descriptor that the simulated
device's kernels read. So what takes an array's addresses for memory, or the guest's description for the driver's, reads something else.

Source: CUDA driver API, cuArray3DCreate, cuMemcpy3D, cuTexObjectCreate, cuSurfObjectCreate (what they refuse).
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any

from farlane.backend.device.base import Rows
from farlane.backend.device.gpu.interface import (
    ArrayFormat,
    ArraySpec,
    BoxEnd,
    BoxWork,
    DriverError,
    TexelSource,
    TextureSpec,
)

from gpu_double.recording import Record

INVALID_VALUE = 1
NOT_SUPPORTED = 801
LAYERED, SURFACES, CUBE = 1, 2, 4
READ_AS_INTEGER, NORMALIZED, SRGB = 1, 2, 16
# Bytes of a channel, and what it holds: 0 signed, 1 unsigned, 2 float.
_FORMATS = {
    ArrayFormat.UNSIGNED_INT8: (1, 1), ArrayFormat.UNSIGNED_INT16: (2, 1), ArrayFormat.UNSIGNED_INT32: (4, 1),
    ArrayFormat.SIGNED_INT8: (1, 0), ArrayFormat.SIGNED_INT16: (2, 0), ArrayFormat.SIGNED_INT32: (4, 0),
    ArrayFormat.HALF: (2, 2), ArrayFormat.FLOAT: (4, 2),
}  # fmt: skip
_DESCRIPTOR = struct.Struct("<Q3I4xQQ3II3I2II16xI8x4f4x")


@dataclass(frozen=True)
class Array:
    spec: ArraySpec
    address: int
    pitch: int

    @property
    def texel(self) -> int:
        return _FORMATS[self.spec.format][0] * self.spec.channels

    @property
    def size(self) -> tuple[int, int, int]:
        return self.spec.width, max(1, self.spec.height), max(1, self.spec.depth)

    @property
    def slice(self) -> int:
        return self.pitch * (self.size[1] + 1)


class Textures(metaclass=Record):
    """A part of the double's driver."""

    _gpu: Any
    _end: int
    _timeline: Any
    _numbers: Any
    _own: Any

    def _forget_textures(self) -> None:
        self._arrays: dict[int, Array] = {}
        self._textures: dict[int, int] = {}  # the object: bytes
        self._surfaces: dict[int, int] = {}
        self._high = self._end

    def _end_textures(self) -> None:
        for address in (*(each.address for each in self._arrays.values()), *self._textures, *self._surfaces):
            self._gpu.free(address)

    def _place(self, size: int) -> int:
        """From the window's end downwards, where no range is reserved."""
        self._high = (self._high - size) & -512
        self._gpu.allocate(self._high, size)
        return self._high

    def create_array(self, spec: ArraySpec) -> int:
        layered = bool(spec.flags & LAYERED)
        cube = spec.flags & CUBE and (spec.width != spec.height or spec.depth % 6 or (spec.depth != 6 and not layered))
        if (
            cube
            or spec.width == 0
            or spec.channels not in (1, 2, 4)
            or (spec.depth and not spec.height and not layered)
            or (layered and not spec.depth)
        ):
            raise DriverError(INVALID_VALUE, "create_array")
        array = Array(spec, 0, 0)
        pitch = -(-spec.width * array.texel // 512) * 512 + 512
        array = Array(spec, 0, pitch)
        number = next(self._numbers)
        self._arrays[number] = Array(spec, self._place(array.slice * array.size[2]), pitch)
        return number

    def destroy_array(self, array: int) -> None:
        assert not self._timeline.pending, "an array is destroyed while work is pending"
        self._gpu.free(self._arrays.pop(array).address)

    # Copies -----------------------------------------------------------------------------------------------------
    def copy_box(self, work: BoxWork, stream: int) -> None:
        for end in (work.destination, work.source):
            self._check(end, work)

        def run() -> None:
            for z in range(work.depth):
                for y in range(work.height):
                    self._put_row(work.destination, z, y, work, self._row(work.source, z, y, work))

        self._timeline.issue(stream, run)

    def _check(self, end: BoxEnd, work: BoxWork) -> None:
        if not end.array:
            if end.pitch < work.width:
                raise DriverError(INVALID_VALUE, "copy_box", f"a pitch of {end.pitch} for rows of {work.width}")
            if end.host:
                for row in range(work.height * work.depth):
                    self._host(end.address + row * end.pitch, work.width)
            return
        array = self._arrays[end.array]
        width, height, depth = array.size
        inside = (
            end.x + work.width <= width * array.texel and end.y + work.height <= height and end.z + work.depth <= depth
        )
        if not inside or end.x % array.texel or work.width % array.texel:
            raise DriverError(
                INVALID_VALUE, "copy_box", f"{end} and {work.width}x{work.height}x{work.depth} of {array}"
            )

    def _host(self, address: int, size: int) -> None:
        raise NotImplementedError

    def _get(self, address: int, size: int) -> bytes:
        raise NotImplementedError

    def _put(self, address: int, data: bytes) -> None:
        raise NotImplementedError

    def _at(self, end: BoxEnd, z: int, y: int, work: BoxWork) -> int:
        if not end.array:
            return end.address + (z * work.height + y) * end.pitch
        array = self._arrays[end.array]
        return array.address + (end.z + z) * array.slice + (end.y + y) * array.pitch + end.x

    def _row(self, end: BoxEnd, z: int, y: int, work: BoxWork) -> bytes:
        place = self._at(end, z, y, work)
        if end.host:
            return ctypes.string_at(place, work.width)
        if not end.array:
            return self._get(place, work.width)
        return b"".join(bytes(piece) for piece in self._gpu.read(Rows(place, work.width, work.width, 1), self._own))

    def _put_row(self, end: BoxEnd, z: int, y: int, work: BoxWork, data: bytes) -> None:
        place = self._at(end, z, y, work)
        if end.host:
            ctypes.memmove(place, data, len(data))
        elif end.array:
            self._gpu.write(Rows(place, len(data), len(data), 1), memoryview(data), self._own)
        else:
            self._put(place, data)

    # Objects ----------------------------------------------------------------------------------------------------
    def _object(self, source: TexelSource, spec: TextureSpec | None) -> int:
        if source.array:
            array = self._arrays[source.array]
            address, size, pitch, slice_, kind, channels = (
                array.address, array.size, array.pitch, array.slice, array.spec.format, array.spec.channels,
            )  # fmt: skip
        else:
            kind, channels, address, slice_ = source.format, source.channels, source.address, 0
            texel = _FORMATS[kind][0] * channels
            size = (source.width, source.height, 1) if source.width else (source.bytes // texel, 1, 1)
            pitch = source.pitch
            if (
                address % 512
                or pitch % 32
                or (source.width and pitch < source.width * texel)
                or (source.width and source.bytes)
            ):
                raise DriverError(INVALID_VALUE, "create_texture", f"{source}")
        width, what = _FORMATS[kind]
        how = (0, 0, 0, 0, 0, 0)
        if spec is not None:
            if spec.flags & SRGB:
                raise DriverError(NOT_SUPPORTED, "create_texture", "the simulated device has none")
            normalized = what != 2 and not spec.flags & READ_AS_INTEGER
            if (spec.linear and what != 2 and not normalized) or (normalized and width == 4):
                raise DriverError(INVALID_VALUE, "create_texture", "a filter of integers")
            how = (int(spec.linear), *spec.modes, int(bool(spec.flags & NORMALIZED)), int(normalized))
        place = self._place(128)
        flags = self._arrays[source.array].spec.flags if source.array else 0
        border = (0.0,) * 4 if spec is None else spec.border
        data = _DESCRIPTOR.pack(address, *size, pitch, slice_, width, channels, what, *how, 0x7E8F1A5E, flags, *border)
        self._gpu.write(Rows(place, 128, 128, 1), memoryview(data), self._own)
        return place

    def create_texture(self, source: TexelSource, spec: TextureSpec) -> int:
        made = self._object(source, spec)
        self._textures[made] = 128
        return made

    def create_surface(self, array: int) -> int:
        if not self._arrays[array].spec.flags & SURFACES:
            raise DriverError(INVALID_VALUE, "create_surface", "an array without surfaces")
        made = self._object(TexelSource(array=array), None)
        self._surfaces[made] = 128
        return made

    def destroy_texture(self, texture: int) -> None:
        assert not self._timeline.pending, "a texture is destroyed while work is pending"
        del self._textures[texture]
        self._gpu.free(texture)

    def destroy_surface(self, surface: int) -> None:
        assert not self._timeline.pending, "a surface is destroyed while work is pending"
        del self._surfaces[surface]
        self._gpu.free(surface)
