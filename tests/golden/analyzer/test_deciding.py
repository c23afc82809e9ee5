"""Slices of whole programs: every loop of tests/native/deciding that copies to the host has one, in every build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_tools import slices
from farlane.analyzer.slices import reasons
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import CLANG, Toolchain

FOLDER = Path(__file__).parents[2] / "native" / "deciding"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.cu"))
# Toolchain, level, host compiler.
BUILDS = [
    ("13.0", 0, "g++"),
    ("13.0", 2, "g++"),
    ("13.5", 3, "g++"),
    ("13.0", 2, CLANG),
    ("clang-12.9", 0, "g++"),
    ("clang-12.9", 3, "g++"),
]
REFUSED = {"kmeans": {reasons.NESTED, reasons.INSTRUCTION}}  # loops over arrays
pytestmark = pytest.mark.native


@pytest.mark.parametrize("build", BUILDS, ids=["-".join(map(str, each)) for each in BUILDS])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_loop_that_reads(name: str, build: tuple[str, int, str], toolchain: Callable[..., Toolchain]) -> None:
    chain, level, host = build
    compiler = toolchain(chain, host_compiler=host)
    _, found = slices.sliced(compile_program(compiler, [FOLDER / f"{name}.cu"], name, Build(level, "compute_75")))
    said = [each for all_ in found.values() for each in all_]
    assert said
    if name in REFUSED:
        assert {each.reason for each in said} <= REFUSED[name]
        return
    assert [(each.reason, each.detail) for each in said if each.slice is None] == []
