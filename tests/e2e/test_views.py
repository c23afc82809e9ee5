"""Resource views, and what kernels ask about textures, on the simulated device. Not among tests/native: hosts with a GPU take neither."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs" / "views.cu"


@pytest.mark.parametrize("mode", ["none", "loops"])
def test_program(toolchain: Callable[[str], Toolchain], guest: Guest, mode: str) -> None:
    program = compile_program(toolchain("13.0"), [SOURCE], "views", Build(architecture="sm_75"))
    outcome = guest.run([str(program)], mode)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "PASS\n", "")
