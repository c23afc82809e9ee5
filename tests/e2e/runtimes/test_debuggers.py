"""Programs with the CUDA runtime linked into them under gdb, valgrind and AddressSanitizer: these work as without Farlane, and report nothing of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain
from native_builds import REGISTRY

pytestmark = pytest.mark.native

ENTRIES = {entry.name: entry for entry in registry.load(REGISTRY)}
MODES = ("none", "calls", "loops")


def built(name: str, toolchain: Callable[[str], Toolchain], *flags: str) -> list[str]:
    return ENTRIES[name].compiled(toolchain("13.0"), Build(nvcc_flags=("-g", *flags), cudart="static"))


def require(tool: str) -> str:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    return found


def test_a_breakpoint_on_a_function_of_the_runtime(toolchain: Callable[[str], Toolchain], guest: Guest) -> None:
    """Set before the program starts, so before its runtime is redirected; hit, then taken away."""
    gdb, program = require("gdb"), built("vecadd", toolchain)
    ours = guest.environment(program[0], "loops")
    settings = [f"set environment {name} {value}" for name, value in ours.items() if os.environ.get(name) != value]
    script = ["set startup-with-shell off", *settings, "break cudaMalloc", "run", "backtrace", "delete", "continue"]
    words = [word for line in script for word in ("-ex", line)]
    done = subprocess.run([gdb, "-nx", "-batch", *words, *program], capture_output=True, text=True, timeout=120)
    assert "Breakpoint 1" in done.stdout
    assert " in main () at " in done.stdout, done.stdout  # the backtrace leads through the program's frames
    assert ENTRIES["vecadd"].expected in done.stdout
    assert "exited normally" in done.stdout


@pytest.mark.parametrize("mode", MODES)
def test_valgrind_finds_no_error(mode: str, toolchain: Callable[[str], Toolchain], guest: Guest) -> None:
    # With any auditor glibc's own cleaning-up for valgrind frees what the loader's first malloc has given.
    valgrind = [require("valgrind"), "--quiet", "--error-exitcode=9", "--run-libc-freeres=no"]
    program = built("vecadd", toolchain)
    done = subprocess.run(
        [*valgrind, *program], env=guest.environment(program[0], mode), capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, ENTRIES["vecadd"].expected, "")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["vecadd", "threads", "fork_child"])
def test_address_sanitizer_finds_no_error_and_no_leak(
    name: str, mode: str, toolchain: Callable[[str], Toolchain], guest: Guest
) -> None:
    """A child of a fork has no thread that would hold what the connection's thread held."""
    outcome = guest.run(built(name, toolchain, "-Xcompiler", "-fsanitize=address"), mode)
    assert (outcome.status, outcome.stdout) == (0, ENTRIES[name].expected), outcome.stderr
    said = [line for line in outcome.stderr.splitlines() if "was not suspended" not in line]
    assert said == []
