"""Loops that read a value in each iteration and decide by it.

The output is the same in all modes. Each read costs a round trip; the counts below are goals, which a host meets that decides such loops by itself.
"""

from __future__ import annotations

import pytest
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.roundtrips.programs import PROGRAMS, command

pytestmark = pytest.mark.native

# The most round trips in mode loops, the handshake included.
GOALS = {"converging": 8, "cg-host": 9, "cg-device": 8, "cg": 9, "bfs": 6}
REASON = "reads in each iteration cost a round trip until loops are decided on the host"


class ProgramFailed(Exception):
    """Not an AssertionError: no expected failure hides it."""


def run(guest: Guest, name: str, mode: str) -> Outcome:
    words = command(next(program for program in PROGRAMS if program.name == name))
    if words is None:
        raise ProgramFailed(f"{name} is not in this tree")
    outcome = guest.run(words, mode)
    if (outcome.status, outcome.stderr) != (0, ""):
        raise ProgramFailed(f"{name}, mode {mode}: status {outcome.status}\n{outcome.stdout}{outcome.stderr}")
    return outcome


@pytest.mark.parametrize("name", GOALS)
def test_the_output_is_the_same_in_all_modes(name: str, guest: Guest) -> None:
    none, calls, loops = (run(guest, name, mode) for mode in ("none", "calls", "loops"))
    assert none.stdout == calls.stdout == loops.stdout
    assert none.stdout
    assert loops.report.round_trips <= calls.report.round_trips < none.report.round_trips


@pytest.mark.xfail(strict=True, raises=AssertionError, reason=REASON)
@pytest.mark.parametrize("name", GOALS)
def test_reads_do_not_wait_one_by_one(name: str, guest: Guest) -> None:
    assert run(guest, name, "loops").report.round_trips <= GOALS[name]
