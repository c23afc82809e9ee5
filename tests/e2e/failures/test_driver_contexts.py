"""Faults in contexts of the driver API (among them those of bad tensor maps): each ruins its own context, in every mode. Each fault is reported on stderr once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

NATIVE = Path(__file__).parents[2] / "native"
ENTRIES = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}


@pytest.mark.parametrize("mode", ["none", "calls", "loops"])
@pytest.mark.parametrize(
    ("name", "faults"), [("driver_contexts_faults", 4), ("driver_contexts_threads", 2), ("driver_tensor_faults", 3)]
)
def test_a_fault_ruins_one_context(
    toolchain: Callable[[str], Toolchain], guest: Guest, name: str, faults: int, mode: str
) -> None:
    program = ENTRIES[name].compiled(toolchain("13.0"), Build(architecture="sm_75"))
    outcome = guest.run(program, mode)
    assert (outcome.status, outcome.stdout) == (0, "PASS\n"), outcome.stdout + outcome.stderr
    assert outcome.stderr.count("illegal ") == faults, outcome.stderr
