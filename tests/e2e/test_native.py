"""Real CUDA programs, compiled by real CUDA compilers, on the simulated device: right results, the same in every mode.

Which builds are tested: tests/native/native_builds.py. Every build prints what the registry says, in each
deferral mode that it runs in.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.toolchain import Toolchain
from native_builds import CLANG_ROWS, CUDART, IMAGES, MODES, NVCC_ROWS, REGISTRY, Case, cases
from on_a_gpu import OTHERWISE

pytestmark = pytest.mark.native


def test_program(build_case: Case, toolchain: Callable[[str], Toolchain], guest: Guest) -> None:
    """A build runs right in its modes; deferral saves round trips."""
    command = build_case.entry.compiled(toolchain(build_case.row.toolchain), build_case.row.build())
    trips = {}
    for mode in build_case.modes:
        outcome = guest.run(command, mode)
        assert outcome.status == 0, f"mode {mode}: status {outcome.status}\n{outcome.stdout}{outcome.stderr}"
        assert outcome.stdout == build_case.entry.expected, f"mode {mode}"
        assert outcome.stderr == "", f"mode {mode}"
        assert outcome.report.unsupported == []
        assert outcome.report.processes >= 1
        trips[mode] = outcome.report.round_trips
    assert trips[build_case.modes[-1]] > 0
    if "none" in trips:
        assert 0 < trips["calls"] < trips["none"]


@pytest.mark.gpu
def test_program_natively(build_case: Case, toolchain: Callable[[str], Toolchain]) -> None:
    """The same build with NVIDIA's runtime on a real GPU prints the same: what is expected is what CUDA does."""
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("no NVIDIA GPU here")
    installed = toolchain(build_case.row.toolchain)
    command = build_case.entry.compiled(installed, build_case.row.build())
    environment = os.environ | {"LD_LIBRARY_PATH": str(installed.library_folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    if otherwise := OTHERWISE.get(build_case.entry.name):
        pytest.xfail(otherwise)
    assert (done.returncode, done.stdout) == (0, build_case.entry.expected), done.stderr


def test_every_program_says_what_it_prints() -> None:
    missing = [entry.name for entry in registry.load(REGISTRY) if entry.expected is None and not entry.helper]
    assert missing == []


def test_the_rows_cover_every_pair() -> None:
    """Every two values of two different options meet in one of nvcc's rows."""
    values = {"toolchain": ["13.0", "13.5"], "optimization": [0, 3], "image": list(IMAGES), "cudart": list(CUDART)}
    for first, second in itertools.combinations(values, 2):
        seen = {(getattr(row, first), getattr(row, second)) for row in NVCC_ROWS}
        assert seen == set(itertools.product(values[first], values[second]))


def test_every_program_runs_in_every_mode() -> None:
    ran: dict[str, set[str]] = {}
    for case in cases(full=False):
        ran.setdefault(case.entry.name, set()).update(case.modes)
    assert {name: modes for name, modes in ran.items() if modes != set(MODES)} == {}


def test_every_row_is_used() -> None:
    used = {case.row for case in cases(full=False)}
    assert used >= {*NVCC_ROWS, *CLANG_ROWS}
