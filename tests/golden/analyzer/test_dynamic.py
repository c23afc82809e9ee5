"""Manifests against what programs really do: the corpus and tests/native under the shim's trace. Zero wrong claims.

Every argument, sequence and count that a manifest predicts, and every condition that permissions hang on, is compared with each
call that the program makes (corpus_tools/trace.py). The device is the simulated one, so that device data steers the programs as
it would.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_tools import trace
from corpus_tools.cases import FOLDER, NVCC, Case, bare, cases
from corpus_tools.compare import analyzed, manifest_of
from farlane.analyzer.loader import elf
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

NATIVE = [
    e for e in registry.load(Path(__file__).parents[2] / "native" / "registry.toml") if not e.helper and not e.variant
]


# Predictions hold as long as no CUDA call fails; in these calls fail on purpose.
FAILING = {"errors", "out_of_memory"}
# What is wrong today, by program and level; strict.
KNOWN: dict[tuple[str, int], str] = {}


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
    if "case" in metafunc.fixturenames:
        full = metafunc.config.getoption("--full-matrix")
        # clang registers no managed variables: its kernels would be given the host's addresses.
        runnable = [
            case for case in cases(full) if case.unit != "managed" or not case.row.toolchain.startswith("clang")
        ]
        chosen = [case for case in runnable if full or case.row in NVCC or case.row.toolchain.startswith("clang")]
        marks = [pytest.param(case, id=case.id, marks=pytest.mark.xdist_group(case.id)) for case in chosen]
        metafunc.parametrize("case", marks)


def test_corpus(case: Case, toolchain: Callable[[str], Toolchain], guest: Guest, tmp_path: Path) -> None:
    program = case.compiled(toolchain(case.row.toolchain))
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
    toolchain: Callable[[str], Toolchain], guest: Guest, tmp_path: Path
) -> None:
    """So that a trace or a manifest without content cannot pass for one without mistakes."""
    case = Case("induction", NVCC[1])
    program = case.compiled(toolchain("13.0"))
    lines = traced(guest, [str(program), "9"], tmp_path)
    checked = trace.compare(lines, manifest_of(program), elf.load(program), run_once("induction")).checked
    assert {kind for kind, count in checked.items() if count > 10} >= {
        *("name", "constant", "invariant", "affine", "more", "remaining"),
    }
    assert checked["sequence"] > 0


def native_cases() -> list[object]:
    found = []
    for entry, level in itertools.product(NATIVE, (0, 3)):
        why = KNOWN.get((entry.name, level))
        marks = [pytest.mark.xfail(reason=why, strict=True, raises=AssertionError)] if why else []
        if entry.name not in FAILING:
            found.append(pytest.param(entry, level, id=f"{entry.name}-O{level}", marks=marks))
    return found


@pytest.mark.parametrize(("entry", "level"), native_cases())
def test_native(
    entry: registry.Entry, level: int, toolchain: Callable[[str], Toolchain], guest: Guest, tmp_path: Path
) -> None:
    """Programs that were not written for this."""
    command = entry.compiled(toolchain("13.0" if "nvcc" in entry.compilers else "clang-12.9"), Build(level, "sm_75"))
    program = Path(command[0])
    lines = traced(guest, command, tmp_path)
    findings = trace.compare(lines, manifest_of(program), elf.load(program), set())
    assert findings.wrong == {}
