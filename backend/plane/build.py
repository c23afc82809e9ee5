"""Builds the host's data plane, a Rust extension for Python's stable ABI, into this folder.

Usage: python backend/plane/build.py [--debug]

The library is replaced by renaming: a process that has the old one loaded keeps it. Needs cargo and cc. On x86-64 it runs with
glibc 2.28 or newer (frontend/shim/glibc_floor.py).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

PLANE = Path(__file__).resolve().parent
WORKSPACE = PLANE.parents[1] / "frontend" / "shim"
LIBRARY = "farlane_plane.abi3.so"

sys.path.insert(0, str(WORKSPACE))
import glibc_floor  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds Farlane's data plane into backend/plane/.")
    parser.add_argument("--debug", action="store_true", help="unoptimized, with debugging symbols")
    arguments = parser.parse_args()
    cargo = shutil.which(os.environ.get("CARGO", "cargo"))
    if cargo is None:
        print("build.py: cargo was not found: install Rust 1.88 or newer (https://rustup.rs)", file=sys.stderr)
        return 1
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        print("build.py: cc was not found: install a C compiler (gcc or clang)", file=sys.stderr)
        return 1
    target = WORKSPACE / os.environ.get("CARGO_TARGET_DIR", "target")
    command = [cargo, "rustc", "--locked", "--quiet", "--package", "plane_binding", "--target-dir", str(target)]
    command += ["--profile", "dev" if arguments.debug else "release", "--crate-type", "cdylib", "--"]
    try:
        command += glibc_floor.rustc_arguments(compiler, target / "glibc_floor")
    except subprocess.CalledProcessError as error:
        print(f"build.py: this command failed (its messages are above): {' '.join(error.cmd)}", file=sys.stderr)
        return 1
    if subprocess.run(command, cwd=WORKSPACE, check=False).returncode != 0:
        print(f"build.py: this command failed (its messages are above): {' '.join(command)}", file=sys.stderr)
        return 1
    built = target / ("debug" if arguments.debug else "release") / "libfarlane_plane.so"
    partial = PLANE / f".{LIBRARY}.{os.getpid()}"
    shutil.copy2(built, partial)
    partial.replace(PLANE / LIBRARY)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
