"""Copies to the host in a row, none looked at before the last: one round trip, and the program cannot tell.

Each scenario of programs/copies_in_a_row.cu runs with its manifest and without; the output is the same, and the number of round
trips is exact. Among the scenarios are the traps: what may not wait, and what only shows when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from compiler_builds import BUILDS, compiled, level_of
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs" / "copies_in_a_row.cu"
START = 2  # the handshake, and the synchronization before the scenario


class Case(NamedTuple):
    """A scenario, the round trips of its calls, and those with the manifest; `plain`: at -O0."""

    name: str
    calls: int
    joined: int
    plain: int | None = None


CASES = [
    Case("two_blocks", 2, 1),
    Case("three_kinds", 3, 1),
    Case("five_values", 5, 1),
    Case("globals", 2, 1),
    Case("parameters", 3, 1),
    Case("same_destination", 3, 1),
    Case("asynchronous", 2, 1),
    Case("other_stream", 2, 1),
    Case("from_symbols", 2, 1, 2),
    Case("planes", 2, 1, 2),
    Case("written_between", 3, 1),
    Case("back_again", 2, 2),
    Case("in_a_loop", 20, 10),
    Case("looks_between", 2, 2),
    Case("the_next_size", 2, 2),
    Case("another_size", 2, 1),
    Case("through_a_pointer", 2, 2),
    Case("frees_between", 2, 2),
    Case("early_return", 1, 1),
    Case("code_counted", 2, 2),
    Case("some_ways", 2, 2),
    Case("written_by_the_host", 2, 2),
    Case("flag_for_others", 2, 2),
    Case("in_pinned_memory", 1, 1),
]


def check(guest: Guest, mark: Callable[[str], str], program: Path, case: Case, level: int) -> None:
    none = guest.run([str(program), case.name], "none")
    calls = guest.run([str(program), case.name], "calls")
    loops = guest.run([mark(str(program)), case.name], "loops")
    assert (none.status, none.stderr) == (0, "")
    assert none.stdout
    for outcome in (calls, loops):
        assert (outcome.status, outcome.stdout, outcome.stderr) == (0, none.stdout, "")
    wanted = case.joined if level or case.plain is None else case.plain
    assert (calls.report.round_trips - START, loops.report.round_trips - START) == (case.calls, wanted)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_round_trips(
    case: Case,
    build: str,
    guest: Guest,
    toolchain: Callable[..., Toolchain],
    marked: Callable[[str], str],
) -> None:
    check(guest, marked, compiled(SOURCE, build, toolchain), case, level_of(build))


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize(
    ("flag", "case"),
    [
        ("EXCEPTIONS", Case("thrown_between", 1, 1)),
        ("HANDLER", Case("handled", 2, 2)),
        ("HANDLER", Case("globals", 2, 2)),
        ("THREADS", Case("beside_a_thread", 2, 2)),
        ("THREADS", Case("globals", 2, 1)),
    ],
)
def test_what_else_is_in_the_program(
    flag: str,
    case: Case,
    level: int,
    guest: Guest,
    toolchain: Callable[..., Toolchain],
    marked: Callable[[str], str],
) -> None:
    build = Build(level, "compute_75", flags=(f"-D{flag}",))
    check(guest, marked, compile_program(toolchain("13.0"), [SOURCE], "copies_in_a_row", build), case, level)
