"""Joined images: the envelope, and the texts that are linked."""

from __future__ import annotations

import pytest
from farlane.backend.device.base import CudaError
from farlane.backend.fatbin import FatBinaryError, choose_all, joined
from hypothesis import given
from hypothesis import strategies as st

TEXT = b".version 8.0\n.target sm_%d\n.address_size 64\n"


def test_parts_come_back() -> None:
    images = [b"a", b"12345678", bytes(100)]
    image = joined.join(images)
    assert len(image) % 8 == 0
    assert joined.parts(image) == images


def test_each_part_gives_a_text() -> None:
    image = joined.join([TEXT % 75, TEXT % 80])
    assert choose_all(image, (9, 0)) == [(TEXT % 75).decode(), (TEXT % 80).decode()]
    assert choose_all(TEXT % 75, (9, 0)) == [(TEXT % 75).decode()]


def test_a_part_that_cannot_run_is_an_error() -> None:
    with pytest.raises(CudaError) as found:
        choose_all(joined.join([TEXT % 75, TEXT % 99]), (9, 0))
    assert found.value.code == 209


def test_a_joined_image_in_another_is_refused() -> None:
    with pytest.raises(FatBinaryError):
        choose_all(joined.join([joined.join([TEXT % 75])]), (9, 0))


@pytest.mark.parametrize("image", [joined.MAGIC, joined.join([]), joined.join([b""]), joined.join([b"x"]) + bytes(8)])
def test_malformed(image: bytes) -> None:
    with pytest.raises(FatBinaryError):
        joined.parts(image)


@given(st.data())
def test_damage(data: st.DataObject) -> None:
    image = bytearray(joined.join([TEXT % 75, b"x" * 30]))
    for _ in range(data.draw(st.integers(1, 4))):
        image[data.draw(st.integers(8, len(image) - 1))] = data.draw(st.integers(0, 255))
    image = image[: data.draw(st.integers(8, len(image)))]
    try:
        for part in joined.parts(bytes(image)):
            assert part in bytes(image)
    except FatBinaryError:
        pass
