"""How long the analyzer takes, per program and per MB of code; and beside angr's CFGFast and LoopFinder on the same
files.

What slices take of it is printed, too. Four groups: tests/native; every tenth of it as `nvcc` builds programs by default,
with the runtime linked in; the golden corpus; and one large program, many of Thrust's algorithms
(benchmarks/analyzer/large.cu), nearly all of whose code reaches CUDA; compiling that takes minutes, once. Of a program
with the runtime in it both sizes are printed: the analyzer leaves the runtime's code out. Two comparisons: graphs and loops alone, and the whole analysis (values, classes, trip counts, permissions besides) with
angr's graphs and loops.

Every analysis runs in a process of its own, as `farlane analyze` does, and times itself without the start of Python and
imports; so does angr. What the start takes is measured as well. Times are processor time, because both run on one
thread and machines are shared: under load it still grows, so the load is printed. Only what the command takes for the
large program is measured on the clock, too. Ours and angr's alternate. Headers are compared in the functions that reach
CUDA; a goal is printed with the ratio. `--quick` takes a few programs only, and each once.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import cache_folder, install

STATIC = "tests/native, every tenth, the runtime linked in"
GROUPS = ("tests/native", STATIC, "corpus", "large")
ROOT = Path(__file__).resolve().parents[1]
ANGR = cache_folder() / "angr" / "venv" / "bin" / "python"
COMPARED = ("induction", "reads", "callees", "cg", "streams_events", "templates_and_structs")
RUNS = 1 if "--quick" in sys.argv else 3
TYPICAL, PER_MEGABYTE, FASTER = 0.3, 5.0, 10.0  # the goals: seconds, seconds, times

OURS = """
import json, sys, time
from pathlib import Path
import farlane.analyzer.analysis.reading  # which `analyze` imports where a loop may hold a CUDA call
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.graph import control_flow
from farlane.analyzer.graph.program import Program
from farlane.analyzer.graph.structure import Structure
from farlane.analyzer.loader import elf
from farlane.analyzer.loader.sections import Tables
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.slices.extract import Extractor
path = Path(sys.argv[1])
sliced, loops_of = 0.0, Extractor.loops
def timed(extractor, start):
    global sliced
    began = time.process_time()
    try:
        return loops_of(extractor, start)
    finally:
        sliced += time.process_time() - began
Extractor.loops = timed
started = time.process_time()
report = analyze(path, 3600.0, in_callees=False)  # as for a manifest
seconds = time.process_time() - started
started = time.process_time()
image = elf.load(path)
program = Program(image, Decoder())
loops = {start: sorted(Structure(control_flow.build(program, start)).loops) for start in program.cuda}
graphs = time.process_time() - started
parts = {part.start: start for start in loops for part in program.parts(start)}
text = sum(len(segment.data) for segment in image.segments if segment.name == ".text")
tables = Tables(path.read_bytes())
whole = sum(section.size for section in tables.sections if section.name == ".text")
found = {"seconds": seconds, "slices": sliced, "graphs": graphs, "loops": loops, "parts": parts, "text": text, "whole": whole, "described": len(report.loops), "skipped": len(report.skipped)}
print(json.dumps(found))
"""


def programs(quick: bool) -> dict[str, dict[str, Path]]:
    """Group -> name -> executable: tests/native at -O3, the corpus and the large program at -O2, all by nvcc."""
    toolchain = install("13.0")
    found: dict[str, dict[str, Path]] = {group: {} for group in GROUPS}
    for entry in registry.load(ROOT / "tests" / "native" / "registry.toml"):
        if not entry.helper and not entry.variant and "nvcc" in entry.compilers:
            found["tests/native"][entry.name] = Path(entry.compiled(toolchain, Build(3, "sm_75"))[0])
            if len(found["tests/native"]) % 10 == 1:
                found[STATIC][entry.name] = Path(entry.compiled(toolchain, Build(3, "sm_75", cudart="static"))[0])
    for source in sorted((ROOT / "tests" / "golden" / "analyzer" / "corpus").glob("*.cu")):
        build = Build(2, "compute_75", flags=("-g",))
        found["corpus"][source.stem] = compile_program(toolchain, [source], source.stem, build)
    if quick:
        return {group: {name: path for name, path in all_.items() if name in COMPARED} for group, all_ in found.items()}
    sources = [ROOT / "benchmarks" / "analyzer" / name for name in ("large.cu", "large_second.cu")]
    found["large"]["large"] = compile_program(toolchain, sources, "large", Build(2, "compute_75"))
    return found


def run(command: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def ours(path: Path) -> dict[str, Any]:
    return run([sys.executable, "-c", OURS, str(path)])


def theirs(path: Path) -> dict[str, Any]:
    return run([str(ANGR), str(ROOT / "benchmarks" / "analyzer" / "angr_loops.py"), str(path)])


def quantile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def times(group: str, all_: dict[str, Path]) -> None:
    found = {name: [ours(path) for _ in range(RUNS)] for name, path in all_.items()}
    seconds = {name: statistics.median(run["seconds"] for run in runs) for name, runs in found.items()}
    text = {name: runs[0]["whole"] for name, runs in found.items()}
    slowest = max(seconds, key=lambda name: seconds[name])
    typical, total = statistics.median(seconds.values()), sum(seconds.values()) / (sum(text.values()) / 1e6)
    described, size = sum(runs[0]["described"] for runs in found.values()), sum(text.values()) / 1e3
    print(f"{group}: {len(found)} programs, {size:.0f} KB of .text, {described} loops")
    goal = f"   goal {TYPICAL} s: {verdict(typical <= TYPICAL)}" if len(found) > 1 else ""
    p90 = quantile(seconds.values(), 0.9)
    print(f"  median {typical:.2f} s   p90 {p90:.2f} s   worst {seconds[slowest]:.2f} s ({slowest}){goal}")
    of_slices = sum(statistics.median(run["slices"] for run in runs) for runs in found.values())
    print(
        f"  {sum(seconds.values()):.2f} s in all, {of_slices:.2f} s ({of_slices / sum(seconds.values()):.0%}) for slices;"
        f" {total:.1f} s per MB of .text   goal {PER_MEGABYTE} s: {verdict(total <= PER_MEGABYTE)}"
    )
    own = sum(runs[0]["text"] for runs in found.values()) / 1e3
    if own < size:
        print(
            f"  of the .text {own:.0f} KB are not the runtime's: {sum(seconds.values()) / own * 1e3:.1f} s per MB of these"
        )
    print(f"  skipped functions: {sum(runs[0]['skipped'] for runs in found.values())}")
    if group == "large":
        for name, path in all_.items():
            on_the_clock(path, text[name])


def start(path: Path) -> None:
    """What `farlane analyze` takes on a small program as a whole, the start of Python and imports included."""
    taken = []
    command = [sys.executable, "-m", "farlane.analyzer.commands.analyze", str(path)]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as compiled:
        for _ in range(2 * RUNS + 1):  # the first one compiles the modules
            before = os.times()
            subprocess.run(command, check=True, capture_output=True, env={**kept, "PYTHONPYCACHEPREFIX": compiled})
            after = os.times()
            taken.append(after.children_user + after.children_system - before.children_user - before.children_system)
    print(f"farlane analyze {path.name}: {statistics.median(taken[1:]):.2f} s with the start of Python and imports")


def on_the_clock(path: Path, size: int) -> None:
    """What making a manifest takes a user of a program of `size` bytes of .text: the whole command, which uses two
    processes for a large one."""
    taken = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(RUNS):
            before = time.monotonic()
            command = [
                sys.executable,
                "-m",
                "farlane.analyzer.commands.analyze",
                "--manifest",
                f"{folder}/made",
                str(path),
            ]
            subprocess.run(command, check=True, capture_output=True)
            taken.append(time.monotonic() - before)
    per_megabyte = statistics.median(taken) / (size / 1e6)
    print(
        f"  farlane analyze --manifest, on the clock: {statistics.median(taken):.2f} s, {per_megabyte:.1f} s per MB"
        f"   goal {PER_MEGABYTE} s: {verdict(per_megabyte <= PER_MEGABYTE)}"
    )


def verdict(reached: bool) -> str:
    return "reached" if reached else "missed"


def beside_angr(all_: dict[str, Path]) -> None:
    if not ANGR.exists():
        print(f"angr is not installed ({ANGR}): no comparison; benchmarks/analyzer/README.md says how to install it")
        return
    print(
        f"  {'program':22} {'headers: ours':>13} {'angr':>5} {'common':>6}"
        f" {'graphs s':>9} {'all s':>7} {'angr s':>7} {'ratio: graphs':>14} {'all':>5}"
    )
    ratios: dict[str, list[float]] = {"graphs": [], "seconds": []}
    for name in COMPARED:
        mine, other = [], []
        for _ in range(RUNS):
            mine.append(ours(all_[name]))
            other.append(theirs(all_[name]))
        parts = {int(part): int(start) for part, start in mine[0]["parts"].items()}
        here = {header for headers in mine[0]["loops"].values() for header in headers}
        there = {h for function, headers in other[0]["loops"].items() if int(function) in parts for h in headers}
        took = {what: statistics.median(run[what] for run in mine) for what in ratios}
        angr = statistics.median(run["seconds"] for run in other)
        for what, seconds in took.items():
            ratios[what].append(angr / seconds)
        print(
            f"  {name:22} {len(here):13} {len(there):5} {len(here & there):6} {took['graphs']:9.3f} {took['seconds']:7.2f}"
            f" {angr:7.2f} {ratios['graphs'][-1]:14.1f} {ratios['seconds'][-1]:5.1f}"
        )
        for what, only in (("ours", here - there), ("angr", there - here)):
            if only:
                print(f"    only {what}: {', '.join(f'{header:#x}' for header in sorted(only))}")
    graphs, whole = (statistics.median(found) for found in ratios.values())
    print(
        f"  graphs and loops, of the functions that reach CUDA: {graphs:.1f} times as fast as angr's of all functions (median)"
        f"   goal {FASTER}: {verdict(graphs >= FASTER)}"
    )
    print(f"  the whole analysis: {whole:.1f} times as fast as angr's graphs and loops (median)")


def main() -> None:
    groups = programs("--quick" in sys.argv)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; processor time")
    for group, all_ in groups.items():
        if all_:
            times(group, all_)
    start(next(iter(groups["tests/native"].values())))
    beside_angr({name: path for all_ in groups.values() for name, path in all_.items()})
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
