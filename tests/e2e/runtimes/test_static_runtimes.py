"""Programs with the CUDA runtime linked into them (nvcc's default) run as those with the shared one: the same output, and the same round trips."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.loader import elf
from farlane.frontend import shim_library
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.toolchain import Toolchain
from native_builds import REGISTRY, Row

pytestmark = pytest.mark.native

MODES = ("none", "calls", "loops")
ENTRIES = {entry.name: entry for entry in registry.load(REGISTRY)}
COMPARED = ("vecadd", "streams_events", "graphs", "stencil2d", "managed", "textures", "shared_object", "scan")
PROGRAMS = Path(__file__).parent / "programs"
LIBRARY, OPENER, USER = ((PROGRAMS / f"runtime_{name}.cu").read_text() for name in ("library", "opener", "user"))


def built(toolchain: Toolchain, folder: Path, name: str, source: str, *flags: str) -> str:
    (folder / f"{name}.cu").write_text(source)
    command = [str(toolchain.cuda_root / "bin/nvcc"), "-arch=sm_75", *flags, f"{name}.cu", "-o", name, "-ldl"]
    subprocess.run(command, cwd=folder, check=True, env=toolchain.environment(), capture_output=True)
    return str(folder / name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", COMPARED)
def test_round_trips_are_those_of_the_shared_runtime(
    name: str, toolchain: Callable[[str], Toolchain], guest: Guest
) -> None:
    trips = {}
    for cudart in ("shared", "static"):
        command = ENTRIES[name].compiled(toolchain("13.0"), Row("13.0", 3, "sm", cudart).build())
        guest.run(command, "calls")  # from now on the host knows the image, which costs nothing in any mode
        for mode in MODES:
            outcome = guest.run(command, mode)
            assert (outcome.status, outcome.stdout, outcome.stderr) == (0, ENTRIES[name].expected, ""), (cudart, mode)
            trips[cudart, mode] = outcome.report.round_trips
    assert {mode: trips["static", mode] for mode in MODES} == {mode: trips["shared", mode] for mode in MODES}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("program", ["static", "shared"])
@pytest.mark.parametrize("streams", ["legacy", "per-thread"])
def test_runtimes_of_one_process_are_one(
    program: str, streams: str, toolchain: Callable[[str], Toolchain], guest: Guest, tmp_path: Path
) -> None:
    """A program and opened libraries with runtimes of each kind, two of them linked in."""
    installed = toolchain("13.0")
    flags = (f"-default-stream={streams}",)
    shared = ("-shared", "-Xcompiler", "-fPIC", *flags)
    opener = built(installed, tmp_path, "opener", OPENER, "-cudart", program, *flags)
    libraries = [
        built(installed, tmp_path, "libstatic.so", LIBRARY, "-cudart", "static", *shared),
        built(installed, tmp_path, "libother.so", LIBRARY, "-cudart", "static", *shared),
        built(installed, tmp_path, "libshared.so", LIBRARY, "-cudart", "shared", *shared),
    ]
    outcome = guest.run([opener, *libraries], "loops")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "16 cudaSuccess\n", "")


def test_preloading_alone_suffices_for_what_is_there_at_the_start(
    toolchain: Callable[[str], Toolchain], guest: Guest, tmp_path: Path
) -> None:
    """Without the launcher: the program, and a library that it needs, whose constructors run before the preloaded library's."""
    installed = toolchain("13.0")
    library = built(installed, tmp_path, "libstatic.so", LIBRARY, "-shared", "-Xcompiler", "-fPIC")
    program = built(installed, tmp_path, "program", USER, library, "-Xlinker", f"-rpath={tmp_path}")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    environment |= {"FARLANE_HOST": guest.url, "LD_PRELOAD": str(shim_library.runtime_library("13"))}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")


@pytest.mark.parametrize("way", ["launcher", "preload"])
def test_a_program_that_the_loader_runs(way: str, toolchain: Callable[[str], Toolchain], guest: Guest) -> None:
    """`ld.so ./program`: what the process executes is not the program."""
    program = ENTRIES["vecadd"].compiled(toolchain("13.0"), Row("13.0", 3, "sm", "static").build())[0]
    environment = guest.environment(program, "loops")
    if way == "preload":
        del environment["LD_AUDIT"]
    command = ["/lib64/ld-linux-x86-64.so.2", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, ENTRIES["vecadd"].expected, "")


def test_a_stripped_library_runs_with_the_users_word(
    toolchain: Callable[[str], Toolchain], guest: Guest, tmp_path: Path
) -> None:
    """Its runtime cannot be redirected: it runs on libcuda.so.1 (docs/explanation/interoperability.md)."""
    installed = toolchain("13.0")
    opener = built(installed, tmp_path, "opener", OPENER)
    library = built(installed, tmp_path, "libstatic.so", LIBRARY, "-shared", "-Xcompiler", "-fPIC", "-Xlinker", "-s")
    refused = guest.run([opener, library], "calls")
    assert refused.stdout.startswith("-1 ")
    assert "farlane setup --interop" in refused.stderr
    allowed = guest.run([opener, library], "calls", extra={"FARLANE_INTEROP": "1"})
    assert (allowed.status, allowed.stdout, allowed.stderr) == (0, "4 cudaSuccess\n", "")


@pytest.mark.parametrize("name", ["vecadd", "stencil2d", "threads"])
def test_the_analyzer_sees_what_it_sees_of_a_shared_build(name: str, toolchain: Callable[[str], Toolchain]) -> None:
    """The program's own functions and imports; the runtime's code is not there."""
    seen = []
    for cudart in ("shared", "static"):
        path = Path(ENTRIES[name].compiled(toolchain("13.0"), Row("13.0", 3, "sm", cudart).build())[0])
        image = elf.load(path)
        own = sorted(function.name for function in image.functions if not function.name.startswith("sub_"))
        cuda = sorted({each for each in image.stubs.values() if each.startswith(("cuda", "__cuda"))})
        seen.append((own, cuda))
    assert seen[0][1] == seen[1][1]
    assert [each for each in seen[1][0] if each not in seen[0][0]] in ([], ["atexit"])
