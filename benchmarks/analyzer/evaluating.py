"""What the evaluation of a slice costs the host in processor time, for each iteration of its loop, without the calls.

Usage: python benchmarks/analyzer/evaluating.py [--iterations 1000000] [--goal 50]

As on the host, values that are the same in all iterations are not computed: records have them already. The slices are
those of the programs in benchmarks/analyzer/coverage and tests/native/deciding, at -O2. Each copy brings one byte again
and again; of several bytes the one with which the loop goes on for longest is taken. Loops that go round less than 64
times with all of them are left out: what beginning costs would be counted, too.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.slices.encode import write
from farlane.analyzer.slices.form import Place, Slice
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

ROOT = Path(__file__).resolve().parents[2]
COVERAGE = ROOT / "benchmarks" / "analyzer" / "coverage"
SOURCES = [*COVERAGE.rglob("*.cu"), *(ROOT / "tests" / "native" / "deciding").glob("*.cu")]
BYTES = ("00", "01", "3f", "40", "7f", "ff")
LEAST = 64


def timed(process: subprocess.Popen[str], slice_: Slice, iterations: int) -> tuple[float, int]:
    """Nanoseconds for an iteration, and iterations from the beginning to the end."""

    def ask(line: str) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    assert ask(f"slice {write(slice_).hex()}") == "ok"
    found = []
    for byte in BYTES:
        sizes = [each.to.size if isinstance(each.to, Place) else 8 for each in slice_.inputs]
        assert ask(" ".join(["begin", *((byte * size) for size in sizes)])) == "ok"
        short = float(ask(f"time 1000 {byte}").split()[1])
        found.append((short, byte))
    longest, byte = max(found)
    sizes = [each.to.size if isinstance(each.to, Place) else 8 for each in slice_.inputs]
    ask(" ".join(["begin", *((byte * size) for size in sizes)]))
    took, rounds = ask(f"time {iterations if longest >= LEAST else 1000} {byte}").split()
    return float(took), int(rounds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--iterations", type=int, default=1_000_000)
    parser.add_argument("--goal", type=float, default=50, help="nanoseconds")
    options = parser.parse_args()
    command = ["cargo", "run", "--quiet", "--locked", "--release", "--package", "slices", "--example", "evaluate"]
    shim = ROOT / "frontend" / "shim"
    took: list[float] = []
    with subprocess.Popen(command, cwd=shim, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for source in sorted(SOURCES, key=lambda source: source.stem):
            build = Build(2, "compute_75", flags=(f"-I{COVERAGE}",))
            program = compile_program(install("13.0"), [source], source.stem, build)
            for each in analyze(program).slices:
                if each.slice is None:
                    continue
                nanoseconds, rounds = timed(process, each.slice, options.iterations)
                operations = sum(len(block.operations) for block in each.slice.blocks)
                left_out = "" if rounds >= LEAST else "   left out: too few iterations"
                print(f"{source.stem:20} {operations:5} operations {nanoseconds:9.1f} ns{left_out}", flush=True)
                if rounds >= LEAST:
                    took.append(nanoseconds)
        assert process.stdin is not None
        process.stdin.close()
    median = statistics.median(took)
    print(
        f"{len(took)} slices: median {median:.1f} ns, worst {max(took):.1f} ns; of the goal: {median / options.goal:.2f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
