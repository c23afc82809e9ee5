"""Loops that read a value in each iteration and decide by it.

The output is the same in all modes. Where the loop has a slice, the host leads it, and the whole costs a few round trips.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.roundtrips.programs import PROGRAMS, command

pytestmark = pytest.mark.native

# Round trips in mode loops: the handshake, what the program reads before and behind its loop, one for the loop itself.
ROUND_TRIPS = {"deciding": 3, "converging": 3, "cg-host": 4, "cg-device": 4, "cg-tenth": 4, "cg": 4, "bfs": 3}


class ProgramFailed(Exception):
    """Not an AssertionError: no expected failure hides it."""


def run(guest: Guest, name: str, mode: str, mark: Callable[[str], str] = str) -> Outcome:
    words = command(next(program for program in PROGRAMS if program.name == name))
    if words is None:
        raise ProgramFailed(f"{name} is not in this tree")
    outcome = guest.run([mark(words[0]), *words[1:]], mode, extra={"FARLANE_LEAD_MS": "0"})
    if (outcome.status, outcome.stderr) != (0, ""):
        raise ProgramFailed(f"{name}, mode {mode}: status {outcome.status}\n{outcome.stdout}{outcome.stderr}")
    return outcome


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_the_output_is_the_same_in_all_modes(name: str, guest: Guest) -> None:
    none, calls, loops = (run(guest, name, mode) for mode in ("none", "calls", "loops"))
    assert none.stdout == calls.stdout == loops.stdout
    assert none.stdout
    assert loops.report.round_trips <= calls.report.round_trips < none.report.round_trips


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_reads_do_not_wait_one_by_one(name: str, guest: Guest, marked: Callable[[str], str]) -> None:
    assert run(guest, name, "loops", marked).report.round_trips == ROUND_TRIPS[name]
