"""Device contract: allocations, copies, sets."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from farlane.backend.device.base import CudaError, Rows

QUOTA = 64 << 20
MIB = 1 << 20


def fails(code: int, call: Callable[..., Any], *arguments: Any) -> None:
    """The call fails with that error, which is not sticky."""

    def finish() -> None:
        result = call(*arguments)
        if result is not None:
            list(result)

    with pytest.raises(CudaError) as caught:
        finish()
    assert (caught.value.code, caught.value.sticky) == (code, False)


class TestAllocations:
    @pytest.mark.needs("room")
    def test_quota_is_what_can_be_allocated(self, subject: Any) -> None:
        assert subject.context.quota == QUOTA
        assert subject.context.window.size >= QUOTA
        address = subject.allocate(QUOTA)
        fails(2, subject.allocate, 1)
        subject.context.free(address)
        subject.next_address += 256
        subject.allocate(QUOTA)

    @pytest.mark.needs("placed")
    def test_anywhere_in_the_window(self, subject: Any) -> None:
        window = subject.context.window
        for address in (window.base, window.base + window.size // 2 & -256, window.base + window.size - 256):
            subject.context.allocate(address, 256)
            assert len(subject.read(address, 256)) == 256

    @pytest.mark.needs("placed")
    def test_not_outside_the_window(self, subject: Any) -> None:
        window = subject.context.window
        fails(1, subject.context.allocate, window.base - 256, 256)
        fails(1, subject.context.allocate, window.base + window.size, 256)
        fails(1, subject.context.allocate, window.base + window.size - 256, 512)
        fails(1, subject.context.allocate, 0, 256)

    @pytest.mark.needs("placed")
    def test_not_over_another(self, subject: Any) -> None:
        address = subject.allocate(4096)
        fails(1, subject.context.allocate, address, 256)
        fails(1, subject.context.allocate, address + 2048, 4096)

    def test_free(self, subject: Any) -> None:
        address = subject.allocate(4096)
        fails(1, subject.context.free, address + 256)
        subject.context.free(address)
        fails(1, subject.context.free, address)
        fails(1, subject.read, address, 1)

    def test_many_small_ones(self, subject: Any) -> None:
        addresses = [subject.allocate(1 + number % 300) for number in range(500)]
        for address in addresses[::2]:
            subject.context.free(address)
        for address in addresses[1::2]:
            assert len(subject.read(address, 1)) == 1

    @pytest.mark.needs("placed")
    def test_an_address_can_be_used_again(self, subject: Any) -> None:
        base = subject.context.window.base
        for size in (256, 5 * MIB, 4096):
            subject.context.allocate(base, size)
            subject.context.free(base)


class TestRanges:
    """What is not in a live allocation cannot be touched, and trying ruins nothing."""

    @pytest.mark.parametrize("offset", [-1, 4096, 4095])
    def test_outside(self, subject: Any, offset: int) -> None:
        subject.next_address += MIB
        address = subject.allocate(4096)
        rows = Rows(address + offset, 2, 2, 1)
        good = Rows(address, 2, 2, 1)
        context, stream = subject.context, subject.stream
        fails(1, context.write, rows, memoryview(b"ab"), stream)
        fails(1, context.set, rows, 1, 1, stream)
        fails(1, context.read, rows, stream)
        fails(1, context.copy, rows, good, stream)
        fails(1, context.copy, good, rows, stream)
        subject.write(address, b"still alive")
        context.synchronize()

    def test_rows_that_leave_the_allocation(self, subject: Any) -> None:
        address = subject.allocate(1024)
        assert len(subject.read_rows(Rows(address, 100, 24, 11))) == 264
        fails(1, subject.context.read, Rows(address, 100, 25, 11), subject.stream)
        fails(1, subject.context.read, Rows(address, 100, 24, 12), subject.stream)

    def test_far_away(self, subject: Any) -> None:
        for address in (0, 16, 2**47, 2**62):
            fails(1, subject.read, address, 8)


@pytest.mark.needs("content")
class TestContent:
    @pytest.mark.parametrize("size", [1, 7, 4096, MIB, 3 * MIB + 5])
    def test_round_trip(self, subject: Any, size: int) -> None:
        data = random.Random(size).randbytes(size)
        address = subject.allocate(size + 16)
        subject.write(address + 3, data)
        assert subject.read(address + 3, size) == data

    def test_neighbours_are_apart(self, subject: Any) -> None:
        addresses = [subject.allocate(100) for _ in range(50)]
        for number, address in enumerate(addresses):
            subject.write(address, bytes([number]) * 100)
        for address in addresses[::3]:
            subject.context.free(address)
        for number, address in enumerate(addresses):
            if number % 3:
                assert subject.read(address, 100) == bytes([number]) * 100

    def test_rows(self, subject: Any) -> None:
        address = subject.allocate(4096)
        subject.write(address, bytes(4096))
        data = bytes(range(1, 61))
        subject.context.write(Rows(address + 8, 64, 20, 3), memoryview(data), subject.stream)
        expected = bytearray(4096)
        for row in range(3):
            expected[8 + row * 64 : 28 + row * 64] = data[row * 20 : row * 20 + 20]
        assert subject.read(address, 4096) == bytes(expected)
        assert subject.read_rows(Rows(address + 8, 64, 20, 3)) == data

    @pytest.mark.parametrize(
        ("element", "value", "pattern"), [(1, 0xAB, "ab"), (2, 0x1234, "3412"), (4, 0xDEADBEEF, "efbeadde")]
    )
    def test_set(self, subject: Any, element: int, value: int, pattern: str) -> None:
        address = subject.allocate(4096)
        subject.write(address, bytes(4096))
        subject.context.set(Rows(address + 4, 40, 12, 4), value, element, subject.stream)
        expected = bytearray(4096)
        for row in range(4):
            expected[4 + row * 40 : 16 + row * 40] = bytes.fromhex(pattern) * (12 // element)
        assert subject.read(address, 4096) == bytes(expected)

    def test_set_of_a_large_range(self, subject: Any) -> None:
        size = 5 * MIB + 4
        address = subject.allocate(size)
        subject.context.set(Rows(address, size, size, 1), 0x01020304, 4, subject.stream)
        assert subject.read(address, size) == bytes([4, 3, 2, 1]) * (size // 4)

    def test_copy(self, subject: Any) -> None:
        source, destination = subject.allocate(4096), subject.allocate(4096)
        data = bytes(range(240))
        subject.write(source, data)
        subject.write(destination, bytes(4096))
        context = subject.context
        context.copy(Rows(destination + 1, 240, 240, 1), Rows(source, 240, 240, 1), subject.stream)
        assert subject.read(destination, 242) == b"\0" + data + b"\0"
        context.copy(Rows(destination, 100, 10, 3), Rows(source, 80, 10, 3), subject.stream)
        for row in range(3):
            assert subject.read(destination + 100 * row, 10) == data[80 * row : 80 * row + 10]

    @pytest.mark.parametrize(("to", "of"), [(10, 10), (10, 16), (16, 10), (16, 32)])
    def test_copy_between_pitches(self, subject: Any, to: int, of: int) -> None:
        source, destination = subject.allocate(4096), subject.allocate(4096)
        data = bytes(range(1, 251))
        subject.write(source, data)
        subject.write(destination, bytes(256))
        subject.context.copy(Rows(destination, to, 10, 5), Rows(source, of, 10, 5), subject.stream)
        expected = bytearray(256)
        for row in range(5):
            expected[row * to : row * to + 10] = data[row * of : row * of + 10]
        assert subject.read(destination, 256) == bytes(expected)

    def test_copy_of_a_large_range(self, subject: Any) -> None:
        size = 9 * MIB
        source, destination = subject.allocate(size), subject.allocate(size)
        data = random.Random(1).randbytes(size)
        subject.write(source, data)
        subject.context.copy(Rows(destination, size, size, 1), Rows(source, size, size, 1), subject.stream)
        assert subject.read(destination, size) == data

    def test_the_guests_bytes_are_taken_at_once(self, subject: Any) -> None:
        """`data` is valid only during the call."""
        address = subject.allocate(4096)
        data = bytearray(b"x" * 4096)
        subject.context.write(Rows(address, 4096, 4096, 1), memoryview(data), subject.stream)
        data[:] = b"y" * 4096
        assert subject.read(address, 4096) == b"x" * 4096
