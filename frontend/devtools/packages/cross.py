"""The shim for AArch64, built on another kind of machine from the sdist, stripped as in a wheel.

Needs a cross compiler (Debian's gcc-aarch64-linux-gnu and libc6-dev-arm64-cross) and Rust's standard library for the target (rustup).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from farlane.frontend.devtools.packages import ROOT, TIME, run, wheels
from farlane.frontend.devtools.toolchain import locked

TARGET = "aarch64-unknown-linux-gnu"
FOLDER = "build/shim/aarch64"  # of frontend/shim/build.py


class Unavailable(Exception):
    """The shim cannot be built here; the message says what is missing and how to get it."""


def require() -> None:
    """Raises Unavailable where something is missing that the build takes."""
    command = [sys.executable, str(ROOT / "frontend/shim/build.py"), "--target", TARGET, "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(done.stderr.strip().removeprefix("build.py: "))


def build(
    sdist: Path, source: Path = wheels.SOURCE, cargo_target: Path = ROOT / "frontend/shim/target"
) -> Mapping[str, bytes]:
    """The libraries and the launcher, by name. The same files give the same bytes. The folders are those of `wheels.build_wheel`.

    Raises:
        Unavailable: as of `require`.
    """
    require()
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(TIME), "CARGO_TARGET_DIR": str(cargo_target)}
    with locked(source.with_suffix(".lock")):
        tree = wheels.unpack(sdist, source)
        run([sys.executable, str(tree / "frontend/shim/build.py"), "--target", TARGET, "--stripped"], environment)
        return {path.name: path.read_bytes() for path in sorted((tree / FOLDER).iterdir())}
