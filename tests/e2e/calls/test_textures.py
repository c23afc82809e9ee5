"""What textures can do on the simulated device alone, so not among tests/native: hosts with a GPU take none of it.

`mipmaps`: mipmapped arrays, sRGB and borders of integers. `views`: resource views, and what kernels ask about textures.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize("name", ["mipmaps", "views"])
@pytest.mark.parametrize("mode", ["none", "loops"])
def test_program(toolchain: Callable[[str], Toolchain], guest: Guest, mode: str, name: str) -> None:
    program = compile_program(toolchain("13.0"), [PROGRAMS / f"{name}.cu"], name, Build(architecture="sm_75"))
    outcome = guest.run([str(program)], mode)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "PASS\n", "")
