"""Loops that are nodes of graphs: the host decides whether they go on, so what travels does not depend on how often they do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs/graph_loop.cu"


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [SOURCE], "graph_loop", Build()))


@pytest.mark.parametrize("mode", ["calls", "loops"])
def test_iterations_are_no_round_trips(mode: str, program: str, guest: Guest) -> None:
    guest.run([program, "1"], mode)  # the host has the module from here on
    once, often = (guest.run([program, str(count)], mode) for count in (1, 5000))
    for outcome in (once, often):
        assert (outcome.status, outcome.stdout) == (0, "left 0\n"), outcome.stdout + outcome.stderr
    assert (once.report.round_trips, often.report.round_trips) == (2, 2)  # the handshake, and the copy to the host
    # A group more or less, as time has it.
    assert abs(once.report.bytes_up - often.report.bytes_up) < 100
