"""Copies to the host in a row, none looked at before the last: one round trip, and the program cannot tell.

Each scenario of programs/copies_in_a_row.cu runs with its manifest and without; the output is the same, and the number of round
trips is exact. Among the scenarios are the traps: what may not wait, and what only shows when the program runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from compiler_builds import BUILDS, compiled, level_of
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loader import elf
from farlane.analyzer.manifest import build as manifests
from farlane.analyzer.manifest import writer
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs" / "copies_in_a_row.cu"
ROWS = Path(__file__).parents[2] / "native" / "memory" / "rows_of_copies.cu"
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


@pytest.mark.parametrize("extra", [{}, {"FARLANE_LOOPS": "verify"}], ids=["joined", "verified"])
def test_a_whole_program(
    extra: dict[str, str], guest: Guest, toolchain: Callable[..., Toolchain], marked: Callable[[str], str]
) -> None:
    """Five copies in each of three rounds, two and a synchronization at the end: one round trip each time."""
    program = compiled(ROWS, "O2", toolchain)
    calls = guest.run([str(program)], "calls")
    loops = guest.run([marked(str(program))], "loops", extra=extra)
    assert (loops.status, loops.stdout, loops.stderr) == (0, calls.stdout, "")
    assert calls.stdout.endswith("PASS\n")
    assert calls.report.round_trips == 1 + 3 * 5 + 2
    assert loops.report.round_trips == (1 + 3 + 1 if not extra else calls.report.round_trips)


BY_THE_DRIVER = [case for case in CASES if case.plain is None and case.name not in ("from_symbols", "planes")]


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("case", BY_THE_DRIVER, ids=lambda case: case.name)
def test_copies_of_the_driver_api(
    case: Case, level: int, guest: Guest, toolchain: Callable[..., Toolchain], marked: Callable[[str], str]
) -> None:
    """cuMemcpyDtoH, cuMemcpyDtoHAsync, cuStreamSynchronize: the same counts."""
    build = Build(level, "compute_75", flags=("-DDRIVER",), driver=True)
    check(guest, marked, compile_program(toolchain("13.0"), [SOURCE], "copies_in_a_row", build), case, level)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lockstep(case: Case, guest: Guest, toolchain: Callable[..., Toolchain], marked: Callable[[str], str]) -> None:
    """Each copy waits, and the program is seen to leave its destination alone."""
    program = compiled(SOURCE, "O2", toolchain)
    plain = guest.run([str(program), case.name], "calls")
    verified = guest.run([marked(str(program)), case.name], "loops", extra={"FARLANE_LOOPS": "verify"})
    assert (verified.status, verified.stdout, verified.stderr) == (0, plain.stdout, "")
    waits = case.calls + (case.name == "in_pinned_memory")  # where an asynchronous copy would not wait by itself
    assert verified.report.round_trips - START == waits
    assert verified.report.sections["manifest"]["joined_copies"] >= case.calls - case.joined


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("looks_between", "reads"),
        ("through_a_pointer", "reads"),
        ("written_by_the_host", "writes to"),
        ("frees_between", "writes to"),  # its pages go
        ("some_ways", "reads"),
    ],
)
def test_a_broken_proof(
    name: str, does: str, guest: Guest, toolchain: Callable[..., Toolchain], tmp_path: Path
) -> None:
    """A manifest by which every copy joins: the session ends where the program touches what it must not."""
    program = compiled(SOURCE, "O2", toolchain)
    report = analyze(program)
    joined = tuple(dataclasses.replace(copy, proof="made up", shared=False) for copy in report.joined)
    manifest = manifests.build(elf.load(program), dataclasses.replace(report, joined=joined), report.permissions)
    (tmp_path / f"{manifest.identity.hex()}.manifest").write_bytes(writer.write(manifest))
    extra = {"FARLANE_MANIFESTS": str(tmp_path), "FARLANE_LOOPS": "verify"}
    outcome = guest.run([str(program), name], "loops", extra=extra)
    assert outcome.status == 1
    assert f" {does} memory at 0x" in outcome.stderr
    assert "to which a joined copy is under way: the analysis of this build is wrong" in outcome.stderr
