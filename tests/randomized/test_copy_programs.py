"""Random functions with copies to the host in a row print the same with their manifest as without.

`copy_programs` makes them; `python benchmarks/analyzer/random_copies.py` runs as many as are wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from copy_programs import source
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loader import elf
from farlane.analyzer.manifest import build, embed, writer
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

BUILDS = [("13.0", 0), ("13.0", 2), ("13.5", 3), ("clang-12.9", 2)]
FUNCTIONS = 20


@pytest.mark.parametrize("seed", range(len(BUILDS)))
def test_the_output_is_the_same(seed: int, guest: Guest, toolchain: Callable[..., Toolchain], tmp_path: Path) -> None:
    text = tmp_path / f"copies_{seed}.cu"
    text.write_text(source(seed, FUNCTIONS))
    name, level = BUILDS[seed]
    program = compile_program(toolchain(name), [text], text.stem, Build(level, "compute_75"))
    marked = tmp_path / "marked"
    report = analyze(program)
    manifest = writer.write(build.build(elf.load(program), report, report.permissions))
    marked.write_bytes(embed.embed(program.read_bytes(), manifest))
    marked.chmod(0o755)
    calls, loops = guest.run([str(program)], "calls"), guest.run([str(marked)], "loops")
    assert (calls.status, calls.stderr) == (0, "")
    assert (loops.status, loops.stdout, loops.stderr) == (0, calls.stdout, "")
    assert loops.report.sections["manifest"]["joined_copies"] > 0
    assert loops.report.round_trips < calls.report.round_trips
