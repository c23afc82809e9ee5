"""Tensor maps: what the guest writes is read field by field, and the driver's functions are given each of them."""

from __future__ import annotations

import ctypes
import struct

import pytest
from farlane.backend.device import tensors
from farlane.backend.device.gpu.driver.structures import aligned_map, tensor_arguments

FIELDS = "<QI8B5I5H5BB4Q3h3hH26x"
TILED = struct.pack(
    FIELDS, 1 << 45, 0x504D5446, 3, 7, 0, 0, 3, 1, 2, 0, 0, 64, 5, 0, 0, 32, 16, 1, 0, 0, 1, 2, 1, 1, 1, 0,
    128, 8192, 0, 0, 0, 0, 0, 0, 0, 0, 0,
)  # fmt: skip
IMAGES = struct.pack(
    FIELDS, 1 << 45, 0x504D5446, 4, 6, 1, 0, 0, 0, 0, 0, 8, 9, 10, 11, 0, 8, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0,
    16, 144, 1440, 0, -1, -2, 0, 3, 4, 0, 100,
)  # fmt: skip


def values(arguments: tuple[object, ...]) -> list[object]:
    return [list(each) if isinstance(each, ctypes.Array) else each for each in arguments]


def test_a_tiled_map() -> None:
    read = tensors.read(TILED)
    assert (read.sizes, read.strides, read.steps, read.box) == ((1 << 32, 64, 5), (128, 8192), (1, 2, 1), (32, 16, 1))
    name, arguments = tensor_arguments(read)
    assert name == "cuTensorMapEncodeTiled"
    assert values(arguments) == [
        7, 3, 1 << 45, [1 << 32, 64, 5], [128, 8192], [32, 16, 1], [1, 2, 1], 0, 3, 2, 1
    ]  # fmt: skip


def test_a_map_of_images() -> None:
    name, arguments = tensor_arguments(tensors.read(IMAGES))
    assert name == "cuTensorMapEncodeIm2col"
    assert values(arguments) == [
        6, 4, 1 << 45, [8, 9, 10, 11], [16, 144, 1440], [-1, -2], [3, 4], 8, 100, [1, 1, 1, 1], 0, 0, 0, 0
    ]  # fmt: skip


@pytest.mark.parametrize(("at", "value"), [(8, 0), (12, 0), (12, 6), (14, 2)])
def test_what_is_no_map(at: int, value: int) -> None:
    wrong = bytearray(TILED)
    wrong[at] = value
    with pytest.raises(ValueError, match="no tensor map"):
        tensors.read(bytes(wrong))


def test_a_place_is_aligned() -> None:
    for _ in range(20):
        made = aligned_map(bytes(range(128)))
        assert ctypes.addressof(made) % 128 == 0
        assert bytes(made) == bytes(range(128))
