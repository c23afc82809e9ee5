"""Which launches ask for helpers, and that this changes no result."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from farlane.backend.device.options import DeviceOptions
from farlane.backend.device.sim import SimDevice
from farlane.backend.device.sim.launching.pool import Pool
from farlane.backend.device.sim.runtime import prepared
from farlane.backend.device.sim.runtime.prepared import ALONE_NS, WAKE_NS, CostEstimate
from sim_program import Program, pack

BLOCKS = 1000


def test_what_is_not_known_is_shared() -> None:
    known = CostEstimate()
    assert not known.is_short(1)
    known.took(1, 1, 1)
    assert not known.is_short(1)
    known.took(1, 1, 1)
    assert known.is_short(1)


def test_a_launch_is_judged_by_its_blocks() -> None:
    known = CostEstimate()
    for _ in range(2):
        known.took(10, ALONE_NS // 10, 1)
    assert known.is_short(100)
    assert not known.is_short(101)


def test_one_long_launch_of_the_last_two_asks_for_helpers() -> None:
    known = CostEstimate()
    for nanoseconds, short in [(1, False), (1, True), (2 * ALONE_NS, False), (1, False), (1, True)]:
        known.took(1, nanoseconds, 1)
        assert known.is_short(1) == short


def test_how_long_helpers_take_to_come_does_not_count() -> None:
    known = CostEstimate()
    for _ in range(2):
        known.took(1, WAKE_NS + ALONE_NS // 4, 4)
    assert known.is_short(1)
    known.took(1, WAKE_NS + ALONE_NS // 4 + 1, 4)
    assert not known.is_short(1)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each launch that asks for helpers."""
    found: list[int] = []
    run = Pool.run
    monkeypatch.setattr(Pool, "run", lambda pool, *arguments: (found.append(1), run(pool, *arguments))[1])
    return found


@pytest.fixture
def device() -> Iterator[SimDevice]:
    device = SimDevice(DeviceOptions(tiers=False), threads=2)  # else a launch may go in parts
    yield device
    device.close()


@pytest.mark.parametrize(("limit", "expected"), [(10**15, 2), (-1, 5)])
def test_short_launches_ask_nobody_and_compute_the_same(
    device: SimDevice, monkeypatch: pytest.MonkeyPatch, asked: list[int], limit: int, expected: int
) -> None:
    monkeypatch.setattr(prepared, "ALONE_NS", limit)
    program = Program(device)
    values = np.linspace(0, 1, BLOCKS * 128, dtype=np.float32)
    at = program.allocate(values.nbytes, values.tobytes())
    for _ in range(5):
        program.launch("scale", pack("QI", at, values.size), grid=BLOCKS, block=128)
    found = program.read(at, values.nbytes)
    program.context.close()
    assert len(asked) == expected
    alone_device = SimDevice(DeviceOptions(tiers=False), threads=1)
    other = Program(alone_device)
    at = other.allocate(values.nbytes, values.tobytes())
    for _ in range(5):
        other.launch("scale", pack("QI", at, values.size), grid=BLOCKS, block=128)
    assert found == other.read(at, values.nbytes)
    other.context.close()
    alone_device.close()


def test_another_shape_of_the_same_block_is_known_by_its_blocks(
    device: SimDevice, monkeypatch: pytest.MonkeyPatch, asked: list[int]
) -> None:
    monkeypatch.setattr(prepared, "ALONE_NS", 10**15)
    program = Program(device)
    at = program.allocate(4 * BLOCKS * 128)
    for grid in (BLOCKS, BLOCKS, BLOCKS - 1, BLOCKS - 2):
        program.launch("scale", pack("QI", at, BLOCKS * 128), grid=grid, block=128)
    assert len(asked) == 2
    program.context.close()


def test_blocks_that_wait_for_others_are_shared(
    device: SimDevice, monkeypatch: pytest.MonkeyPatch, asked: list[int]
) -> None:
    monkeypatch.setattr(prepared, "ALONE_NS", 10**15)
    program = Program(device)
    at = program.allocate(4 * BLOCKS * 128)
    for _ in range(2):
        program.launch("scale", pack("QI", at, BLOCKS * 128), grid=BLOCKS, block=128)
    kernel = program.context.function(program.module, "scale").prepared.kernel
    monkeypatch.setattr(kernel, "info", dataclasses.replace(kernel.info, waits=True))
    program.launch("scale", pack("QI", at, BLOCKS * 128), grid=BLOCKS, block=128)
    assert len(asked) == 3
    program.context.close()
