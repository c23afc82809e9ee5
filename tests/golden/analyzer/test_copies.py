"""Copies to the host in a row: which join the next call that waits (JOIN_NEXT_WAIT), in every build.

The truth stands in copies/rows.cu, behind each call. A copy that joins and must not is never excused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from compiler_builds import BUILDS
from farlane.analyzer.analysis.program import analyze
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "copies" / "rows.cu"
MARK = re.compile(r"// (joins|waits|either)$")
FUNCTION = re.compile(r"FUNCTION\((\w+)\)")
FUNCTIONS = re.compile(r"^_ZL\d+(\w+)PfS_S_S_i$")
LINES = SOURCE.read_text().splitlines()
MARKS = {f"{SOURCE.name}:{number}": match[1] for number, line in enumerate(LINES, 1) if (match := MARK.search(line))}


def marks_of_functions() -> dict[str, Counter[str]]:
    """How often each mark stands in a function."""
    found: dict[str, Counter[str]] = {}
    name = ""
    for line in LINES:
        if line.startswith("FUNCTION"):
            name = FUNCTION.match(line)[1]  # type: ignore[index]
            found[name] = Counter()
        if match := MARK.search(line):
            found[name][match[1]] += 1
    return found


@pytest.mark.parametrize("build", BUILDS)
def test_what_joins(build: str, toolchain: Callable[..., Toolchain]) -> None:
    name, level, host = BUILDS[build]
    options = Build(level, "compute_75", flags=("-g",))
    program = compile_program(toolchain(name, host_compiler=host), [SOURCE], SOURCE.stem, options)
    joined = [copy for copy in analyze(program).joined if copy.proof]
    counts = Counter(FUNCTIONS.sub(r"\1", copy.name) for copy in joined)
    marks = marks_of_functions()
    wrong = {
        function: (dict(said), counts[function])
        for function, said in marks.items()
        if not said["joins"] <= counts[function] <= said["joins"] + said["either"]
    }
    assert wrong == {}
    assert counts.keys() <= marks.keys()
    if level == 0:  # with optimization a call may bear its neighbour's line
        assert {copy.line for copy in joined if MARKS[copy.line] == "waits"} == set()
