"""Loops that a manifest describes at entry: the host has the template before the first iteration is over, and a wrong description changes nothing.

The manifests are the analyzer's, of programs/loop_prediction.cu, and for wrong descriptions changed by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.model import ProgramReport
from farlane.analyzer.manifest.build import build
from farlane.analyzer.manifest.model import Argument, ArgumentKind, Manifest, Site
from farlane.analyzer.manifest.writer import write
from farlane.analyzer.postfix import CONSTANT, END, instruction
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs" / "loop_prediction.cu"
MANY = 3000
LAUNCHES = {"one": 1, "two": 2, "three": 3, "checked": 2}


class Case:
    """The program, built with one optimization level, and its manifest."""

    def __init__(self, program: str, manifest: Manifest, guest: Guest, folder: Path) -> None:
        self.program, self.manifest, self.guest, self.folder = program, manifest, guest, folder

    def run(self, scenario: str, count: int, manifest: Manifest | None) -> Outcome:
        """In mode loops; `None`: without a manifest."""
        extra = {"FARLANE_MANIFESTS": "off"}
        if manifest is not None:
            (self.folder / f"{manifest.identity.hex()}.manifest").write_bytes(write(manifest))
            extra["FARLANE_MANIFESTS"] = str(self.folder)
        outcome = self.guest.run([self.program, scenario, str(count)], "loops", extra=extra)
        plain = self.guest.run([self.program, scenario, str(count)], "calls")
        assert (outcome.status, outcome.stdout) == (plain.status, plain.stdout), outcome.stderr
        return outcome

    def with_launches(self, change: Callable[[Site], Site]) -> Manifest:
        return replace(
            self.manifest, sites=tuple(change(site) if site.launch else site for site in self.manifest.sites)
        )


@pytest.fixture(scope="module", params=["0", "2", "3"])
def program(request: pytest.FixtureRequest, toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [SOURCE], "loop_prediction", Build(optimization=request.param)))


@pytest.fixture(scope="module")
def manifest(program: str, analyzed: Callable[[Path], ProgramReport]) -> Manifest:
    report = analyzed(Path(program))
    return build(elf.load(Path(program)), report, report.permissions)


@pytest.fixture
def case(program: str, manifest: Manifest, guest: Guest, tmp_path: Path) -> Case:
    return Case(program, manifest, guest, tmp_path)


def loops(outcome: Outcome) -> dict[str, int]:
    return outcome.report.sections["loops"]


@pytest.mark.parametrize("scenario", LAUNCHES)
def test_a_described_loop_is_told_at_its_first_call(case: Case, scenario: str) -> None:
    outcome = case.run(scenario, MANY, case.manifest)
    counted = loops(outcome)
    assert (counted["predicted"], counted["templates"]) == (1, 1)
    # All calls are held from the first one on, also of the second execution, which has the template of the first; but a group that is sent for its age may
    # cut an iteration in two.
    assert counted["iterations"] >= 2 * MANY - outcome.report.groups
    assert loops(case.run(scenario, MANY, None))["predicted"] == 0


def test_a_short_loop_is_not_told(case: Case) -> None:
    assert loops(case.run("one", 200, case.manifest))["predicted"] == 0


def altered(arguments: tuple[Argument, ...], index: int, **change: object) -> tuple[Argument, ...]:
    return tuple(replace(each, **change) if each.index == index else each for each in arguments)  # type: ignore[arg-type]


NUMBER = instruction(CONSTANT, 77) + instruction(END)

WRONG: dict[str, Callable[[Site], Site]] = {
    "a step": lambda site: replace(
        site, arguments=altered(site.arguments, 9, kind=ArgumentKind.AFFINE, value=5, first=None)
    ),
    "a constant grid": lambda site: replace(
        site, arguments=altered(site.arguments, 0, kind=ArgumentKind.CONSTANT, value=9)
    ),
    "a first value": lambda site: replace(
        site,
        arguments=tuple(replace(each, first=NUMBER if each.first else None) for each in site.arguments),
    ),
    "an argument that does not exist": lambda site: replace(
        site, arguments=(*site.arguments, Argument(60, ArgumentKind.CONSTANT, 8, 1))
    ),
    "the kernel": lambda site: replace(site, name="_ZL6gatherPfPKfil" if "add" in site.name else "_Z3addPfif"),
    "a kernel that does not exist": lambda site: replace(site, name="_Z7nothingv"),
    "the trip count": lambda site: replace(site, remaining=instruction(CONSTANT, 1 << 50) + instruction(END)),
    "the trip count's sign": lambda site: replace(site, remaining=instruction(CONSTANT, -1) + instruction(END)),
    "the order": lambda site: replace(site, position={1: 2, 2: 1}.get(site.position, site.position)),
    "what runs": lambda site: replace(site, conditional=False, position=min(site.position, 1)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_description_loses_nothing(case: Case, wrong: str) -> None:
    manifest = case.with_launches(WRONG[wrong])
    for scenario in LAUNCHES:
        for count in (1, 700):
            outcome = case.run(scenario, count, manifest)
            made = loops(outcome)
            # Whatever is guessed, the recorder finds the loop.
            assert count == 1 or made["calls_in_loops"] > 2 * 700 * LAUNCHES[scenario] * 0.5, (scenario, made)
