"""Slices of programs whose truth is known, and executions of these programs beside the evaluator. Zero wrong slices.

expected.toml says which loops have slices, and why others have none. Every slice there is, expected or not, is compared with what
the program does (corpus_tools/slices.py).
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from compiler_builds import BUILDS, compiled, level_of
from corpus_tools import slice_programs, slices
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loader import elf
from farlane.analyzer.manifest import reader, writer
from farlane.analyzer.manifest.build import build
from farlane.analyzer.slices import encode, reasons
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

FOLDER = Path(__file__).with_name("slices")
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "expected.toml").read_text())
SEEDS = 4
MAY_BE_STUCK = {
    "beyond_an_array",
    "divides_by_zero",
    "beyond_a_block",
    "moving_destination",
    "moving_source",
}  # by what is read
pytestmark = pytest.mark.native


def grouped(units: Iterable[str]) -> list[object]:
    """A unit's slices are looked for once, in one process."""
    return [pytest.param(unit, marks=pytest.mark.xdist_group(f"slices-{unit}")) for unit in units]


def expected(unit: str, level: int) -> dict[str, Any]:
    rows = EXPECTED[unit]
    found = {name: row for name, row in rows.items() if "@" not in name}
    return found | {name.partition("@")[0]: row for name, row in rows.items() if name.endswith(f"@{level}")}


@pytest.mark.parametrize("build", ["O0", "O2", "O3"])
@pytest.mark.parametrize("unit", grouped(EXPECTED))
def test_what_is_expected(unit: str, build: str, toolchain: Callable[..., Toolchain]) -> None:
    _, found = slices.sliced(compiled(FOLDER / f"{unit}.cu", build, toolchain))
    wanted = expected(unit, level_of(build))
    assert set(found) == set(wanted)
    wrong = {}
    for name, row in wanted.items():
        said = ["slice" if each.slice is not None else each.reason for each in found[name]]
        if not all(each == row or each in row for each in said):
            wrong[name] = (said, [each.detail for each in found[name]])
    assert wrong == {}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("unit", grouped(unit for unit, rows in EXPECTED.items() if "slice" in rows.values()))
def test_executions(unit: str, build: str, toolchain: Callable[..., Toolchain], tmp_path: Path) -> None:
    path = compiled(FOLDER / f"{unit}.cu", build, toolchain)
    program, found = slices.sliced(path)
    held = [(name, each.slice) for name, all_ in found.items() for each in all_ if each.slice is not None]
    assert held
    findings, within = slices.Findings(), slices.nested(program, found)
    for seed in range(SEEDS):
        records = slices.record(path, program, [slice_ for _, slice_ in held], seed, tmp_path)
        for name, slice_ in held:
            slices.compare(name, slice_, records, findings, within)
    assert findings.wrong == []
    assert {each.partition(":")[0] for each in findings.stuck} <= MAY_BE_STUCK
    assert set(findings.entered) == {name for name, _ in held}
    assert findings.counts["left"] >= SEEDS
    assert findings.counts["arguments"] > 2 * findings.counts["calls"] > 0


def test_a_wrong_slice_is_seen(toolchain: Callable[..., Toolchain], tmp_path: Path) -> None:
    """The comparison can fail: of a slice with one operation changed it says so."""
    path = compiled(FOLDER / "loops.cu", "O2", toolchain)
    program, found = slices.sliced(path)
    slice_ = found["counted_too"][0].slice
    assert slice_ is not None
    runs = [slices.record(path, program, [slice_], seed, tmp_path) for seed in range(SEEDS)]
    for old, new in ((slices.ADD, slices.SUBTRACT), (slices.LESS_OR_UNORDERED, slices.EQUAL)):
        findings = slices.Findings()
        for records in runs:
            slices.compare("changed", slices.changed(slice_, old, new), records, findings)
        assert findings.wrong, old


def test_every_reason_is_a_word_of_the_page(toolchain: Callable[..., Toolchain]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "reasons.md").read_text()
    for reason in reasons.ALL:
        assert reason in page, reason
    for unit in EXPECTED:
        for all_ in slices.sliced(compiled(FOLDER / f"{unit}.cu", "O2", toolchain))[1].values():
            for each in all_:
                assert (each.slice is None) == (each.reason in reasons.ALL)
                if each.slice is not None:
                    assert encode.read(encode.write(each.slice)) == each.slice


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed: int, toolchain: Callable[..., Toolchain], tmp_path: Path) -> None:
    """Thirty random loops each: what has a slice does what it says."""
    shutil.copy(FOLDER / "common.cuh", tmp_path)
    path = tmp_path / f"random_{seed}.cu"
    path.write_text(slice_programs.source(seed, 30))
    program_path = compile_program(toolchain("13.0"), [path], path.stem, Build((0, 2, 3)[seed % 3], "compute_75"))
    program, found = slices.sliced(program_path)
    held = [(name, each.slice) for name, all_ in found.items() for each in all_ if each.slice is not None]
    assert len(held) > 5
    findings, within = slices.Findings(), slices.nested(program, found)
    for draw in range(3):
        records = slices.record(program_path, program, [slice_ for _, slice_ in held], draw, tmp_path)
        for name, slice_ in held:
            slices.compare(name, slice_, records, findings, within)
    assert findings.wrong == findings.stuck == []
    assert findings.counts["calls"] > 500


def test_programs_run_with_such_manifests(toolchain: Callable[..., Toolchain], guest: Guest, tmp_path: Path) -> None:
    """The shim takes a manifest with slices, and does as it does without."""
    path = compiled(FOLDER / "runs.cu", "O2", toolchain)
    image, report = elf.load(path), analyze(path)
    made = build(image, report, report.permissions)
    assert len(made.slices) == 2
    content = writer.write(made)
    assert reader.read(content) == made
    (tmp_path / f"{made.identity.hex()}.manifest").write_bytes(content)
    outcomes = [guest.run([str(path)], "loops", extra={"FARLANE_MANIFESTS": where}) for where in ("off", str(tmp_path))]
    assert [outcome.status for outcome in outcomes] == [0, 0]
    assert outcomes[0].stdout == outcomes[1].stdout
    assert outcomes[0].stdout.count("\n") == 18
    assert "manifest" not in outcomes[1].stderr
