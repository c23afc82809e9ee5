"""Random programs with loops that decide by what they read: how many have a slice, and whether any says another call than
the program makes.

Usage: python benchmarks/analyzer/random_slices.py [--programs 10000] [--loops 30] [--first 1000]

A program is one loop in a function of its own; a file holds `--loops` of them. The same generator and comparison serve
the tests (tests/golden/analyzer/test_slices.py), which take other seeds.
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
sys.path[:0] = [str(ROOT / "tests" / "golden" / "analyzer"), str(ROOT / "tests" / "reference")]
from corpus_tools import slice_programs, slices  # noqa: E402
from farlane.frontend.devtools.programs import Build, compile_program  # noqa: E402
from farlane.frontend.devtools.toolchain import install  # noqa: E402

BUILDS = (("13.0", 0), ("13.0", 2), ("13.0", 3), ("clang-12.9", 2))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--loops", type=int, default=30)
    parser.add_argument("--first", type=int, default=1000)
    options = parser.parse_args()
    done, reasons, findings, started = 0, Counter[str](), slices.Findings(), time.monotonic()
    for seed in range(options.first, options.first + -(-options.programs // options.loops)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            shutil.copy(ROOT / "tests/golden/analyzer/slices/common.cuh", folder)
            source = folder / f"random_{seed}.cu"
            source.write_text(slice_programs.source(seed, options.loops))
            toolchain, level = BUILDS[seed % len(BUILDS)]
            path = compile_program(install(toolchain), [source], source.stem, Build(level, "compute_75"))
            program, found = slices.sliced(path)
            held = [(loop, each.slice) for loop, all_ in found.items() for each in all_ if each.slice is not None]
            within = slices.nested(program, found)
            reasons.update(each.reason or "slice" for all_ in found.values() for each in all_)
            for draw in range(2):
                records = slices.record(path, program, [slice_ for _, slice_ in held], draw, folder)
                for loop, slice_ in held:
                    slices.compare(f"{seed} {loop}", slice_, records, findings, within)
            shutil.rmtree(path.parent)
        done += options.loops
        print(f"{done} loops in {time.monotonic() - started:.0f} s: {dict(reasons.most_common())}")
        print(
            f"compared: {dict(findings.counts)}; wrong: {len(findings.wrong)}; stuck: {len(findings.stuck)}", flush=True
        )
    for text in (*findings.wrong[:20], *findings.stuck[:20]):
        print(text)
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
