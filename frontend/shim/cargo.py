"""How the native parts are built: cargo with the versions of Cargo.lock, this machine's C compiler, glibc 2.28 (glibc_floor.py).

A release build has no folder of this machine in it: where the sources, cargo's registry and what it has built lie is cut off the
paths that the compiler writes into a library (a panic's place). Nor do the names that cargo gives to a crate's symbols follow from it, as
long as all crates are below the workspace's file (Cargo.toml, at the top). So the same sources give the same bytes elsewhere. Shared by
the shim's build.py and the plane's (backend/plane/build.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import glibc_floor

SHIM = Path(__file__).resolve().parent
NO_CARGO = "install Rust 1.88 or newer (https://rustup.rs), or your distribution's cargo"
NO_COMPILER = "install a C compiler (gcc or clang)"
# The number of a build follows from its folder. Taken out of a library later, it takes the mark of read-only data (RELRO) with it.
NO_BUILD_ID = "-Wl,--build-id=none"
SEPARATOR = "\x1f"  # of CARGO_ENCODED_RUSTFLAGS


class BuildError(Exception):
    """Something is missing or failed; the message says what to do."""


def tool(environment: str, name: str, hint: str) -> str:
    """The path of a program, which a variable of the environment may name."""
    wanted = os.environ.get(environment, name)
    found = shutil.which(wanted)
    if found is None:
        raise BuildError(f"{wanted} was not found: {hint}")
    return found


def compiler() -> str:
    """The C compiler."""
    return tool("CC", "cc", NO_COMPILER)


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """In the shim's folder: cargo finds the workspace above it."""
    if subprocess.run(command, cwd=SHIM, check=False, env=environment).returncode != 0:
        raise BuildError(f"this command failed (its messages are above): {' '.join(command)}")


def target() -> Path:
    """The folder of what cargo has built."""
    return SHIM / os.environ.get("CARGO_TARGET_DIR", "target")


def rustc(package: str, profile: str, *options: str, what: Sequence[str] = ("--crate-type", "cdylib")) -> Path:
    """Builds one package, and returns the folder of what was built.

    Args:
        options: of the compiler, for the package itself.
        what: of the package's targets is built.
    """
    if profile != "dev":
        options = (*options, "-C", f"link-arg={NO_BUILD_ID}")
    command = [tool("CARGO", "cargo", NO_CARGO), "rustc", "--locked", "--quiet", "--package", package]
    command += ["--target-dir", str(target()), *what, "--profile", profile, "--", *options]
    run(command, _environment(profile))
    return target() / {"dev": "debug"}.get(profile, profile)


def floor(*, own_stat: bool = False) -> list[str]:
    """What rustc gets so that a library runs with glibc 2.28."""
    try:
        return glibc_floor.rustc_arguments(compiler(), target() / "glibc_floor", own_stat)
    except subprocess.CalledProcessError as error:
        raise BuildError(f"this command failed (its messages are above): {' '.join(error.cmd)}") from error


def _environment(profile: str) -> dict[str, str]:
    """With the flags that all crates are compiled with, besides the user's. A debugging build keeps its paths."""
    if profile == "dev":
        return dict(os.environ)
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    # Of several that match the last one counts.
    places = {SHIM.parents[1]: "", target(): "target", home / "registry/src": "crates"}
    users = os.environ.get("CARGO_ENCODED_RUSTFLAGS", "").split(SEPARATOR)
    if "CARGO_ENCODED_RUSTFLAGS" not in os.environ:
        users = os.environ.get("RUSTFLAGS", "").split()
    flags = [*users, *(f"--remap-path-prefix={place}={name}" for place, name in places.items())]
    return os.environ | {"CARGO_ENCODED_RUSTFLAGS": SEPARATOR.join(flag for flag in flags if flag)}
