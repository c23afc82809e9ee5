"""Where a session's pages lie: the translation table, the page table and the window say the same, whatever is allocated and freed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest
from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.sim.memory.memory import Budget, Memory, Part
from farlane.backend.device.sim.memory.space import PROGRAM, Physical, Space
from farlane.backend.device.sim.memory.window import PAGE, WRITABLE
from farlane.backend.memory.paging import PAGE_2M, PAGE_64K, PageFault

QUOTA = 64 << 20


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory(QUOTA, Budget(2 * QUOTA), Physical(2 * QUOTA))
    yield memory
    memory.close()


def _agree(memory: Memory, space: Space) -> list[int]:
    """The frames of all mapped pages; asserts that they differ, and that everything maps the same."""
    frames = []
    mapped = 0
    for first, last, flags in memory.window.runs():
        for page in range(first, last, PAGE):
            walked = space.page_table.translate(page)
            assert space.translate(page) == walked.physical
            assert walked.writable == bool(flags & WRITABLE)
            frames.append(walked.physical)
            mapped += PAGE
    if space.page_bytes == PAGE:
        assert space.page_table.mapped_bytes == mapped
    assert len(set(frames)) == len(frames)
    return frames


@pytest.mark.parametrize("page_bytes", [PAGE, PAGE_64K, PAGE_2M])
@pytest.mark.parametrize("late", [False, True])
def test_tables_follow_allocations(memory: Memory, page_bytes: int, late: bool) -> None:
    source = random.Random(page_bytes + late)
    space = None if late else memory.open_space(page_bytes)
    live: list[tuple[int, int]] = []
    at = memory.guest.base
    for _ in range(120):
        if live and source.random() < 0.45:
            address, _ = live.pop(source.randrange(len(live)))
            memory.free(address)
        else:
            size = source.choice([100, 256, 5000, 70_000, 600_000])
            memory.allocate(at, size)
            live.append((at, size))
            at += -(-size // 256) * 256 + source.choice([0, 0, 300 << 10])
    space = memory.open_space(page_bytes)
    _agree(memory, space)
    for address, size in live:
        assert space.translate(address + size - 1) is not None
        memory.free(address)
    assert space.page_table.mapped_bytes == 0
    assert not space.translations.table.groups
    with pytest.raises(PageFault):
        space.page_table.translate(at)


def test_frames_behind_one_allocation_are_not_contiguous(memory: Memory) -> None:
    space = memory.open_space()
    memory.allocate(memory.guest.base, 8 << 20)
    frames = _agree(memory, space)
    assert len(frames) == 2048
    jumps = sum(after != before + PAGE for before, after in itertools.pairwise(frames))
    assert 2 <= jumps <= 4, "frames of 2 MiB, from all over the device"


def test_two_sessions_have_no_frame_in_common_and_see_their_programs_at_the_same_addresses() -> None:
    budget, physical = Budget(QUOTA), Physical(QUOTA)
    first, second = Memory(QUOTA, budget, physical), Memory(QUOTA, budget, physical)
    places = []
    for memory in (first, second):
        space = memory.open_space()
        memory.allocate(memory.guest.base, 3 << 20)
        places.append(memory.allocate_module(3 * PAGE, [Part(0, 3 * PAGE, "variable v")]))
    spaces = first.open_space(), second.open_space()
    assert not set(_agree(first, spaces[0])) & set(_agree(second, spaces[1]))
    for space, place in zip(spaces, places, strict=True):
        space.run()
        for offset in (0, PAGE + 5, 3 * PAGE - 1):
            found = physical.programs.table.lookup(PROGRAM + offset)
            assert found is not None
            assert found.physical == space.translate(place + offset)
    second.free_module(places[1])
    assert physical.programs.table.lookup(PROGRAM) is None
    for memory in (first, second):
        memory.close()
    assert len(physical.take(QUOTA // PAGE_2M)) == QUOTA // PAGE_2M, "every frame is back"


def test_constants_share_no_page_with_what_kernels_may_write(memory: Memory) -> None:
    space = memory.open_space()
    base = memory.allocate_module(
        2 * PAGE, [Part(0, 16, "variable v"), Part(PAGE, 16, "constant c", writable=False)], PAGE
    )
    other = memory.allocate_module(64, [Part(0, 64, "variable w")])
    assert not memory.window.read_only(other)
    assert memory.window.read_only(base + PAGE)
    assert not space.page_table.translate(base + PAGE).writable
    with pytest.raises(PageFault, match="reading only"):
        space.page_table.translate(base + PAGE, write=True)
    memory.write(Rows(base + PAGE, 4, 4, 1), memoryview(b"abcd"))  # the host may


def test_without_frames_an_allocation_fails_and_leaves_nothing() -> None:
    memory = Memory(QUOTA, Budget(QUOTA), Physical(4 << 20))
    space = memory.open_space()
    memory.allocate(memory.guest.base, 3 << 20)
    with pytest.raises(CudaError, match="no physical memory"):
        memory.allocate(memory.guest.base + (8 << 20), 2 << 20)
    memory.free(memory.guest.base)
    memory.allocate(memory.guest.base + (8 << 20), 4 << 20)
    _agree(memory, space)
    memory.close()
