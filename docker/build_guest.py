"""Assembles the guest's file system in two steps, so that a change in the shim compiles no program:

    python docker/build_guest.py programs FOLDER     compiles the programs (nvcc comes from PyPI)
    python docker/build_guest.py libraries FOLDER    adds what the programs, and the shim copied beside them, load

Run in the Dockerfile, where farlane.frontend.devtools is on PYTHONPATH and a C and C++ compiler is. Nothing else is in the image.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = {"heat": ROOT / "examples" / "heat.cu", "loops": ROOT / "benchmarks" / "roundtrips" / "cuda" / "loops.cu"}


def programs(target: Path) -> None:
    """/demo: the CUDA programs, and the static one that runs them."""
    demo = target / "demo"
    for folder in (demo, target / "tmp", target / "etc"):
        folder.mkdir(parents=True, exist_ok=True)
    toolchain = install("13.0")
    for name, source in PROGRAMS.items():
        shutil.copy(compile_program(toolchain, [source], name, Build(optimization=3)), demo / name)
    compare = ROOT / "docker" / "compare.c"
    subprocess.run(["cc", "-O2", "-Wall", "-static", "-s", "-o", str(demo / "compare"), str(compare)], check=True)


def loaded(binary: Path) -> set[Path]:
    """What the loader loads for it, the loader included, but for the CUDA runtime, which is the shim's."""
    lines = subprocess.run(["ldd", str(binary)], check=True, capture_output=True, text=True).stdout
    found = {Path(path) for path in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", lines, re.MULTILINE)}
    return {path for path in found if "cudart" not in path.name and "farlane" not in path.name}


def libraries(target: Path) -> None:
    """The C and C++ libraries, at the paths where the loader looks for them."""
    binaries = [*(target / "demo" / name for name in PROGRAMS), *(target / "farlane").iterdir()]
    for path in {path for binary in binaries for path in loaded(binary)}:
        copy = target / path.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    for path in sorted(path for path in target.rglob("*") if path.is_file()):
        print(f"{path.stat().st_size:>10,}  /{path.relative_to(target)}")


if __name__ == "__main__":
    {"programs": programs, "libraries": libraries}[sys.argv[1]](Path(sys.argv[2]))
