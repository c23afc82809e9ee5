"""Physical memory of a session: where its bytes are, what ends with it, and the sessions that do not have it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from farlane.backend.device.base import NO_ACCESS, READ, READ_WRITE, CudaError, Rows
from farlane.backend.device.sim import SimDevice
from farlane.backend.device.sim.memory import memory as sim_memory
from farlane.backend.device.sim.memory.memory import Budget, Memory, Physical
from farlane.backend.device.sim.memory.window import GRANULE, READABLE, WRITABLE, Window
from farlane.backend.device.sim.options import Oversubscription, Settings
from farlane.backend.system.mappings import MappingError
from sim_program import Program, pack

QUOTA = 16 * GRANULE


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory(QUOTA, Budget(2 * QUOTA))
    yield memory
    memory.close()


def blocks(memory: Memory) -> int:
    """Bytes that the system has given to the session's file."""
    return os.fstat(memory.physical._descriptor).st_blocks * 512


def show(memory: Memory, address: int, part: sim_memory.PhysicalPart, access: int = READ_WRITE) -> None:
    memory.physical.map(memory.allocations, address, part, 0, part.size)
    memory.physical.set_access(memory.allocations, address, part.size, access)


def test_memory_is_the_systems_until_it_is_used_and_again_when_it_ends(memory: Memory) -> None:
    base = memory.guest.base
    part = memory.create_physical(4 * GRANULE)
    show(memory, base, part)
    assert blocks(memory) == 0
    memory.write(Rows(base + GRANULE, GRANULE, GRANULE, 1), memoryview(bytes(GRANULE)))
    assert blocks(memory) == GRANULE
    memory.physical.unmap(memory.allocations, base, 4 * GRANULE)
    assert blocks(memory) == GRANULE
    memory.free_physical(part)
    assert blocks(memory) == 0
    assert memory._budget.used == 0


def test_flags_follow_the_access(memory: Memory) -> None:
    base, window = memory.guest.base, memory.window
    part = memory.create_physical(GRANULE)
    memory.physical.map(memory.allocations, base, part, 0, GRANULE)
    for access, flags in ((NO_ACCESS, 0), (READ, READABLE), (READ_WRITE, READABLE | WRITABLE), (NO_ACCESS, 0)):
        memory.physical.set_access(memory.allocations, base, GRANULE, access)
        assert set(window.flags[: GRANULE // 4096].tolist()) == {flags}
        assert not window.flags[GRANULE // 4096]


def test_an_allocation_may_follow_where_a_mapping_was(memory: Memory) -> None:
    base = memory.guest.base
    for _ in range(3):
        part = memory.create_physical(2 * GRANULE)
        show(memory, base, part)
        memory.set(Rows(base, 2 * GRANULE, 2 * GRANULE, 1), 0x77, 1)
        memory.physical.unmap(memory.allocations, base, 2 * GRANULE)
        memory.free_physical(part)
        assert memory.window.resident_pages == 0
        memory.allocate(base + 4096, GRANULE)
        assert not any(b"".join(map(bytes, memory.read(Rows(base + 4096, GRANULE, GRANULE, 1)))))
        memory.free(base + 4096)


def test_closing_gives_everything_back() -> None:
    budget, before = Budget(2 * QUOTA), len(os.listdir("/proc/self/fd"))
    memory = Memory(QUOTA, budget)
    show(memory, memory.guest.base, memory.create_physical(GRANULE))
    memory.create_physical(2 * GRANULE)
    memory.allocate(memory.guest.base + 8 * GRANULE, 100)
    assert budget.used == 3 * GRANULE + 100
    memory.close()
    assert (budget.used, len(os.listdir("/proc/self/fd"))) == (0, before)


def test_the_devices_memory_bounds_all_sessions() -> None:
    budget = Budget(QUOTA)
    one, other = Memory(QUOTA, budget), Memory(QUOTA, budget)
    one.create_physical(QUOTA - GRANULE)
    with pytest.raises(CudaError) as caught:
        other.create_physical(2 * GRANULE)
    assert caught.value.code == 2
    other.create_physical(GRANULE)
    for memory in (one, other):
        memory.close()


def test_the_window_is_smaller_where_there_are_no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(size: int, place: int | None = None, file: int | None = None) -> Window:
        if size > 100 << 30:
            raise MappingError(12, "no room")
        return Window(size)

    monkeypatch.setattr(sim_memory, "Window", limited)
    memory = Memory(QUOTA, Budget(8 << 30), Physical(8 << 30))
    assert memory.guest.size == sim_memory.GUEST_BYTES
    memory.close()


@pytest.mark.parametrize(
    "device",
    [
        lambda _: SimDevice(threads=1, total_memory=1 << 30, oversubscription=Oversubscription(8 * GRANULE)),
        # The report replaces the file of its name: no device file, therefore.
        lambda folder: SimDevice(
            threads=1, total_memory=1 << 30, model=Settings("mgpusim", str(folder / "report.json"))
        ),
    ],
    ids=["bounded", "modelled"],
)
def test_sessions_whose_pages_have_places_have_none_of_it(device: object, tmp_path: Path) -> None:
    opened: SimDevice = device(tmp_path)  # type: ignore[operator]
    assert not opened.describe().has_mappings
    context = opened.open_context(QUOTA)
    with pytest.raises(CudaError) as caught:
        context.create_physical(GRANULE)
    assert caught.value.code == 801
    context.close()
    opened.close()


def test_checks_know_mappings(program: Program) -> None:
    """Bounds of neighbouring mappings are those of their range, and what is written at one address is initialized at the other."""
    program.context.check(["memory", "init"])
    context, window = program.context, program.context.window
    part = context.create_physical(GRANULE)
    first = window.base + 64 * GRANULE
    second = first + GRANULE
    for address in (first, second):
        context.map_physical(address, part, 0, GRANULE)
        context.set_access(address, GRANULE, READ_WRITE)
    program.launch("poke", pack("QI", first, 0))
    program.launch("peek", pack("QQ", second, second - 4))
    assert struct.unpack("<I", program.read(first + GRANULE - 4, 4)) == (1,)
    with pytest.raises(CudaError) as caught:
        program.launch("poke", pack("QI", second + GRANULE, 0))
    assert caught.value.code == 700
    assert program.context.finish_checks() == 1
