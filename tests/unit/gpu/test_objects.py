"""What needs no driver: places in arrays, descriptions of textures and surfaces."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from farlane.backend.device import objects
from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.gpu.driver.interface import BoxEnd
from farlane.backend.device.gpu.memory.boxes import Array, InArray, InMemory, boxes
from farlane.backend.device.objects import ChannelKind, Resource, Sampling, Texels

PITCH = 512


def texels(address: int, extent: tuple[int, int, int] = (20, 6, 0), flags: int = 2) -> Texels:
    width, height = extent[:2]
    size = (width, height, 1)
    return Texels(Resource.ARRAY, address, size, PITCH, PITCH * height, 4, 1, ChannelKind.FLOAT, extent, flags)


def test_places_in_an_array() -> None:
    """A row that leaves the array's is refused: what is behind it is nobody's."""
    array = Array(5, texels(0x1000))
    side = InArray(array, Rows(0x1000 + PITCH + 8, PITCH, 16, 2))
    (box,) = boxes(side, InMemory(Rows(64, 16, 16, 2)))
    assert (box.destination, box.source) == (BoxEnd(array=5, x=8, y=1), BoxEnd(address=64, pitch=16))
    with pytest.raises(CudaError, match="leaves an array's rows"):
        list(boxes(InArray(array, Rows(0x1000 + 80, PITCH, 4, 1)), InMemory(Rows(64, 4, 4, 1))))


def packed(**changes: Any) -> bytes:
    """A description as the guest writes it: an array of 7 x 5 floats."""
    fields: dict[str, Any] = {
        "address": 1 << 45, "width": 7, "height": 5, "depth": 1, "pitch": 512, "slice": 2560, "channel": 4, "channels": 1, "kind": 2,
        "linear": 1, "x": 0, "y": 1, "z": 2, "normalized": 1, "values": 0, "magic": objects.MAGIC, "resource": 0,
        "asked_x": 7, "asked_y": 5, "asked_z": 0, "flags": 2, "texture": 1, "srgb": 0, "r": 0.5, "g": 0.0, "b": 0.0, "a": 1.0,
        "anisotropy": 0,
    }  # fmt: skip
    return struct.pack("<Q3I4xQQ17I4fI", *(fields | changes).values())


def test_descriptions_are_read() -> None:
    read = objects.read(packed())
    assert read.texels == texels(1 << 45, (7, 5, 0))
    assert read.sampling == Sampling(True, (0, 1, 2), True, False, False, (0.5, 0.0, 0.0, 1.0), 0)
    assert objects.read(packed(texture=0)).sampling is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"magic": 0}, {"width": 0}, {"channel": 3}, {"channels": 3}, {"kind": 3}, {"channel": 1}, {"resource": 1}, {"x": 4}, {"linear": 2},
        {"flags": 16}, {"texture": 2}, {"pitch": 24}, {"slice": 2048}, {"asked_x": 8}, {"asked_z": 2},
        {"resource": 2}, {"resource": 3, "pitch": 4}, {"resource": 3, "depth": 2},
    ],
    ids=str,
)  # fmt: skip
def test_descriptions_that_break_the_rules(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"breaks the rules|contradicts itself"):
        objects.read(packed(**wrong))


def test_no_description_is_a_bug_of_ours() -> None:
    """Random bytes are refused or read, nothing else; and what is read can be asked of a context."""
    rng = random.Random(3)
    good = bytearray(packed())
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(128)] = rng.choice((0, 1, 2, 4, 255, rng.randrange(256)))
        try:
            objects.read(bytes(data))
        except ValueError:
            continue
