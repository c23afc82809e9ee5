"""Manifests against what programs really do: the corpus and tests/native under the shim's trace. Zero wrong claims.

Every argument, sequence and count that a manifest predicts, and every condition that permissions hang on, is compared with each
call that the program makes (corpus_tools/trace.py). The device is the simulated one, so that device data steers the programs as
it would.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import native_builds
import pytest
from corpus_tools import trace
from corpus_tools.cases import FOLDER, NVCC, Case, bare, cases, driver_cases
from corpus_tools.compare import analyzed, manifest_of
from farlane.analyzer.loader import elf
from farlane.analyzer.manifest import writer
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

# Predictions hold as long as no CUDA call fails; in these calls fail on purpose.
FAILING = {"errors", "out_of_memory"}
# What is wrong today, by the case's id; strict.
KNOWN: dict[str, str] = {}


def traced(guest: Guest, command: list[str], folder: Path) -> list[dict[str, object]]:
    """Runs a program; the lines of its trace, those of child processes left out."""
    path = folder / "trace.json"
    outcome = guest.run(command, "calls", extra={"FARLANE_TRACE": str(path)})
    assert outcome.status == 0, outcome.stderr
    return trace.read(path)


def run_once(unit: str) -> set[str]:
    """The unit's programs that main calls once."""
    text = (FOLDER / f"{unit}.cu").read_text()
    main = text[text.index("int main(") :]
    programs = re.findall(r"^PROGRAM (\w+)\(", text, re.MULTILINE)
    return {name for name in programs if len(re.findall(rf"\b{name}\(", main)) == 1}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "native_case" in metafunc.fixturenames:
        metafunc.parametrize("native_case", native_cases(metafunc.config.getoption("--full-matrix")))
    if "case" in metafunc.fixturenames:
        full = metafunc.config.getoption("--full-matrix")
        # clang registers no managed variables: its kernels would be given the host's addresses.
        runnable = [
            case for case in cases(full) if case.unit != "managed" or not case.row.toolchain.startswith("clang")
        ]
        runnable += driver_cases(full)
        marks = [pytest.param(case, id=case.id, marks=pytest.mark.xdist_group(case.id)) for case in runnable]
        metafunc.parametrize("case", marks)


def test_corpus(case: Case, toolchain: Callable[..., Toolchain], guest: Guest, tmp_path: Path) -> None:
    program = case.compiled(toolchain)
    manifest, once = manifest_of(program), run_once(case.unit)
    lines = traced(guest, [str(program), "9"], tmp_path)
    findings = trace.compare(lines, manifest, elf.load(program), once)
    reached = trace.counts(lines, manifest)
    for loop in analyzed(program).loops:
        constant = loop.trip_count.constant if loop.trip_count else None
        if constant is None or loop.parent is not None or bare(loop.function) not in once:
            continue
        for site in manifest.sites:
            place = manifest.loops[site.loop]
            if (
                (place.function, place.header) == (loop.entry, loop.header)
                and not site.conditional
                and not site.in_callee
            ):
                number = reached[site.return_address]
                text = f"{loop.function}: {site.name} is reached {number} times, not {constant}"
                findings.claim("trips", number == constant, text)
    assert findings.fatal == []
    known = {function for function in case.expected() if case.gap(function, "predictions")}
    assert {name: texts for name, texts in findings.wrong.items() if name not in known} == {}
    assert known <= set(findings.wrong), "a gap has closed: take it out of gaps.toml"
    for kind in ("name", "constant", "more"):
        assert findings.checked[kind] > 0, f"no claim of this kind was checked: {kind}"


def test_the_corpus_exercises_every_kind_of_claim(
    toolchain: Callable[..., Toolchain], guest: Guest, tmp_path: Path
) -> None:
    """So that a trace or a manifest without content cannot pass for one without mistakes."""
    case = next(case for case in cases(full=False) if case.unit == "induction" and case.row in NVCC)
    program = case.compiled(toolchain)
    lines = traced(guest, [str(program), "9"], tmp_path)
    checked = trace.compare(lines, manifest_of(program), elf.load(program), run_once("induction")).checked
    assert {kind for kind, count in checked.items() if count > 10} >= {
        *("name", "constant", "invariant", "affine", "more", "remaining"),
    }
    assert checked["sequence"] > 0


def test_the_corpus_exercises_what_is_told_at_the_first_call(
    toolchain: Callable[..., Toolchain], guest: Guest, tmp_path: Path
) -> None:
    for case in (case for case in cases(full=False) if case.unit == "iterations" and case.row in NVCC):
        program = case.compiled(toolchain)
        lines = traced(guest, [str(program), "9"], tmp_path)
        checked = trace.compare(lines, manifest_of(program), elf.load(program), run_once("iterations")).checked
        assert checked["first"] > 300
        assert checked["first, constant"] > 300


def native_cases(full: bool) -> list[object]:
    """Builds that tests/e2e makes as well: one of each program, in turn nvcc's and clang's; the full matrix is all."""
    by_name: dict[str, list[native_builds.Case]] = defaultdict(list)
    for case in native_builds.cases(full):
        if not case.entry.variant and case.entry.name not in FAILING:
            by_name[case.entry.name].append(case)
    found = []
    for turn, of_program in enumerate(by_name.values()):
        for case in of_program if full else [of_program[-(turn % 2)]]:  # the first, or the last
            why = KNOWN.get(case.id)
            marks = [pytest.mark.xfail(reason=why, strict=True, raises=AssertionError)] if why else []
            found.append(pytest.param(case, id=case.id, marks=marks))
    return found


def test_native(
    native_case: native_builds.Case, toolchain: Callable[..., Toolchain], guest: Guest, tmp_path: Path
) -> None:
    """Programs that were not written for this."""
    command = native_case.entry.compiled(toolchain(native_case.row.toolchain), native_case.row.build())
    program = Path(command[0])
    lines = traced(guest, command, tmp_path)
    findings = trace.compare(lines, manifest_of(program), elf.load(program), set())
    assert findings.wrong == {}


@pytest.mark.parametrize("unit", ["reads", "iterations"])
def test_either_api_makes_the_same_round_trips(
    unit: str, toolchain: Callable[..., Toolchain], guest: Guest, tmp_path: Path
) -> None:
    """The same loops by the runtime and by the driver, with their manifests, in all modes: what more iterations cost."""
    costs: list[dict[str, tuple[str, int]]] = []
    for driver in (False, True):
        program = Case(unit, NVCC[1], driver).compiled(toolchain)
        manifest = manifest_of(program)
        (tmp_path / f"{manifest.identity.hex()}.manifest").write_bytes(writer.write(manifest))
        # Launches by a handle have no slices: what is compared is what both APIs have.
        extra = {"FARLANE_MANIFESTS": str(tmp_path), "FARLANE_LOOPS": "off"}
        assert guest.run([str(program), "9"], "none").status == 0  # the host keeps the images from here on
        cost = {}
        for mode in ("none", "calls", "loops"):
            few, many = (guest.run([str(program), rounds], mode, extra=extra) for rounds in ("9", "19"))
            assert (few.status, many.status) == (0, 0), many.stderr
            cost[mode] = many.stdout, many.report.round_trips - few.report.round_trips
        costs.append(cost)
    assert costs[0] == costs[1]
    assert costs[0]["loops"][1] < costs[0]["calls"][1] < costs[0]["none"][1]
