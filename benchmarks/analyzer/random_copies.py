"""Random functions with copies to the host in a row: whether any prints something else with its manifest than without.

Usage: python benchmarks/analyzer/random_copies.py [--functions 10000] [--each 40] [--first 1000]

A file holds `--each` functions; each is run three times, with arguments of which some overlap. The same generator
serves the tests (tests/randomized/test_copy_programs.py), which take other seeds.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "randomized"))
from copy_programs import source  # noqa: E402
from farlane.analyzer.analysis.program import analyze  # noqa: E402
from farlane.analyzer.loader import elf  # noqa: E402
from farlane.analyzer.manifest import build, embed, writer  # noqa: E402
from farlane.frontend.devtools.guest import Guest  # noqa: E402
from farlane.frontend.devtools.programs import Build, compile_program  # noqa: E402
from farlane.frontend.devtools.toolchain import install  # noqa: E402
from farlane.frontend.embedded import EmbeddedHost  # noqa: E402

BUILDS = (("13.0", 0), ("13.0", 2), ("13.5", 3), ("clang-12.9", 2))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--functions", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=40)
    parser.add_argument("--first", type=int, default=1000)
    options = parser.parse_args()
    counts, wrong, started = Counter[str](), list[int](), time.monotonic()
    with EmbeddedHost("sim") as host:
        guest = Guest(host.url)
        for seed in range(options.first, options.first + -(-options.functions // options.each)):
            if not _same(guest, seed, options.each, counts):
                wrong.append(seed)
            print(f"seed {seed}, {time.monotonic() - started:.0f} s: {dict(counts)}; wrong seeds: {wrong}", flush=True)
    return 1 if wrong else 0


def _same(guest: Guest, seed: int, functions: int, counts: Counter[str]) -> bool:
    with tempfile.TemporaryDirectory() as name:
        text = Path(name) / f"copies_{seed}.cu"
        text.write_text(source(seed, functions))
        toolchain, level = BUILDS[seed % len(BUILDS)]
        program = compile_program(install(toolchain), [text], text.stem, Build(level, "compute_75"))
        report = analyze(program)
        marked = Path(name) / "marked"
        manifest = writer.write(build.build(elf.load(program), report, report.permissions))
        marked.write_bytes(embed.embed(program.read_bytes(), manifest))
        marked.chmod(0o755)
        calls, loops = guest.run([str(program)], "calls"), guest.run([str(marked)], "loops")
        shutil.rmtree(program.parent)
    counts["functions"] += functions
    counts["copies"] += len(report.joined)
    counts["proven"] += sum(bool(each.proof) for each in report.joined)
    counts["joined"] += loops.report.sections["manifest"]["joined_copies"]
    counts["round trips: calls"] += calls.report.round_trips
    counts["loops"] += loops.report.round_trips
    return (calls.status, calls.stdout) == (loops.status, loops.stdout)


if __name__ == "__main__":
    sys.exit(main())
