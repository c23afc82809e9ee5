"""A session's memory: allocations, quota, bounds, and copies of every shape against a model."""

from __future__ import annotations

import random

import pytest
from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.sim.memory.content import PIECE
from farlane.backend.device.sim.memory.memory import Memory, Part
from farlane.backend.device.sim.memory.window import PAGE
from farlane.backend.plane import Budget

QUOTA = 256 << 20


@pytest.fixture
def memory():
    memory = Memory(QUOTA, Budget(2 * QUOTA))
    yield memory
    memory.close()


def flat(address: int, size: int) -> Rows:
    return Rows(address, size, size, 1)


def content(memory: Memory, rows: Rows) -> bytes:
    pieces = [bytes(piece) for piece in memory.read(rows)]
    assert all(len(piece) <= PIECE for piece in pieces)
    return b"".join(pieces)


def code(call: object, *args: object) -> int:
    with pytest.raises(CudaError) as found:
        call(*args)  # type: ignore[operator]
    assert not found.value.sticky
    return found.value.code


def test_the_guest_never_mints_in_the_module_area(memory: Memory) -> None:
    base = memory.allocate_module(100, [Part(0, 40, "variable a"), Part(64, 36, "variable b")])
    assert base >= memory.guest.base + memory.guest.size
    assert code(memory.allocate, base + 4096, 16) == 1
    assert code(memory.free, base) == 1
    assert code(memory.write, flat(base + 40, 1), memoryview(b"x")) == 1  # between the variables
    memory.write(flat(base + 64, 36), memoryview(bytes(range(36))))
    assert content(memory, flat(base + 66, 3)) == b"\2\3\4"
    memory.free_module(base)
    assert code(memory.write, flat(base, 1), memoryview(b"x")) == 1


def test_module_area_is_reused(memory: Memory) -> None:
    first = memory.allocate_module(5000, [Part(0, 5000, "a")])
    second = memory.allocate_module(100, [Part(0, 100, "b")])
    assert second >= first + 5000
    memory.free_module(first)
    third = memory.allocate_module(4000, [Part(0, 4000, "c")])
    assert third == first
    assert memory.allocate_module(6000, [Part(0, 6000, "d")]) > second
    assert not any(content(memory, flat(third, 4000)))


def test_new_memory_reads_as_zero_also_where_a_page_is_shared(memory: Memory) -> None:
    at = memory.guest.base
    memory.allocate(at, 512)
    memory.allocate(at + 512, 512)
    memory.set(flat(at, 512), 0xAA, 1)
    memory.set(flat(at + 512, 512), 0xBB, 1)
    memory.free(at)
    memory.allocate(at, 256)
    assert content(memory, flat(at, 256)) == bytes(256)
    assert content(memory, flat(at + 512, 512)) == b"\xbb" * 512
    memory.free(at + 512)
    memory.allocate(at + 256, 3 * PAGE)
    assert not any(content(memory, flat(at + 256, 3 * PAGE)))


def test_quota_counts_what_is_live(memory: Memory) -> None:
    at = memory.guest.base
    memory.allocate(at, QUOTA - 256)
    assert code(memory.allocate, at + QUOTA, 257) == 2
    memory.allocate(at + QUOTA, 256)
    memory.free(at)
    memory.allocate(at, QUOTA - 256)
    assert code(memory.allocate_module, QUOTA + 1, [Part(0, QUOTA + 1, "variable huge")]) == 2


def test_wrong_allocations_and_frees(memory: Memory) -> None:
    at = memory.guest.base
    memory.allocate(at + 4096, 8192)
    for start, size in ((at + 4096, 1), (at, 4097), (at + 12287, 10), (at + 6000, 16)):
        assert code(memory.allocate, start, size) == 1
    for start, size in ((at - 4096, 16), (at, 0), (at + memory.guest.size - 8, 16), (0, 16), (1 << 63, 1 << 63)):
        assert code(memory.allocate, start, size) == 1
    for start in (at, at + 4097, 0, 1 << 64):
        assert code(memory.free, start) == 1
    memory.free(at + 4096)
    assert code(memory.free, at + 4096) == 1
    assert memory.window.resident_pages == 0


def test_copies_stay_within_one_allocation(memory: Memory) -> None:
    at = memory.guest.base
    memory.allocate(at, 1000)
    memory.allocate(at + 1024, 1000)
    for rows in (
        flat(at, 1001),
        flat(at + 500, 1000),
        flat(at - 1, 2),
        flat(0, 4),
        flat(1 << 64, 4),
        Rows(at, 300, 200, 4),
        Rows(at, 1 << 40, 200, 1 << 40),
    ):
        assert code(memory.read, rows) == 1
        assert code(memory.set, rows, 0, 1) == 1
        if rows.width * rows.height < 1 << 20:
            assert code(memory.write, rows, memoryview(bytes(rows.width * rows.height))) == 1
        assert code(memory.copy, rows, rows) == 1
    with pytest.raises(CudaError, match="500 bytes inside the allocation of 1000 bytes"):
        memory.read(flat(at + 500, 501))
    assert code(memory.read, Rows(at, 8, 16, 2)) == 12
    assert code(memory.write, flat(at, 10), memoryview(bytes(9))) == 1
    assert code(memory.copy, flat(at, 10), flat(at, 9)) == 1
    assert content(memory, flat(at, 0)) == content(memory, Rows(1, 2, 0, 5)) == b""


@pytest.mark.parametrize(
    ("element", "value", "expected"), [(1, 0x1FF, b"\xff"), (2, 0x5A1B2, b"\xb2\xa1"), (4, 1, b"\1\0\0\0")]
)
def test_memset(memory: Memory, element: int, value: int, expected: bytes) -> None:
    at = memory.guest.base
    memory.allocate(at, 4096)
    memory.set(flat(at, 64), value, element)
    assert content(memory, flat(at, 64)) == expected * (64 // element)
    memory.set(Rows(at + 128, 32, 8, 3), value, element)
    row = expected * (8 // element)
    assert content(memory, flat(at + 128, 96)) == (row + bytes(24)) * 3
    for rows in (flat(at + 1, 4), flat(at, 5), Rows(at, 33, 4, 2)):
        if element > 1:
            assert code(memory.set, rows, 0, element) == 1
    assert code(memory.set, flat(at, 9), 0, 3) == 1


def test_random_copies_agree_with_a_model(memory: Memory) -> None:
    random_ = random.Random(3)
    size = 300_000
    at = memory.guest.base + 256
    memory.allocate(at, size)
    model = bytearray(size)

    def shape() -> tuple[int, int, int, int]:
        width = random_.choice([1, 3, 64, 1000, 40_000, 100_000])
        height = random_.choice([1, 1, 2, 3, 50])
        pitch = width + random_.choice([0, 0, 1, 24, 4096])
        while (height - 1) * pitch + width > size:
            height = max(1, height // 2)
        return random_.randrange(size - (height - 1) * pitch - width + 1), pitch, width, height

    def packed(offset: int, pitch: int, width: int, height: int) -> bytes:
        return b"".join(model[offset + row * pitch : offset + row * pitch + width] for row in range(height))

    for _ in range(300):
        offset, pitch, width, height = shape()
        rows = Rows(at + offset, pitch, width, height)
        kind = random_.randrange(4)
        if kind == 0:
            data = random_.randbytes(width * height)
            memory.write(rows, memoryview(data))
        elif kind == 1:
            data = bytes([random_.randrange(256)]) * (width * height)
            memory.set(rows, data[0], 1)
        elif kind == 2:
            other = random_.choice([width, pitch, width + 32])
            if (height - 1) * other + width > size:
                other = width
            source = random_.randrange(size - (height - 1) * other - width + 1)
            data = packed(source, other, width, height)
            if height > 1 and abs(source - offset) < height * max(pitch, other):
                continue  # overlapping rows: undefined
            memory.copy(rows, Rows(at + source, other, width, height))
        else:
            assert content(memory, rows) == packed(offset, pitch, width, height)
            continue
        for row in range(height):
            model[offset + row * pitch : offset + row * pitch + width] = data[row * width : (row + 1) * width]
    assert content(memory, flat(at, size)) == model


@pytest.mark.parametrize("size", [1, 100, 5000, 200_000])
@pytest.mark.parametrize("shift", [-7, 0, 7])
def test_overlapping_plain_copies_are_moves(memory: Memory, size: int, shift: int) -> None:
    at = memory.guest.base
    memory.allocate(at, size + 64)
    data = random.Random(size).randbytes(size)
    memory.write(flat(at + 16, size), memoryview(data))
    memory.copy(flat(at + 16 + shift, size), flat(at + 16, size))
    assert content(memory, flat(at + 16 + shift, size)) == data


def test_large_reads_come_in_pieces(memory: Memory) -> None:
    at = memory.guest.base
    memory.allocate(at, 16 << 20)
    data = random.Random(4).randbytes(16 << 20)
    memory.write(flat(at, 16 << 20), memoryview(data))
    assert content(memory, flat(at, 16 << 20)) == data
    wide = Rows(at, 3 << 20, (2 << 20) + 5, 4)
    expected = b"".join(data[row * (3 << 20) : row * (3 << 20) + (2 << 20) + 5] for row in range(4))
    assert content(memory, wide) == expected
    narrow = Rows(at + 3, 4096, 100, 4000)
    assert content(memory, narrow) == b"".join(data[at : at + 100] for at in range(3, 3 + 4000 * 4096, 4096))


def test_clear_ends_everything(memory: Memory) -> None:
    at = memory.guest.base
    memory.allocate(at, 10_000)
    memory.allocate_module(100, [Part(0, 100, "a")])
    memory.clear()
    assert memory.window.resident_pages == 0
    assert len(memory.allocations) == 0
    memory.allocate(at, QUOTA)


def test_sessions_share_the_device_s_memory() -> None:
    budget = Budget(1000)
    first, second = Memory(QUOTA, budget), Memory(QUOTA, budget)
    first.allocate(first.guest.base, 600)
    second.allocate(second.guest.base, 400)
    with pytest.raises(CudaError, match="use 1000 of its 1000 bytes") as found:
        second.allocate(second.guest.base + 4096, 1)
    assert found.value.code == 2
    second.free(second.guest.base)
    second.allocate_module(300, [Part(0, 300, "a")])
    assert budget.used == 900
    second.clear()
    assert budget.used == 600
    second.allocate(second.guest.base, 400)
    first.close()
    assert budget.used == 400
    second.close()
    assert budget.used == 0
