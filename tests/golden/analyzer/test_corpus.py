"""The golden corpus: what the analyzer must find in programs whose truth is written down by hand.

`corpus/expected.toml` says what is true, `corpus/gaps.toml` what the analyzer cannot do yet: those are expected to fail, and
a gap that has closed fails the test until its row is taken out. A permission that is not right is never excused.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from corpus_tools.cases import ASPECTS, EXPECTED, FOLDER, GAPS, Case, bare, cases
from farlane.analyzer.loops.analysis import analyze
from farlane.analyzer.loops.model import LoopReport, ProgramReport
from farlane.analyzer.loops.reasons import Reason
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

# Reasons that say why a loop is not known when it is entered; the others tell what it contains.
TELLING = {Reason.COPIES_TO_HOST, Reason.SYNCHRONIZES, Reason.QUERIES}


@functools.cache
def analyzed(path: Path) -> ProgramReport:
    return analyze(path)


def loops_of(report: ProgramReport, function: str) -> list[LoopReport]:
    found = [loop for loop in report.loops if bare(loop.function) == function]
    return sorted(found, key=lambda loop: (loop.depth, loop.header))


def known_at_entry(loop: LoopReport) -> bool:
    """Class, sequence and trip count."""
    sequence = not any(call.conditional for call in loop.calls) and not set(loop.reasons) - TELLING
    return loop.class_ != "-" and loop.trip_count is not None and sequence


def either(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def mistakes(aspect: str, loop: LoopReport, row: dict[str, Any]) -> str:
    """What is wrong with one aspect of a loop; empty when nothing is."""
    if aspect == "class":
        return "" if str(loop.class_) in either(row["class"]) else f"class {loop.class_}, not {row['class']}"
    if aspect == "trips":
        for trips in either(row["trips"]):
            count = loop.trip_count
            if count is None and trips == "unknown":
                return ""
            if (
                count is not None
                and trips != "unknown"
                and count.constant == (trips if isinstance(trips, int) else None)
            ):
                return ""
        return f"trip count {loop.trip_count and loop.trip_count.text}, not {row['trips']}"
    described, expected = known_at_entry(loop), row.get("described", True)
    if described or expected is True:
        return "" if expected in (described, "either") else f"described: {described} ({', '.join(loop.reasons)})"
    given, right = set(loop.reasons) - TELLING, set(row.get("reasons", []))
    return "" if given & right else f"reasons {sorted(given)}, none of {sorted(right)}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    parameters = []
    for case in cases(full=metafunc.config.getoption("--full-matrix")):
        group = pytest.mark.xdist_group(case.id)
        if "function" not in metafunc.fixturenames:
            parameters.append(pytest.param(case, id=case.id, marks=group))
            continue
        for function in case.expected():
            if "aspect" not in metafunc.fixturenames:
                parameters.append(pytest.param(case, function, id=f"{case.id}-{function}", marks=group))
                continue
            for aspect in ASPECTS:
                if why := case.gap(function, aspect):
                    marks = (group, pytest.mark.xfail(reason=why, strict=True, raises=AssertionError))
                    parameters.append(
                        pytest.param(case, function, aspect, id=f"{case.id}-{function}-{aspect}", marks=marks)
                    )
    names = [name for name in ("case", "function", "aspect") if name in metafunc.fixturenames]
    metafunc.parametrize(names if len(names) > 1 else names[0], parameters)


@pytest.fixture
def program(case: Case, toolchain: Callable[[str], Toolchain]) -> Path:
    return case.compiled(toolchain(case.row.toolchain))


def wrong(case: Case, program: Path, function: str, aspects: Sequence[str]) -> list[str]:
    """The mistakes in these aspects of a function's loops."""
    rows = case.expected()[function]
    loops = loops_of(analyzed(program), function)
    if len(loops) != len(rows):
        return [f"{len(loops)} loops, not {len(rows)}"]
    return [
        f"loop {index}: {mistake}"
        for aspect in aspects
        for index, (loop, row) in enumerate(zip(loops, rows, strict=True))
        if (mistake := mistakes(aspect, loop, row))
    ]


def test_loops(case: Case, program: Path, function: str) -> None:
    """Class, trip count, and whether all is known at the entry, but for the gaps."""
    aspects = [aspect for aspect in ASPECTS[:3] if case.gap(function, aspect) is None]
    assert wrong(case, program, function, aspects) == []


def test_gap(case: Case, program: Path, function: str, aspect: str) -> None:
    """What cannot be done yet. When this passes, the row in gaps.toml has to go."""
    if aspect == "permits":
        pytest.skip("see test_permissions")
    assert wrong(case, program, function, [aspect]) == []


def test_nothing_is_missed_or_skipped(case: Case, program: Path) -> None:
    report = analyzed(program)
    assert report.skipped == ()
    found = {bare(loop.function) for loop in report.loops}
    assert found - {"main"} == {function for function, rows in case.expected().items() if rows}


def test_stripped(case: Case, program: Path, tmp_path: Path) -> None:
    """Without symbols and debug information the same loops, calls, and facts are found."""
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, program], check=True)

    def essence(report: ProgramReport) -> list[tuple[object, ...]]:
        return [
            (loop.entry, loop.header, loop.class_, loop.trip_count, loop.reasons, [call.site for call in loop.calls])
            for loop in report.loops
        ]

    assert essence(analyze(stripped)) == essence(analyzed(program))


def test_the_corpus_is_whole() -> None:
    """Every unit has a table, every program a key, and every gap names something that is there."""
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(EXPECTED)
    assert sum(len(table) for table in EXPECTED.values()) >= 40
    for unit, table in EXPECTED.items():
        text = (FOLDER / f"{unit}.cu").read_text()
        programs = {line.split("(")[0].split()[-1] for line in text.splitlines() if line.startswith("PROGRAM")}
        assert programs <= set(table), unit
        for name, rows in table.items():
            assert rows or "@" in name, name
            assert all({"class", "trips"} <= row.keys() for row in rows), name
            assert all("reasons" in row for row in rows if row.get("described", True) is not True), name
    for gap in GAPS:
        assert set(gap["functions"]) <= EXPECTED[gap["unit"]].keys(), gap
        assert set(gap["aspects"]) <= set(ASPECTS), gap
        assert gap["why"], gap
