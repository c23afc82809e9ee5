"""Programs in the style of public benchmark suites: error macros, wrappers, clocks, repeat loops, convergence loops."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from farlane.analyzer.loops.analysis import analyze
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

PROGRAMS = Path(__file__).parent / "programs"
EXPECTED: dict[str, dict[str, list[list[Any]]]] = tomllib.loads((PROGRAMS / "bench.toml").read_text())


@pytest.mark.parametrize("level", [0, 2, 3])
@pytest.mark.parametrize("name", EXPECTED)
def test_program(name: str, level: int, toolchain: Callable[[str], Toolchain]) -> None:
    program = compile_program(toolchain("13.0"), [PROGRAMS / f"bench_{name}.cu"], name, Build(level, "compute_75"))
    report = analyze(program)
    assert report.skipped == ()
    found: dict[str, list[list[Any]]] = {function: [] for function in EXPECTED[name]}
    for loop in report.loops:
        function = next(each for each in found if each in loop.function)
        found[function].append([str(loop.class_), loop.trip_count is not None])
        counted = [each for each in loop.continuations if each.complete]
        # What is counted at the entry is also told at the calls, where the test is one of integers.
        if loop.trip_count is not None and not loop.trip_count.text.startswith("while"):
            assert counted or not loop.continuations, loop.function
    for function, expected in EXPECTED[name].items():
        rest = sorted(found[function])
        for row in expected:
            assert row in rest, (function, row)
            rest.remove(row)
        # Only -O3 puts copies of other functions' loops into a function.
        assert level == 3 or not rest, function
