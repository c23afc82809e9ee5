"""The same loops, however the program is built: options of the linker and the host compiler, shared objects, clang."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import LoopReport
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

PROGRAMS = Path(__file__).parent / "programs"
EXPECTED: dict[str, list[dict[str, Any]]] = tomllib.loads((PROGRAMS / "loops.toml").read_text())
# A shared object calls its exported functions through the PLT, where another may be put in their place.
THROUGH_PLT = {"in_callee_sometimes"}
PLAIN = Build(2, "compute_75")
# Options of which none changes what another does; the full matrix has each by itself.
TOGETHER = {
    "control-flow protection": ("-Xcompiler", "-fcf-protection=full"),
    "no plt": ("-Xcompiler", "-fno-plt"),
    "bound at start, stack protector": ("-Xlinker", "-z,now", "-Xcompiler", "-fstack-protector-all"),
}
BUILDS = {
    ", ".join(TOGETHER): ("13.0", replace(PLAIN, nvcc_flags=tuple(itertools.chain(*TOGETHER.values())))),
    "fixed address": ("13.0", replace(PLAIN, nvcc_flags=("-Xcompiler", "-fno-pie,-no-pie"))),
    "shared object": ("13.0", replace(PLAIN, shared_object=True)),
    "clang": ("clang-12.9", Build(2, "sm_75")),
    "clang unoptimized": ("clang-12.9", Build(0, "sm_75")),
}
SINGLY = {name: ("13.0", replace(PLAIN, nvcc_flags=flags)) for name, flags in TOGETHER.items()}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    full = metafunc.config.getoption("--full-matrix")
    metafunc.parametrize("build", [*BUILDS, *SINGLY] if full else BUILDS)


def described(loop: LoopReport) -> dict[str, Any]:
    trips: object = "unknown"
    if loop.trip_count is not None:
        trips = "counted" if loop.trip_count.constant is None else loop.trip_count.constant
    return {"class": str(loop.class_), "trips": trips, "reasons": [str(reason) for reason in loop.reasons]}


def test_the_same_loops(build: str, toolchain: Callable[[str], Toolchain]) -> None:
    name, options = (BUILDS | SINGLY)[build]
    report = analyze(compile_program(toolchain(name), [PROGRAMS / "loops.cu"], "loops", options))
    assert report.skipped == ()
    for function, rows in EXPECTED.items():
        if options.shared_object and function in THROUGH_PLT:
            continue
        expected = []
        for row in rows:
            merged = {"reasons": [], **row, **row.get(f"O{options.optimization}", {})}
            expected.append({key: merged[key] for key in ("class", "trips", "reasons")})
        loops = sorted((loop for loop in report.loops if loop.function == function), key=lambda loop: loop.depth)
        assert [described(loop) for loop in loops] == expected, function
