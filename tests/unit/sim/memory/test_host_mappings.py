"""Window memory at the program's own addresses: shared with the window, gone with its allocation, refused where this process has something else."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import pytest
from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.sim.memory.memory import Budget, Memory
from farlane.backend.device.sim.memory.window import PAGE
from farlane.backend.jit.runtime.structures import GENERIC_WINDOWS

QUOTA = 64 << 20
SIZE = 3 * PAGE


@pytest.fixture
def memory():
    memory = Memory(QUOTA, Budget(2 * QUOTA))
    yield memory
    memory.close()


@pytest.fixture
def free_place() -> int:
    """Addresses that this process has no use for."""
    with mmap.mmap(-1, 64 * PAGE) as taken:
        place = ctypes.addressof(held := ctypes.c_char.from_buffer(taken))
        del held
    return place


def code(call: object, *args: object) -> int:
    with pytest.raises(CudaError) as found:
        call(*args)  # type: ignore[operator]
    return found.value.code


def test_both_addresses_show_the_same_bytes(memory: Memory, free_place: int) -> None:
    base = memory.guest.base
    memory.allocate(base, SIZE + 100)
    memory.write(Rows(base, 5, 5, 1), memoryview(b"hello"))
    memory.map_host(free_place, base, SIZE)
    assert ctypes.string_at(free_place, 6) == b"hello\0"
    ctypes.memmove(free_place + SIZE - 3, b"end", 3)
    assert b"".join(map(bytes, memory.read(Rows(base + SIZE - 3, 4, 4, 1)))) == b"end\0"
    assert memory.host_mappings.table.run(free_place + SIZE - 1) == (free_place, free_place + SIZE)
    assert memory.host_mappings.table.run(free_place + SIZE) == (0, 0)


def test_a_host_mapping_ends_with_its_allocation(memory: Memory, free_place: int) -> None:
    base = memory.guest.base
    for _ in range(2):
        memory.allocate(base, SIZE)
        memory.map_host(free_place, base, SIZE)
        ctypes.memset(free_place, 7, SIZE)
        memory.free(base)
        assert memory.host_mappings.ranges() == []
    memory.allocate(base, SIZE)
    assert not any(b"".join(map(bytes, memory.read(Rows(base, SIZE, SIZE, 1)))))
    memory.map_host(free_place, base, SIZE)
    memory.clear()
    assert memory.host_mappings.table.count == 0


def test_what_this_process_has_stays(memory: Memory) -> None:
    base = memory.guest.base
    memory.allocate(base, SIZE)
    with mmap.mmap(-1, SIZE) as own:
        own.write(b"own")
        place = ctypes.addressof(held := ctypes.c_char.from_buffer(own))
        assert code(memory.map_host, place, base, SIZE) == 801
        assert own[:3] == b"own"
        del held
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    stack = next(line for line in lines if line.endswith("[stack]"))
    below = int(stack.split("-")[0], 16) - (256 << 20)
    for place in (below, GENERIC_WINDOWS, GENERIC_WINDOWS - PAGE):
        assert code(memory.map_host, place, base, SIZE) == 801, hex(place)


def test_only_whole_pages_of_one_allocation_once(memory: Memory, free_place: int) -> None:
    base = memory.guest.base
    memory.allocate(base, SIZE)
    for place, device, size in [
        (free_place + 1, base, SIZE),
        (free_place, base + 256, PAGE),
        (free_place, base, SIZE + PAGE),
        (free_place, base, PAGE + 1),
        (free_place, base + 10 * PAGE, PAGE),
        (free_place, base, 0),
    ]:
        assert code(memory.map_host, place, device, size) == 1
    memory.map_host(free_place, base, PAGE)
    assert code(memory.map_host, free_place + 10 * PAGE, base, PAGE) == 1
    memory.map_host(free_place + 10 * PAGE, base + PAGE, PAGE)
