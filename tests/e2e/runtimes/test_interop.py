"""Stripped programs with NVIDIA's runtime in them: they run on our libcuda.so.1 where the user switched that on, and are refused where not."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain
from native_builds import REGISTRY

pytestmark = pytest.mark.native

ON = {"FARLANE_INTEROP": "1"}
ENTRIES = {entry.name: entry for entry in registry.load(REGISTRY)}
# Each with one toolchain; tests/native/stripped.py runs every program with both (stripped.txt).
PROGRAMS = [
    "vecadd",
    "matmul_tiled",
    "streams_events",
    "managed",
    "managed_variables",
    "memory_pools",
    "shared_object",
    "launch_ex",
    "fork_child",
    "errors",
    "occupancy_query",
    "constants",
]
MOST_MORE = 2  # round trips in mode `calls`, above the shared build's


def stripped(entry: registry.Entry, toolchain: Toolchain, folder: Path) -> list[str]:
    command = entry.compiled(toolchain, dataclasses.replace(Build(), cudart="static"))
    program = folder / Path(command[0]).name
    shutil.copy2(command[0], program)
    subprocess.run(["strip", program], check=True)
    return [str(program), *command[1:]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "version"), list(zip(PROGRAMS, itertools.cycle(["13.0", "13.5"]), strict=False)))
def test_a_stripped_program_runs(
    name: str, version: str, toolchain: Callable[[str], Toolchain], guest: Guest, tmp_path: Path
) -> None:
    entry = ENTRIES[name]
    command = stripped(entry, toolchain(version), tmp_path)
    shared = entry.compiled(toolchain(version), Build())
    for mode in ("none", "calls", "loops"):
        outcome = guest.run(command, mode, extra=ON)
        assert (outcome.status, outcome.stdout, outcome.stderr) == (0, entry.expected, ""), mode
        if mode == "calls":
            assert outcome.report.round_trips <= guest.run(shared, mode).report.round_trips + MOST_MORE


@pytest.mark.parametrize("name", ["vecadd", "errors"])
def test_a_stripped_program_with_the_runtime_of_cuda_12_runs(
    name: str, toolchain: Callable[[str], Toolchain], guest: Guest, tmp_path: Path
) -> None:
    entry = ENTRIES[name]
    command = stripped(entry, toolchain("clang-12.9"), tmp_path)
    for mode in ("none", "calls", "loops"):
        outcome = guest.run(command, mode, extra=ON)
        assert (outcome.status, outcome.stdout, outcome.stderr) == (0, entry.expected, ""), mode


def test_without_the_users_word_one_line_says_what_asks(
    toolchain: Callable[[str], Toolchain], guest: Guest, tmp_path: Path
) -> None:
    outcome = guest.run(stripped(ENTRIES["vecadd"], toolchain("13.5"), tmp_path), "calls")
    assert outcome.status == 1
    assert "operation not supported" in outcome.stdout
    assert outcome.stderr.count("\n") == 1
    for part in ("CUDA runtime 13.5", "farlane setup --interop", "docs/explanation/interoperability.md"):
        assert part in outcome.stderr
