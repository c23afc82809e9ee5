"""Programs of the usual shapes whose loops read results (benchmarks/analyzer/coverage): which loops the host decides, and that the
output is the same.

`python benchmarks/analyzer/coverage.py` prints the same with the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.loops.model import ProgramReport
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "analyzer" / "coverage"
SOURCES = {source.stem: source for source in FOLDER.rglob("*.cu")}
PROGRAMS = sorted(SOURCES)
# With the reason; all others are decided.
REFUSED = {
    "flag_by_pointer": "memory-changed",  # the flag is the caller's
    "heat_timed": "memory-changed",  # an element at a computed place may be where the copy's destination is kept
    "key_search": "memory-changed",  # a copy whose size was read
    "kmeans": "too-long",  # all points are looked at, more than is taken along
    "life": "instruction",  # sums of bytes, eight at a time
    "radix_passes": "memory-changed",  # a size that is what a loop's counter ended with
    "swarm": "nested",  # a loop inside that copies within the device, or not
    "training": "host-call",  # allocates in the loop
    "trim_components": "memory-changed",  # the flag is behind a member
}
# Decided, and the host does not lead them: the shim's reason.
NOT_LED = {
    "srad_region": "size",  # the image that goes back is 1 KiB
}
BRIEF = {"streamcluster"}  # ends in its first iteration


@pytest.fixture(scope="module")
def compiled(toolchain: Callable[..., Toolchain]) -> Callable[[str], Path]:
    build = Build(2, "compute_75", flags=(f"-I{FOLDER}",))
    return lambda name: compile_program(toolchain("13.0"), [SOURCES[name]], name, build)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_which_loops_are_decided(
    name: str, compiled: Callable[[str], Path], analyzed: Callable[[Path], ProgramReport]
) -> None:
    found = analyzed(compiled(name)).slices
    assert found
    assert {each.reason if each.slice is None else "" for each in found} == {REFUSED.get(name, "")}


@pytest.mark.sampled(3)
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
