"""Assembles the guest's file system: programs, the shim, and the libraries that they load. Nothing else is in the image.

Run where Farlane is installed and a C and C++ compiler is; nvcc comes from PyPI.

    python docker/build_guest.py FOLDER
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from farlane.frontend import shim_library
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = {"heat": ROOT / "examples" / "heat.cu", "loops": ROOT / "benchmarks" / "roundtrips" / "cuda" / "loops.cu"}
SHIM = (shim_library.CORE, "libcudart.so.13")


def libraries(binary: Path) -> set[Path]:
    """What the loader loads for it, the loader included, but for the CUDA runtime, which is the shim's."""
    lines = subprocess.run(["ldd", str(binary)], check=True, capture_output=True, text=True).stdout
    found = {Path(path) for path in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", lines, re.MULTILINE)}
    return {path for path in found if "cudart" not in path.name and "farlane" not in path.name}


def main(target: Path) -> None:
    demo, shim = target / "demo", target / "farlane"
    for folder in (demo, shim, target / "tmp", target / "etc"):
        folder.mkdir(parents=True, exist_ok=True)
    toolchain = install("13.0")
    for name, source in PROGRAMS.items():
        shutil.copy(compile_program(toolchain, [source], name, Build(optimization=3)), demo / name)
    for name in SHIM:
        shutil.copy(shim_library.FOLDER / name, shim / name)
    compare = ROOT / "docker" / "compare.c"
    subprocess.run(["cc", "-O2", "-Wall", "-static", "-o", str(demo / "compare"), str(compare)], check=True)
    for path in {path for name in PROGRAMS for path in libraries(demo / name)} | libraries(shim / shim_library.CORE):
        copy = target / path.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    for path in sorted(path for path in target.rglob("*") if path.is_file()):
        print(f"{path.stat().st_size:>10,}  /{path.relative_to(target)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
