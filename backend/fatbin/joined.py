"""Joined images: several fat binaries whose code is to be linked, as one image (tape.md, "Images").

Owns the envelope only. Everything in it is untrusted: the only exception is `FatBinaryError`.
"""

from __future__ import annotations

import struct

from farlane.fatbin import FatBinaryError
from farlane.limits.generated import IMAGE_PARTS

MAGIC = b"FARLANEJ"
_HEADER = struct.Struct("<8sII")
_SIZE = struct.Struct("<Q")


def is_joined(image: bytes) -> bool:
    return image[:8] == MAGIC


def parts(image: bytes) -> list[bytes]:
    """The images in a joined one, in order.

    Raises:
        FatBinaryError: it is malformed.
    """
    if len(image) < _HEADER.size or not is_joined(image):
        raise FatBinaryError("the image is no joined image")
    _, version, count = _HEADER.unpack_from(image)
    if version != 1 or not 1 <= count <= IMAGE_PARTS:
        raise FatBinaryError(f"a joined image of version {version} with {count} parts is not known")
    found, at = [], _HEADER.size
    for number in range(count):
        if len(image) - at < _SIZE.size:
            raise FatBinaryError(f"the joined image ends in front of part {number + 1} of {count}")
        (size,) = _SIZE.unpack_from(image, at)
        at += _SIZE.size
        if not 0 < size <= len(image) - at:
            raise FatBinaryError(f"part {number + 1} of {count} claims {size} bytes; {len(image) - at} are left")
        found.append(image[at : at + size])
        at += -(-size // 8) * 8
    if at != len(image):
        raise FatBinaryError(f"a joined image of {len(image)} bytes whose parts end at {at}")
    return found


def join(images: list[bytes]) -> bytes:
    """A joined image of these."""
    out = [_HEADER.pack(MAGIC, 1, len(images))]
    for image in images:
        out += [_SIZE.pack(len(image)), image, bytes(-len(image) % 8)]
    return b"".join(out)
