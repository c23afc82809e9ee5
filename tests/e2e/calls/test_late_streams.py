"""The test options of the driver (`FARLANE_TEST`): late streams, failures, counts.

Real CUDA programs print what they print anyhow where streams run as late as CUDA allows: a selection of tests/native's; with --full-matrix all that
nvcc compiles, those excepted that `late` is not for."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import native_builds
import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.toolchain import Toolchain

REGISTRY = Path(__file__).parents[2] / "native" / "registry.toml"
MODES = ("none", "calls", "loops")
PROGRAMS = (
    "matmul_tiled", "streams_events", "errors", "nested_launches", "graphs", "textures", "vmm_basics", "driver_streams",
    "driver_callbacks", "driver_events", "driver_graph_updates", "driver_copy_shapes", "driver_surfaces",
)  # fmt: skip
# Their host code looks at managed or mapped memory, at what pools and graphs hold, at contexts that end, or at words that streams wait for.
NOT_FOR_LATE = {
    "managed", "registered_mapped", "pinned_pointers", "registered_in_kernels", "graph_memory", "driver_memory_operations",
    "driver_held_streams", "driver_stream_allocator", "driver_mixed_pools", "driver_graph_memory", "driver_managed_variables",
    "driver_mixed_captures", "driver_contexts_ownership",
    # A memset in the null stream, then work in a non-blocking one that does not wait for it: a race, which CUDA's usual timing hides.
    "driver_memory", "driver_mixed_graphs",
}  # fmt: skip
SCRIPTS = Path(__file__).parent / "programs"
CLIENTS, DOUBLES = (Path(__file__).parents[2] / name for name in ("clients", "doubles"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "entry" not in metafunc.fixturenames:
        return
    entries = [each for each in registry.load(REGISTRY) if "nvcc" in each.compilers and not each.helper]
    entries = [each for each in entries if each.name not in NOT_FOR_LATE]
    if not metafunc.config.getoption("--full-matrix"):
        entries = [each for each in entries if each.name in PROGRAMS]
        assert len(entries) == len(PROGRAMS)
    metafunc.parametrize("entry", entries, ids=[each.name for each in entries])


@pytest.mark.native
def test_program(entry: registry.Entry, guest: Guest, toolchain: Callable[[str], Toolchain]) -> None:
    command = native_builds.by_nvcc(entry, toolchain)
    mode = MODES[zlib.crc32(entry.name.encode()) % len(MODES)]
    outcome = guest.run(command, mode, extra={"FARLANE_TEST": "late"})
    assert (outcome.status, outcome.stderr, outcome.stdout) == (0, "", entry.expected), mode


@pytest.mark.parametrize(
    ("case", "options", "printed"),
    [
        ("reuse", "late", "2"), ("reuse", "patient", "1"),
        ("arrival", "late", "0 3"),
        ("order", "late", "0 5 7"), ("order", "patient", "5 5 7"),
        ("query", "late", "600 done done 600 600 600"),
        ("failures", "late",
         "cuMemAlloc_v2: 2\n2 1 allocations 1 pinned 1 modules 1 streams 1 events 1 held 1 \nmodules 1 early 1 "),
        ("off", "", "False -1"),
    ],
    ids=lambda value: value.split("\n")[0],
)  # fmt: skip
def test_what_a_program_sees(case: str, options: str, printed: str, guest: Guest) -> None:
    path = os.pathsep.join(map(str, (SCRIPTS, CLIENTS, DOUBLES)))
    extra = {"PYTHONPATH": path} | ({"FARLANE_TEST": options} if options else {})
    outcome = guest.run([sys.executable, str(SCRIPTS / "late_streams.py"), case], "loops", extra=extra)
    assert (outcome.status, outcome.stderr, outcome.stdout) == (0, "", f"{printed}\n")
    if case == "failures":
        counts = outcome.report.sections["test"]
        assert counts.pop("calls") > 10
        assert counts == {"modules": 1, "early": 1}


def test_words_that_are_no_commands_are_named(guest: Guest) -> None:
    extra = {"PYTHONPATH": os.pathsep.join(map(str, (SCRIPTS, CLIENTS, DOUBLES))), "FARLANE_TEST": "late; later"}
    outcome = guest.run([sys.executable, str(SCRIPTS / "late_streams.py"), "reuse"], extra=extra)
    assert outcome.stderr == 'farlane: FARLANE_TEST: " later" is no command\n'
