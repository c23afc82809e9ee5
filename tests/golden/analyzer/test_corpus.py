"""The golden corpus: what the analyzer must find in programs whose truth is written down by hand.

`corpus/expected.toml` says what is true, `corpus/gaps.toml` what the analyzer cannot do yet: those are expected to fail, and
a gap that has closed fails the test until its row is taken out. A permission that is not right is never excused.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_tools.cases import ASPECTS, EXPECTED, FOLDER, GAPS, Case, bare, cases, driver_cases
from corpus_tools.compare import analyzed, forbidden, manifest_of, wrong
from corpus_tools.driver import translated
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import ProgramReport
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    parameters, full, units = [], metafunc.config.getoption("--full-matrix"), set()
    for case in (*cases(full), *driver_cases(full)):
        group = pytest.mark.xdist_group(case.id)
        if metafunc.function is test_stripped and (case.unit in units or case.driver) and not full:
            continue  # one build of each unit
        units.add(case.unit)
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
def program(case: Case, toolchain: Callable[..., Toolchain]) -> Path:
    return case.compiled(toolchain)


def test_loops(case: Case, program: Path, function: str) -> None:
    """Class, trip count, whether all is known at the entry, and permissions, but for the gaps."""
    aspects = [aspect for aspect in ASPECTS if case.gap(function, aspect) is None]
    assert wrong(case, program, function, aspects) == []


def test_gap(case: Case, program: Path, function: str, aspect: str) -> None:
    """What cannot be done yet. When this passes, the row in gaps.toml has to go."""
    assert wrong(case, program, function, [aspect]) == []


def test_nothing_is_permitted_that_must_not_be(case: Case, program: Path) -> None:
    """Zero tolerance: no gap excuses a permission that the source does not prove."""
    assert forbidden(case, program) == []
    for site in manifest_of(program).sites:
        assert not site.permissions or site.proof


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

    assert essence(analyze(stripped, in_callees=False)) == essence(analyzed(program))


def test_launches_in_the_drivers_words() -> None:
    """The translation of the corpus: handles, what is left out of a configuration, and kernels without parameters."""
    source = """#include "common.cuh"
int main(int argc, char **argv) {
    step<<<4, f(2, 3)>>>(a, b);
    bare<<<dim3(1, 2), 3, 4, s>>>();
    cudaLaunchKernel((const void *)other, 1, 1, p, 0, nullptr);
}
"""
    text = translated(source)
    assert "Launcher<decltype(step)>::launch(handle_step, dim3(4), dim3(f(2, 3)), 0, nullptr, a, b);" in text
    assert "Launcher<decltype(bare)>::launch(handle_bare, dim3(dim3(1, 2)), dim3(3), 4, s);" in text
    assert "cudaLaunchKernel(handle_other, 1, 1, p, 0, nullptr);" in text
    fetched = "".join(
        f"    cudaGetFuncBySymbol(&handle_{name}, (const void *){name});\n" for name in ("bare", "other", "step")
    )
    assert f"int main(int argc, char **argv) {{\n{fetched}    Launcher" in text


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
        assert set(gap["aspects"]) <= {*ASPECTS, "predictions"}, gap
        assert gap["why"], gap
