"""Builds the host's data plane, a Rust extension for Python's stable ABI, into this folder.

Usage: python backend/plane/build.py [--debug]

The library is replaced by renaming: a process that has the old one loaded keeps it. Needs cargo and cc. On x86-64 it runs with
glibc 2.28 or newer (frontend/shim/glibc_floor.py).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

PLANE = Path(__file__).resolve().parent
LIBRARY = "farlane_plane.abi3.so"

sys.path.insert(0, str(PLANE.parents[1] / "frontend" / "shim"))
import cargo  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds Farlane's data plane into backend/plane/.")
    parser.add_argument("--debug", action="store_true", help="unoptimized, with debugging symbols")
    arguments = parser.parse_args()
    try:
        cargo.NATIVE.require()
        built = cargo.rustc("plane_binding", "dev" if arguments.debug else "release", *cargo.floor())
    except cargo.BuildError as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    partial = PLANE / f".{LIBRARY}.{os.getpid()}"
    shutil.copy2(built / "libfarlane_plane.so", partial)
    partial.replace(PLANE / LIBRARY)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
