"""CUDA programs against what is known of their loops: own ones by a table, those of tests/native by properties."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native_builds
import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.analysis.reading import may_hold
from farlane.analyzer.commands.analyze import command
from farlane.analyzer.flow.summary import Functions
from farlane.analyzer.graph.program import Program
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.dependence import judging as dependence
from farlane.analyzer.loops.model import LoopReport, ProgramReport, Reason
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.report import text as texts
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

PROGRAMS = Path(__file__).parent / "programs"
EXPECTED: dict[str, list[dict[str, Any]]] = tomllib.loads((PROGRAMS / "loops.toml").read_text())
LEVELS = (0, 2, 3)


@pytest.fixture(scope="module", params=LEVELS, ids=lambda level: f"O{level}")
def level(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def program(level: int, toolchain: Callable[[str], Toolchain]) -> Path:
    build = Build(level, "compute_75")
    return compile_program(toolchain("13.0"), [PROGRAMS / "loops.cu"], "loops", build)


@pytest.fixture(scope="module")
def report(program: Path) -> ProgramReport:
    return analyze(program)


def described(loop: LoopReport) -> dict[str, Any]:
    trips: object = "unknown"
    if loop.trip_count is not None:
        trips = "counted" if loop.trip_count.constant is None else loop.trip_count.constant
    return {"class": str(loop.class_), "trips": trips, "reasons": [str(reason) for reason in loop.reasons]}


@pytest.mark.parametrize("function", EXPECTED)
def test_loop(report: ProgramReport, level: int, function: str) -> None:
    expected = []
    for row in EXPECTED[function]:
        merged = {"reasons": [], **row, **row.get(f"O{level}", {})}
        expected.append({key: merged[key] for key in ("class", "trips", "reasons")})
    loops = sorted((loop for loop in report.loops if loop.function == function), key=lambda loop: loop.depth)
    assert [described(loop) for loop in loops] == expected


def test_nothing_is_missed_or_skipped(report: ProgramReport) -> None:
    assert {loop.function for loop in report.loops} == set(EXPECTED)
    assert report.skipped == ()


def test_a_number_behind_a_pointer_stands_somewhere(report: ProgramReport) -> None:
    (loop,) = (loop for loop in report.loops if loop.function == "planned")
    assert loop.trip_count is not None
    assert loop.trip_count.places
    assert all(where for _, where in loop.trip_count.places)


def test_values_that_depend_on_each_other_in_too_many_ways_cost_no_function(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependence, "MAXIMUM_AT_ONCE", 1)
    report = analyze(program)
    assert report.skipped == ()
    assert {loop.function for loop in report.loops} == set(EXPECTED)
    assert any(Reason.CONTROL in loop.reasons and not loop.described for loop in report.loops)


def test_functions_that_are_not_analyzed_for_themselves_hold_no_loop_with_calls(program: Path) -> None:
    functions = Functions(Program(elf.load(program), Decoder()))
    left = [start for start in sorted(functions.cuda) if not may_hold(functions, start)]
    assert 0 < len(left) < len(functions.cuda)
    for start in left:
        analysis = functions.analysis(start)
        assert analysis is not None
        inside = [block for loop in analysis.structure.loops.values() for block in loop.blocks]
        assert analysis.result.calls.keys().isdisjoint(inside)


def test_launches_are_one_call_each(report: ProgramReport) -> None:
    for loop in report.loops:
        for call in loop.calls:
            assert "Launch" not in call.name
            assert "Configuration" not in call.name
            if call.name == "launch":
                assert call.kernel == "_Z5touchPfii"
                names = [argument.name for argument in call.arguments]
                assert names[-3:] == ["parameter 0", "parameter 1", "parameter 2"]
                assert len(names) == 9


def test_runs_between_points_of_waiting(report: ProgramReport) -> None:
    runs = {loop.function: [[loop.calls[index].name for index in run] for run in loop.runs] for loop in report.loops}
    assert runs["affine"] == [["cudaMemset", "launch"]]
    assert runs["copied_back"] == runs["sent_back"] == [["launch"]]
    assert runs["allocating"] == [["cudaMalloc", "launch", "cudaFree"]]


def test_arguments(report: ProgramReport) -> None:
    loop = next(loop for loop in report.loops if loop.function == "invariant")
    (launch,) = loop.calls
    values = {argument.name: argument.text for argument in launch.arguments}
    assert values["grid.xy"] == hex(4 | 1 << 32)
    assert values["block.xy"] == hex(128 | 1 << 32)
    assert (values["grid.z"], values["block.z"], values["shared"], values["stream"]) == ("1", "1", "0", "0")
    assert (values["parameter 0"], values["parameter 1"], values["parameter 2"]) == ("rdi@entry", "7", "rsi@entry")


def test_stripped_programs_give_the_same_loops(program: Path, report: ProgramReport, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, program], check=True)

    def essence(of: ProgramReport) -> list[tuple[object, ...]]:
        return [(loop.entry, loop.header, described(loop), [call.site for call in loop.calls]) for loop in of.loops]

    assert essence(analyze(stripped)) == essence(report)


def test_reports_are_deterministic(program: Path, report: ProgramReport) -> None:
    text = texts.to_json(report)
    assert text == texts.to_json(analyze(program))
    content = json.loads(text)
    assert content["identity"] == report.identity
    assert len(content["loops"]) == len(report.loops)
    assert texts.to_dot(report).count("style=filled") == len(report.loops)
    assert sum("depth" in line for line in texts.lines(report)) == len(report.loops)


def test_command(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args([str(program)])) == 0
    assert "invariant" in capsys.readouterr().out
    assert command.run(parser.parse_args([str(tmp_path)])) == 1
    assert "not a file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["streams_events", "bfs", "cg", "stencil2d"])
def test_native_programs_are_analyzed_whole(name: str, toolchain: Callable[[str], Toolchain]) -> None:
    case = next(case for case in native_builds.cases(full=False) if case.entry.name == name)
    report = analyze(Path(case.entry.compiled(toolchain(case.row.toolchain), case.row.build())[0]))
    assert report.skipped == ()
    assert report.loops
    for loop in report.loops:
        assert loop.calls
        unknown = [a for call in loop.calls for a in call.arguments if a.kind == "unknown"]
        assert all(argument.reasons for argument in unknown)
        assert (loop.class_ == "-") == bool(unknown) or "unknown-kernel" in loop.reasons


@pytest.mark.parametrize("level", [0, 3])
def test_the_launch_convention_of_cuda_12(level: int, toolchain: Callable[[str], Toolchain]) -> None:
    """clang passes the stub's address to cudaLaunchKernel."""
    entry = next(case.entry for case in native_builds.cases(full=False) if case.entry.name == "streams_events")
    build = native_builds.Row("clang-12.9", level, "sm").build()
    report = analyze(Path(entry.compiled(toolchain("clang-12.9"), build)[0]))
    (loop,) = report.loops
    assert described(loop) == {"class": "2", "trips": 5, "reasons": ["copies-to-host", "synchronizes"]}
    (launch,) = [call for call in loop.calls if call.name == "launch"]
    assert launch.kernel is not None
    assert "scale" in launch.kernel
    kinds = {argument.name: argument.kind for argument in launch.arguments}
    assert kinds["parameter 2"] == "affine"
    assert [kind for name, kind in kinds.items() if name != "parameter 2"] == ["invariant"] * 9
