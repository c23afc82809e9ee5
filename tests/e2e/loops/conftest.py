"""Programs analyzed once for all tests of a process, and programs with their manifest in them, so that the first run has it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.model import ProgramReport
from farlane.analyzer.manifest import embed, writer
from farlane.analyzer.manifest.build import build


@pytest.fixture(scope="session")
def analyzed() -> Callable[[Path], ProgramReport]:
    """The report that a program's manifest is made of."""
    return functools.cache(lambda program: analyze(program, in_callees=False))


@pytest.fixture(scope="module")
def marked(analyzed: Callable[[Path], ProgramReport], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Puts a program's manifest into a copy of it, as `farlane analyze --embed` does (tests/unit/analyzer/manifest has that)."""
    folder = tmp_path_factory.mktemp("marked")

    @functools.cache
    def mark(program: str) -> str:
        original, copy = Path(program), folder / f"{abs(hash(program)):x}-{Path(program).name}"
        report = analyzed(original)
        manifest = writer.write(build(elf.load(original), report, report.permissions))
        copy.write_bytes(embed.embed(original.read_bytes(), manifest))
        copy.chmod(0o755)
        return str(copy)

    return mark
