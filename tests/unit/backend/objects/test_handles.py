"""Handle tables: reserve, fill, poison, release."""

from __future__ import annotations

import pytest
from farlane.backend.device.base import CudaError
from farlane.backend.errors import ProtocolError
from farlane.backend.objects.handles import HandleTable
from farlane.backend.plane import LIVE_LIMIT, Stream


@pytest.fixture
def table() -> HandleTable[str]:
    return HandleTable("stream", {1: "legacy"})


def fill(table: HandleTable[str], handle: int, value: str = "object") -> None:
    with table.reserve(handle) as reservation:
        reservation.fill(value)


def test_filled(table: HandleTable[str]) -> None:
    fill(table, 16)
    fill(table, 2**31 - 1, "last")
    assert table.get(16) == "object"
    assert table.get(2**31 - 1) == "last"
    assert table.live() == [16, 2**31 - 1]
    assert table.release(16) == "object"


@pytest.mark.parametrize("handle", [0, 1, 15, 2**31, 2**32 - 1])
def test_not_the_guests_to_mint(table: HandleTable[str], handle: int) -> None:
    with pytest.raises(ProtocolError):
        table.reserve(handle)


def test_minted_twice(table: HandleTable[str]) -> None:
    fill(table, 16)
    with pytest.raises(ProtocolError):
        table.reserve(16)


def test_poisoned_handles_cannot_be_minted_again_either(table: HandleTable[str]) -> None:
    with pytest.raises(CudaError), table.reserve(16):
        raise CudaError(2, "no room")
    with pytest.raises(ProtocolError):
        table.reserve(16)


@pytest.mark.parametrize("handle", [0, 2, 17, 2**32 - 1])
def test_unknown(table: HandleTable[str], handle: int) -> None:
    for use in (table.get, table.release):
        with pytest.raises(CudaError) as caught:
            use(handle)
        assert (caught.value.code, caught.value.sticky) == (400, False)


def test_permanent_ones_stay(table: HandleTable[str]) -> None:
    with pytest.raises(CudaError):
        table.release(1)
    table.clear()
    assert table.get(1) == "legacy"
    table.clear({1: "new"})
    assert table.get(1) == "new"


def test_poison_is_the_error_that_made_it(table: HandleTable[str]) -> None:
    with pytest.raises(CudaError), table.reserve(16):
        raise CudaError(2, "no room")
    for _ in range(2):
        with pytest.raises(CudaError) as caught:
            table.get(16)
        assert caught.value.code == 2
        assert "no room" in caught.value.message
    assert not table.live()
    assert table.release(16) is None
    with pytest.raises(CudaError) as caught:
        table.get(16)
    assert caught.value.code == 400


def test_a_sticky_error_poisons_but_does_not_stick_a_second_time(table: HandleTable[str]) -> None:
    with pytest.raises(CudaError), table.reserve(16):
        raise CudaError(700, "fault", sticky=True)
    with pytest.raises(CudaError) as caught:
        table.get(16)
    assert not caught.value.sticky


def test_any_exception_poisons(table: HandleTable[str]) -> None:
    with pytest.raises(CudaError) as caught, table.reserve(16):
        raise KeyError("bug")
    assert (caught.value.code, caught.value.sticky) == (999, True)
    with pytest.raises(CudaError) as caught:
        table.get(16)
    assert caught.value.code == 999


def test_a_broken_guest_poisons_nothing(table: HandleTable[str]) -> None:
    with pytest.raises(ProtocolError), table.reserve(16):
        raise ProtocolError("a bad name")
    assert 16 not in table


def test_live_handles_are_bounded() -> None:
    table: HandleTable[int] = HandleTable("event")
    for handle in range(16, 16 + LIVE_LIMIT):
        table.fill(handle, 0)
    with pytest.raises(CudaError) as caught:
        table.reserve(16 + LIVE_LIMIT)
    assert caught.value.code == 2
    table.release(16)
    table.reserve(16 + LIVE_LIMIT)


def test_what_the_plane_has_made_is_one_object() -> None:
    table: HandleTable[Stream] = HandleTable("stream", {1: Stream()})
    assert table.get(1) is table.get(1)
