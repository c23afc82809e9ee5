"""Every shape of copy and set, in random order and in several streams, against a model: the same bytes in every mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs/copies_model.cu"
STEPS = 300


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [SOURCE], "copies_model", Build()))


@pytest.mark.parametrize("mode", ["none", "calls", "loops"])
@pytest.mark.parametrize("seed", range(1, 6))
def test_random_copies(seed: int, mode: str, program: str, guest: Guest) -> None:
    outcome = guest.run([program, str(seed), str(STEPS)], mode)
    assert (outcome.status, outcome.stdout) == (0, "PASS\n"), outcome.stdout + outcome.stderr
