"""How many loops that read results the host can decide, on programs of the usual shapes (benchmarks/analyzer/coverage).

Usage: python benchmarks/analyzer/coverage.py [--level 2] [--only NAME]

For each program every outermost loop that copies to the host is listed: decided by a slice, free of waits by the
permissions, or refused, with the reason.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.slices.form import Sliced
from farlane.demangle import readable
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

FOLDER = Path(__file__).with_name("coverage")


def loops(source: Path, level: int, toolchain: str = "13.0") -> list[Sliced]:
    """The loops of one program that read, compiled with g++."""
    build = Build(level, "compute_75", flags=(f"-I{FOLDER}",))
    return list(analyze(compile_program(install(toolchain), [source], source.stem, build)).slices)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--level", type=int, default=2)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    decided = total = 0
    for source in sorted(FOLDER.rglob("*.cu"), key=lambda source: source.stem):
        if options.only not in source.stem:
            continue
        for each in loops(source, options.level):
            total += 1
            decided += each.slice is not None
            said = "decided" if each.slice is not None else f"refused: {each.reason}: {readable(each.detail)}"
            print(f"{source.stem:20} {each.header:#x} {said}")
    print(f"{decided} of {total} loops decided at -O{options.level}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
