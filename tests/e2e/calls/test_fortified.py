"""System calls on managed memory from a program whose compiler fortifies it, as Ubuntu's and Fedora's do: their headers call other functions."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

REGISTRY = Path(__file__).parents[2] / "native" / "registry.toml"
FORTIFIED = Build(3, "sm_75", nvcc_flags=("-Xcompiler", "-U_FORTIFY_SOURCE,-D_FORTIFY_SOURCE=2"))


def test_a_fortified_program_reads_into_managed_memory(toolchain: Callable[[str], Toolchain], guest: Guest) -> None:
    (managed,) = [entry for entry in registry.load(REGISTRY) if entry.name == "managed"]
    command = managed.compiled(toolchain("13.0"), FORTIFIED)
    symbols = subprocess.run(["nm", "-D", command[0]], capture_output=True, text=True, check=True).stdout
    assert {"__read_chk", "__fread_chk"} <= {word.partition("@")[0] for word in symbols.split()}
    outcome = guest.run(command)
    assert (outcome.status, outcome.stdout) == (0, managed.expected), outcome.stderr
