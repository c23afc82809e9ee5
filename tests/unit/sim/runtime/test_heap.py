"""The device heap: blocks never overlap, neighbours join when they are free, nothing outside is handed out."""

from __future__ import annotations

from farlane.backend.device.sim.runtime.heap import GRANULE, Heap
from hypothesis import given
from hypothesis import strategies as st

BASE, SIZE = 0x1008, 1 << 16  # not aligned on purpose


def test_everything_can_be_had_again_after_it_was_freed() -> None:
    heap = Heap(0x1000, 4096)
    whole = heap.allocate(4096)
    assert whole == 0x1000
    assert heap.allocate(1) == 0
    assert heap.free(whole)
    blocks = [heap.allocate(100) for _ in range(40)]
    assert blocks[36:] == [0] * 4
    for block in [*blocks[:36:2], *blocks[1:36:2]]:
        assert heap.free(block)
    assert heap.allocate(4096) == whole


def test_what_was_not_allocated_cannot_be_freed() -> None:
    heap = Heap(0x1000, 4096)
    block = heap.allocate(64)
    assert not heap.free(block + 16)
    assert not heap.free(0x999)
    assert heap.free(block)
    assert not heap.free(block)


def test_requests_without_room() -> None:
    heap = Heap(0, 0)
    assert heap.allocate(1) == 0
    heap = Heap(BASE, SIZE)
    assert heap.allocate(SIZE + 1) == heap.allocate(1 << 63) == heap.allocate(16, 1 << 62) == 0
    assert heap.allocate(0) % GRANULE == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5000), st.sampled_from([0, 1, 16, 64, 4096])), max_size=200))
def test_blocks_are_apart_aligned_and_inside(steps: list[tuple[bool, int, int]]) -> None:
    heap = Heap(BASE, SIZE)
    held: dict[int, int] = {}
    for give_back, size, alignment in steps:
        if give_back and held:
            address = list(held)[size % len(held)]
            del held[address]
            assert heap.free(address)
            continue
        address = heap.allocate(size, alignment)
        if not address:
            continue
        assert address % max(GRANULE, alignment) == 0
        assert address >= BASE
        assert address + size <= BASE + SIZE
        for other, length in held.items():
            assert address + max(size, 1) <= other or other + max(length, 1) <= address
        held[address] = size
    assert heap.blocks == len(held)
    for address in held:
        assert heap.free(address)
    assert heap.allocate(SIZE - 2 * GRANULE) != 0
