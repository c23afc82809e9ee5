"""Memory put back to earlier points: random writes, allocations that share pages, points given up."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from farlane.backend.device.sim.memory import journal
from farlane.backend.device.sim.memory.memory import Budget, Memory

SIZES = (5000, 300, 1, 9000, 4096)


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory(1 << 24, Budget(1 << 24))
    yield memory
    memory.close()


def allocated(memory: Memory, sizes: tuple[int, ...] = SIZES) -> list[tuple[int, int]]:
    """Where allocations lie in the window; some share pages."""
    places, at = [], 256
    for size in sizes:
        memory.allocate(memory.guest.base + at, size)
        places.append((at, size))
        at += -(-size // 256) * 256 + random.Random(size).choice([0, 256, 8192])
    return places


def held(memory: Memory, places: list[tuple[int, int]]) -> list[bytes]:
    return [bytes(memory.window.view[at : at + size]) for at, size in places]


def scribble(memory: Memory, places: list[tuple[int, int]], rng: random.Random) -> None:
    for _ in range(rng.randrange(4)):
        at, size = rng.choice(places)
        first = rng.randrange(size)
        length = rng.randrange(1, size - first + 1)
        memory.window.view[at + first : at + first + length] = rng.randbytes(length)


@pytest.mark.parametrize("seed", range(8))
def test_back_to_any_point(memory: Memory, seed: int) -> None:
    rng = random.Random(seed)
    places = allocated(memory)
    for _ in range(6):
        points, states = [], []
        for _ in range(rng.randrange(1, 8)):
            scribble(memory, places, rng)
            point = memory.content(points[-1] if points else None)
            assert point is not None
            points.append(point)
            states.append(held(memory, places))
        scribble(memory, places, rng)
        chosen = rng.randrange(len(points))
        assert memory.put_back(points[chosen])
        assert held(memory, places) == states[chosen]
        if chosen + 1 < len(points):
            assert not memory.put_back(points[-1])
        # What is done from there on has points of its own.
        scribble(memory, places, rng)
        assert memory.put_back(points[chosen])
        assert held(memory, places) == states[chosen]


def test_points_end_with_the_chain_and_with_the_allocations(memory: Memory) -> None:
    allocated(memory)
    first = memory.content()
    second = memory.content()
    assert first is not None
    assert second is not None
    assert not memory.put_back(first)
    assert memory.put_back(second)
    memory.allocate(memory.guest.base + (1 << 20), 256)
    assert not memory.put_back(second)
    third = memory.content(second)
    assert third is not None
    assert memory.put_back(third)


def test_too_much_is_not_kept(memory: Memory) -> None:
    memory.allocate(memory.guest.base, journal.LIMIT)
    assert memory.content() is not None
    memory.allocate(memory.guest.base + (4 << 20), 1)
    assert memory.content() is None
    memory.free(memory.guest.base)
    assert memory.content() is not None
    for index in range(journal.PAGES_LIMIT // 8192 + 1):
        memory.allocate(memory.guest.base + (6 << 20) + 8192 * index - 8, 16)  # two pages each
    assert memory.content() is None
