"""Fixtures of the simulated device's tests. sim_program is importable because its folder is put on the path here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from farlane.backend.device.sim import SimDevice

sys.path.insert(0, str(Path(__file__).parent))

from sim_program import Program


@pytest.fixture(scope="module")
def device() -> Iterator[SimDevice]:
    device = SimDevice(threads=3)
    yield device
    device.close()


@pytest.fixture
def program(device: SimDevice, request: pytest.FixtureRequest) -> Iterator[Program]:
    """With the PTX that the test's module calls MODULE, if it has some."""
    own = getattr(request.module, "MODULE", None)
    program = Program(device) if own is None else Program(device, own.encode())
    yield program
    program.context.close()
