"""Programs of the usual shapes whose loops read results (benchmarks/analyzer/coverage): which loops the host decides, and that the
output is the same.

`python benchmarks/analyzer/coverage.py` prints the same with the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "analyzer" / "coverage"
SOURCES = {source.stem: source for source in FOLDER.rglob("*.cu")}
PROGRAMS = sorted(SOURCES)
# With the reason; all others are decided.
REFUSED = {
    "heat_timed": "memory-changed",  # members of an object that others know
    "kmeans": "memory-changed",  # an array that no copy fills, beyond what is taken along
}
# Decided, and the host does not lead them: the shim's reason.
NOT_LED = {
    "sorted_flag": "call",  # the variable's address stands in a register
    "srad_region": "size",  # the image that goes back is 1 KiB
}
BRIEF = {"streamcluster"}  # ends in its first iteration


@pytest.fixture(scope="module")
def compiled(toolchain: Callable[..., Toolchain]) -> Callable[[str], Path]:
    build = Build(2, "compute_75", flags=(f"-I{FOLDER}",))
    return lambda name: compile_program(toolchain("13.0"), [SOURCES[name]], name, build)


@pytest.mark.parametrize("name", PROGRAMS)
def test_which_loops_are_decided(name: str, compiled: Callable[[str], Path]) -> None:
    found = analyze(compiled(name)).slices
    assert found
    assert {each.reason if each.slice is None else "" for each in found} == {REFUSED.get(name, "")}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_output_is_the_same(
    name: str, guest: Guest, compiled: Callable[[str], Path], marked: Callable[[str], str]
) -> None:
    program = str(compiled(name))
    calls = guest.run([program], "calls")
    assert calls.status == 0, calls.stderr
    assert calls.stdout
    for extra in ({"FARLANE_LEAD_MS": "0"}, {"FARLANE_LOOPS": "verify"}):
        loops = guest.run([marked(program)], "loops", extra=extra)
        assert (loops.status, loops.stdout) == (0, calls.stdout), loops.stderr
        if name in NOT_LED:
            assert loops.report.sections["undecided"][NOT_LED[name]] > 0
        elif name not in REFUSED and name not in BRIEF and "FARLANE_LEAD_MS" in extra:
            assert loops.report.round_trips < calls.report.round_trips
            assert loops.report.round_trips <= 8
