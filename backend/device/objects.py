"""What a texture or surface object is made of, as the guest describes it.

Owns the reading of the 128 bytes and the rules that they alone decide. Whether there is memory at the address is the device's to know.

Source: protos/tape.md, "Textures"; CUDA runtime API, cudaResourceDesc, cudaTextureDesc.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

BYTES = 128
MAGIC = 0x7E8F1A5E
_LAYOUT = struct.Struct("<Q3I4xQQ3II3I2II" + "I3II" + "II4fI")
_FLAGS = 1 | 2 | 4 | 8  # layered, surfaces, cube map, gathers


class Resource(IntEnum):
    """What is at the address: cudaResourceType."""

    ARRAY = 0
    LINEAR = 2
    ROWS = 3


class ChannelKind(IntEnum):
    """cudaChannelFormatKind."""

    SIGNED = 0
    UNSIGNED = 1
    FLOAT = 2


class Texels(NamedTuple):
    """Memory as texels. Of an array also what it was asked for as."""

    resource: Resource
    address: int
    size: tuple[int, int, int]
    pitch: int
    slice: int
    channel_bytes: int
    channels: int
    kind: ChannelKind
    extent: tuple[int, int, int]
    flags: int

    @property
    def texel(self) -> int:
        return self.channel_bytes * self.channels

    @property
    def row(self) -> int:
        """Bytes of a row."""
        return self.size[0] * self.texel

    @property
    def span(self) -> int:
        """Bytes from the first texel's to the last one's end; of an array to the end of its allocation."""
        if self.resource is Resource.ARRAY:
            return self.slice * self.size[2]
        return (self.size[1] - 1) * self.pitch + self.row


class Sampling(NamedTuple):
    """How a texture is read."""

    linear: bool
    modes: tuple[int, int, int]
    normalized_coordinates: bool
    normalized_values: bool
    srgb: bool
    border: tuple[float, float, float, float]
    anisotropy: int


class ObjectDescription(NamedTuple):
    """`sampling` is None for a surface."""

    texels: Texels
    sampling: Sampling | None


def read(data: bytes | memoryview) -> ObjectDescription:
    """Raises ValueError: the bytes break a rule of tape.md."""
    (address, width, height, depth, pitch, slice_, channel_bytes, channels, kind, linear, mode_x, mode_y, mode_z, normalized, values,
     magic, resource, asked_x, asked_y, asked_z, flags, texture, srgb, *border, anisotropy) = _LAYOUT.unpack(data)  # fmt: skip
    size, extent, modes = (width, height, depth), (asked_x, asked_y, asked_z), (mode_x, mode_y, mode_z)
    good = (
        magic == MAGIC and 0 not in size and channel_bytes in (1, 2, 4) and channels in (1, 2, 4)
        and kind in tuple(ChannelKind) and resource in tuple(Resource) and not (kind == ChannelKind.FLOAT and channel_bytes == 1)
        and max(linear, normalized, values, texture, srgb) <= 1 and max(modes) <= 3 and not flags & ~_FLAGS
    )  # fmt: skip
    if not good:
        raise ValueError("the description of an object breaks the rules")
    texels = Texels(
        Resource(resource), address, size, pitch, slice_, channel_bytes, channels, ChannelKind(kind), extent, flags
    )
    if resource == Resource.ARRAY:
        asked = (extent[0], max(extent[1], 1), max(extent[2], 1))
        if asked != size or pitch < texels.row or slice_ != pitch * height:
            raise ValueError("the description of an array contradicts itself")
    elif depth != 1 or (height > 1 and pitch < texels.row) or (resource == Resource.LINEAR and height != 1):
        raise ValueError("the description of texels in memory contradicts itself")
    if not texture:
        return ObjectDescription(texels, None)
    sampling = Sampling(
        bool(linear), modes, bool(normalized), bool(values), bool(srgb), (border[0], border[1], border[2], border[3]),
        anisotropy,
    )  # fmt: skip
    return ObjectDescription(texels, sampling)
