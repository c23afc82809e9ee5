"""Traces of real programs: what their launches and copies access, recorded by the simulated device (`farlane run --memory-trace`).

Owns the list of programs. They come from tests/native and tests/e2e; each is run once, on the embedded host. A step's objects are what its kernels really
touched, pointers in memory included.

    python benchmarks/memory/recorded.py FOLDER        # writes the traces there, for `farlane plan` and planner.py --traces
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from farlane.backend.memory.planner.trace import Trace
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

TESTS = Path(__file__).resolve().parents[2] / "tests"
TOOLCHAIN = "13.0"
NATIVE = ("cg", "bfs", "scan", "stencil2d", "nbody")
REUSE = ("layers 6", "mixing 6", "pointers 4", "layers 3", "mixing 3", "pointers 2")


def commands() -> dict[str, list[str]]:
    """Name -> the command line of each program, compiled."""
    toolchain = install(TOOLCHAIN)
    entries = {entry.name: entry for entry in registry.load(TESTS / "native" / "registry.toml")}
    found = {name: entries[name].compiled(toolchain, Build(architecture="sm_75")) for name in NATIVE if name in entries}
    reuse = compile_program(toolchain, [TESTS / "e2e" / "calls" / "programs" / "reuse.cu"], "reuse", Build())
    return found | {words.replace(" ", "-"): [str(reuse), *words.split()] for words in REUSE}


def record(command: list[str], path: Path) -> Trace:
    """Runs a program and reads its trace, which is left at `path`. Raises RuntimeError when the program fails."""
    run = [sys.executable, "-m", "farlane.frontend.cli", "run", "--no-manifest", "--memory-trace", str(path), "--"]
    done = subprocess.run([*run, *command], capture_output=True, text=True, check=False)
    if done.returncode or not path.exists():
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return Trace.from_json(json.loads(path.read_text()))


def traces(folder: Path) -> dict[str, Trace]:
    return {name: record(command, folder / f"{name}.json") for name, command in commands().items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, trace in traces(folder).items():
            print(f"{name:12} {len(trace.sizes):3} objects, {trace.footprint:>11,} bytes, {len(trace.steps):6} steps")


if __name__ == "__main__":
    main()
