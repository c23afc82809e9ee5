"""Tensor maps as the guest describes them: 128 bytes (protos/tape.md, "Tensor maps").

Source: CUDA driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

import struct
from typing import NamedTuple

BYTES = 128
_FIELDS = struct.Struct("<QI8B5I5H5BB4Q3h3hH26x")
_MAGIC = 0x504D5446
_AXES = 5


class TensorMap(NamedTuple):
    """A tensor, and the box of it that one copy takes.

    Args:
        address: of the first element, in device memory.
        data_type, interleave, swizzle, fill, promotion: CUtensorMapDataType and the other enumerations.
        sizes: elements of each axis, the innermost first.
        strides: bytes from one to the next, of each axis but the innermost.
        steps: element strides of each axis.
        box: elements of the box along each axis; of a tensor of images: channels and pixels.
        corners: for a tensor of images, the lower and the upper corner; None otherwise.
    """

    address: int
    data_type: int
    interleave: int
    swizzle: int
    fill: int
    promotion: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    steps: tuple[int, ...]
    box: tuple[int, ...]
    corners: tuple[tuple[int, ...], tuple[int, ...]] | None


def read(description: bytes) -> TensorMap:
    """What a guest has written. Raises ValueError: it is no map."""
    address, magic, rank, data_type, mode, interleave, swizzle, fill, promotion, _, *rest = _FIELDS.unpack(description)
    if magic != _MAGIC or not 1 <= rank <= _AXES or mode > 1 or (mode == 1 and rank < 3):
        raise ValueError(f"no tensor map: magic {magic:#x}, {rank} axes, mode {mode}")
    sizes, bounds, steps, strides = rest[:5], rest[5:10], rest[10:15], rest[16:20]
    lower, upper, pixels = rest[20:23], rest[23:26], rest[26]
    images = mode == 1
    return TensorMap(
        address,
        data_type,
        interleave,
        swizzle,
        fill,
        promotion,
        sizes=tuple(size or 1 << 32 for size in sizes[:rank]),
        strides=tuple(strides[: rank - 1]),
        steps=tuple(steps[:rank]),
        box=(bounds[0], pixels) if images else tuple(bounds[:rank]),
        corners=(tuple(lower[: rank - 2]), tuple(upper[: rank - 2])) if images else None,
    )
