"""Frames of three sizes: no overlap, nothing lost, everything joins again."""

from __future__ import annotations

import itertools

import pytest
from farlane.backend.memory.paging import PAGE_2M, PAGE_4K, PAGE_64K, Frames, OutOfFrames
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=60)
@given(
    st.sampled_from(["lowest", "scattered"]),
    st.lists(st.tuples(st.booleans(), st.sampled_from([PAGE_4K, PAGE_64K, PAGE_2M]), st.integers(0, 60)), max_size=40),
)
def test_frames_never_overlap(order: str, steps: list[tuple[bool, int, int]]) -> None:
    base = 16 * PAGE_2M
    frames = Frames(4 * PAGE_2M, base, order)  # type: ignore[arg-type]
    held: list[tuple[int, int]] = []
    for take, size, number in steps:
        if take:
            before = frames.free_bytes
            try:
                held += [(address, size) for address in frames.allocate(size, number)]
            except OutOfFrames:
                assert frames.free_bytes == before
        elif held:
            frames.free([held.pop(number % len(held))[0]])
        taken = sorted(held)
        assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(taken))
        assert all(base <= a and a + size <= base + 4 * PAGE_2M and a % size == 0 for a, size in taken)
        assert frames.free_bytes == 4 * PAGE_2M - sum(size for _, size in held)
    frames.free(address for address, _ in held)
    assert len(frames.allocate(PAGE_2M, 4)) == 4, "all parts have joined"


def test_scattered_frames_are_not_contiguous() -> None:
    given_out = Frames(8 * PAGE_2M, order="scattered").allocate(PAGE_64K, 40)
    assert sum(b - a == PAGE_64K for a, b in itertools.pairwise(given_out)) < 10
    assert given_out == Frames(8 * PAGE_2M, order="scattered").allocate(PAGE_64K, 40)
    assert Frames(8 * PAGE_2M).allocate(PAGE_4K, 3) == [0, PAGE_4K, 2 * PAGE_4K]


def test_frames_that_came_back_go_before_those_that_come_later_in_the_order() -> None:
    order = Frames(8 * PAGE_2M, order="scattered").allocate(PAGE_2M, 8)
    frames = Frames(8 * PAGE_2M, order="scattered")
    assert frames.allocate(PAGE_2M, 5) == order[:5]
    frames.free([order[3], order[1]])
    assert frames.allocate(PAGE_2M, 4) == [order[1], order[3], order[5], order[6]]
    frames.free([order[6]])
    assert frames.largest() == PAGE_2M
    assert frames.allocate(PAGE_2M, 2) == order[6:]
    assert frames.largest() == 0


def test_memory_can_be_used_to_the_last_frame() -> None:
    frames = Frames(2 * PAGE_2M, order="scattered")
    assert len(set(frames.allocate(PAGE_4K, 1024))) == 1024
    assert frames.largest() == 0
    with pytest.raises(OutOfFrames):
        frames.allocate(PAGE_4K)


def test_a_frame_is_freed_once() -> None:
    frames = Frames(PAGE_2M)
    [address] = frames.allocate(PAGE_64K)
    frames.free([address])
    with pytest.raises(ValueError, match="no frame was allocated"):
        frames.free([address])
    with pytest.raises(ValueError, match="no frame was allocated"):
        frames.free([address + PAGE_4K])
