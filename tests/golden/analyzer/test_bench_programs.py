"""Programs in the style of public benchmark suites: error macros, wrappers, clocks, repeat loops, convergence loops."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import LoopReport, ProgramReport
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

PROGRAMS = Path(__file__).parent / "programs"
EXPECTED: dict[str, dict[str, list[list[Any]]]] = tomllib.loads((PROGRAMS / "bench.toml").read_text())


LEVELS = (0, 2, 3)


@pytest.fixture(scope="module", params=LEVELS, ids=lambda level: f"O{level}")
def level(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def report(level: int, toolchain: Callable[[str], Toolchain]) -> ProgramReport:
    """All programs, in one translation unit with a namespace for each."""
    return analyze(compile_program(toolchain("13.0"), [PROGRAMS / "bench.cu"], "bench", Build(level, "compute_75")))


def loops_of(report: ProgramReport, name: str) -> list[LoopReport]:
    """The loops in functions of a program's namespace, and in copies of templates with its types."""
    return [loop for loop in report.loops if f"N{len(name)}{name}" in loop.function]


def test_nothing_is_missed_or_skipped(report: ProgramReport) -> None:
    assert report.skipped == ()
    assert sum(len(loops_of(report, name)) for name in EXPECTED) == len(report.loops)


@pytest.mark.parametrize("name", EXPECTED)
def test_program(name: str, level: int, report: ProgramReport) -> None:
    rows = {
        function: EXPECTED[name].get(f"{function}@O{level}", EXPECTED[name][function]) for function in EXPECTED[name]
    }
    rows = {function: expected for function, expected in rows.items() if "@" not in function}
    found: dict[str, list[list[Any]]] = {function: [] for function in rows}
    for loop in loops_of(report, name):
        function = next(each for each in found if f"{len(each)}{each}" in loop.function)
        found[function].append([str(loop.class_), loop.trip_count is not None])
        counted = [each for each in loop.continuations if each.complete]
        # What is counted at the entry is also told at the calls, where the test is one of integers.
        if loop.trip_count is not None and not loop.trip_count.text.startswith("while"):
            assert counted or not loop.continuations, loop.function
    for function, expected in rows.items():
        rest = sorted(found[function])
        for row in expected:
            assert row in rest, (function, row)
            rest.remove(row)
        # Only -O3 puts copies of other functions' loops into a function.
        assert level == 3 or not rest, function
