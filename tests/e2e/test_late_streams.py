"""Real CUDA programs on a driver whose streams run as late as CUDA allows (`FARLANE_TEST=late`): they print what they print anyhow.

A selection of tests/native's programs; with --full-matrix all that nvcc compiles."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

REGISTRY = Path(__file__).parents[1] / "native" / "registry.toml"
MODES = ("none", "calls", "loops")
BUILD = Build(3, "sm_75")
PROGRAMS: tuple[str, ...] = ()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "entry" not in metafunc.fixturenames:
        return
    entries = [each for each in registry.load(REGISTRY) if "nvcc" in each.compilers and not each.helper]
    if not metafunc.config.getoption("--full-matrix"):
        entries = [each for each in entries if each.name in PROGRAMS]
        assert len(entries) == len(PROGRAMS)
    metafunc.parametrize("entry", entries, ids=[each.name for each in entries])


def test_program(entry: registry.Entry, guest: Guest, toolchain: Callable[[str], Toolchain]) -> None:
    command = entry.compiled(toolchain("13.0"), BUILD)
    mode = MODES[zlib.crc32(entry.name.encode()) % len(MODES)]
    outcome = guest.run(command, mode, extra={"FARLANE_TEST": "late"})
    assert (outcome.status, outcome.stderr, outcome.stdout) == (0, "", entry.expected), mode
