"""Loops of driver calls: output and round trips of the same loops of runtime calls, in all modes, with manifests.

One source, programs/twins.cu, is compiled for either API. What starting costs differs (a module is loaded, or
registered): round trips are those of a run with some iterations less those of a run with fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loader import elf
from farlane.analyzer.manifest.build import build
from farlane.analyzer.manifest.writer import write
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs" / "twins.cu"
FEW, MANY = 4, 24
# Round trips that an iteration costs, by mode; in mode none the two only have to be alike.
SCENARIOS = {
    "launches": {"calls": 0, "loops": 0},
    "predicted": {"calls": 0, "loops": 0},
    "reads": {"calls": 1, "loops": 0},
    "read_at_once": {"calls": 1, "loops": 1},
    "passed_on": {"calls": 1, "loops": 1},
    "checks": {"calls": 1, "loops": 0},
    "nested": {"calls": 8, "loops": 1},
    "in_a_helper": {"calls": 0, "loops": 0},
}


class Twin:
    """The program for one API, with its manifest."""

    def __init__(self, program: Path, guest: Guest, folder: Path) -> None:
        self.program, self.guest, self.folder = program, guest, folder
        report = analyze(program)
        manifest = build(elf.load(program), report, report.permissions)
        (folder / f"{manifest.identity.hex()}.manifest").write_bytes(write(manifest))
        self.run("launches", FEW, "none")  # the host keeps the image from here on

    def run(self, scenario: str, count: int, mode: str) -> Outcome:
        # Launches by a handle have no slices: what is compared is what both APIs have.
        extra = {"FARLANE_MANIFESTS": str(self.folder), "FARLANE_LOOPS": "off"}
        outcome = self.guest.run([str(self.program), scenario, str(count)], mode, extra=extra)
        assert (outcome.status, outcome.stderr) == (0, ""), outcome.stdout
        return outcome

    def cost(self, scenario: str, mode: str) -> tuple[str, float, dict[str, int]]:
        """Output, round trips of an iteration, and what the manifest did."""
        few, many = (self.run(scenario, count, mode) for count in (FEW, MANY))
        counts = many.report.sections.get("manifest", {})
        return many.stdout, (many.report.round_trips - few.report.round_trips) / (MANY - FEW), counts


@pytest.fixture(scope="module", params=[0, 3], ids="O{}".format)
def twins(
    request: pytest.FixtureRequest,
    toolchain: Callable[[str], Toolchain],
    guest: Guest,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Twin, Twin]:
    """By the runtime, by the driver."""
    made = []
    for api in (Build(request.param), Build(request.param, flags=("-DDRIVER",), driver=True)):
        program = compile_program(toolchain("13.0"), [SOURCE], "twins", api)
        made.append(Twin(program, guest, tmp_path_factory.mktemp("manifests")))
    return made[0], made[1]


@pytest.mark.parametrize("mode", ["none", "calls", "loops"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_same_output_and_round_trips(twins: tuple[Twin, Twin], scenario: str, mode: str) -> None:
    runtime, driver = (twin.cost(scenario, mode) for twin in twins)
    assert driver[0] == runtime[0]
    assert driver[1] == runtime[1] == SCENARIOS[scenario].get(mode, runtime[1])
    used = ("deferred_reads", "local_syncs", "mispredicted")
    assert [driver[2].get(name, 0) for name in used] == [runtime[2].get(name, 0) for name in used]


def test_the_host_is_told_a_loop_at_its_first_launch(twins: tuple[Twin, Twin]) -> None:
    """The later launch's kernel is known by its handle."""
    for twin in twins:
        loops = twin.run("predicted", 3000, "loops").report.sections["loops"]
        assert (loops["predicted"], loops["templates"]) == (1, 1)
