"""How the native parts are built: cargo with the versions of Cargo.lock, a C compiler, glibc 2.28 (glibc_floor.py).

For this machine, or for AArch64 with a cross compiler and Rust's standard library for it (`Target`).

A release build has no folder of this machine in it: where the sources, cargo's registry and what it has built lie is cut off the
paths that the compiler writes into a library (a panic's place). Nor do the names that cargo gives to a crate's symbols follow from it, as
long as all crates are below the workspace's file (Cargo.toml, at the top). So the same sources give the same bytes elsewhere. Shared by
the shim's build.py and the plane's (backend/plane/build.py).
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import glibc_floor

SHIM = Path(__file__).resolve().parent
NO_CARGO = "install Rust 1.88 or newer (https://rustup.rs), or your distribution's cargo"
NO_COMPILER = "install a C compiler (gcc or clang)"
NO_CROSS_COMPILER = "install a cross compiler (Debian's gcc-aarch64-linux-gnu and libc6-dev-arm64-cross)"
NO_STANDARD_LIBRARY = (
    "Rust has no standard library for {triple} here: rustup target add {triple}, or, with Debian's own Rust of 1.88 or newer, "
    "dpkg --add-architecture arm64 and apt-get install libstd-rust-dev:arm64"
)
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


@dataclass(frozen=True)
class Target:
    """What is built for: a kind of processor, with glibc. `triple` is Rust's name, None for this machine itself."""

    machine: str
    triple: str | None = None

    @property
    def variable(self) -> str:
        """How the triple stands in names of variables of cargo's and of the crates that compile C."""
        return (self.triple or "").replace("-", "_")

    def compiler(self) -> str:
        """The C compiler."""
        return self._tool("CC", "cc", "gcc", NO_COMPILER)

    def strip(self) -> str:
        """The program that takes symbols out of what was built."""
        return self._tool("STRIP", "strip", "strip", "install binutils")

    def _tool(self, variable: str, native: str, cross: str, hint: str) -> str:
        if self.triple is None:
            return tool(variable, native, hint)
        name = f"{self.machine}-linux-gnu-{cross}"
        return tool(f"{variable}_{self.variable}", name, NO_CROSS_COMPILER)

    def require(self) -> None:
        """Raises BuildError where something is missing that the target needs."""
        cargo = tool("CARGO", "cargo", NO_CARGO)  # the message for who has neither it nor a C compiler
        self.compiler()
        if self.triple is not None:
            rustc = tool("RUSTC", str(Path(cargo).with_name("rustc")), NO_CARGO)
            asked = [rustc, "--print", "target-libdir", "--target", self.triple]
            said = subprocess.run(asked, capture_output=True, text=True, check=False)
            if not (said.returncode == 0 and any(Path(said.stdout.strip()).glob("libstd-*.rlib"))):
                raise BuildError(NO_STANDARD_LIBRARY.format(triple=self.triple))


NATIVE = Target(platform.machine())
AARCH64 = Target("aarch64", "aarch64-unknown-linux-gnu")
TARGETS = {AARCH64.triple: AARCH64}


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """In the shim's folder: cargo finds the workspace above it."""
    if subprocess.run(command, cwd=SHIM, check=False, env=environment).returncode != 0:
        raise BuildError(f"this command failed (its messages are above): {' '.join(command)}")


def built() -> Path:
    """The folder of what cargo has built."""
    return SHIM / os.environ.get("CARGO_TARGET_DIR", "target")


def rustc(
    package: str,
    profile: str,
    *options: str,
    what: Sequence[str] = ("--crate-type", "cdylib"),
    target: Target = NATIVE,
) -> Path:
    """Builds one package, and returns the folder of what was built.

    Args:
        options: of the compiler, for the package itself.
        what: of the package's targets is built.
    """
    if profile != "dev":
        options = (*options, "-C", f"link-arg={NO_BUILD_ID}")
    command = [tool("CARGO", "cargo", NO_CARGO), "rustc", "--locked", "--quiet", "--package", package]
    command += ["--target-dir", str(built()), *(["--target", target.triple] if target.triple else [])]
    command += [*what, "--profile", profile, "--", *options]
    run(command, _environment(profile, target))
    return built() / (target.triple or "") / {"dev": "debug"}.get(profile, profile)


def floor(*, own_stat: bool = False, target: Target = NATIVE) -> list[str]:
    """What rustc gets so that a library runs with glibc 2.28."""
    folder = built() / (target.triple or "") / "glibc_floor"
    try:
        return glibc_floor.rustc_arguments(target.compiler(), folder, target.machine, own_stat)
    except subprocess.CalledProcessError as error:
        raise BuildError(f"this command failed (its messages are above): {' '.join(error.cmd)}") from error


def _environment(profile: str, target: Target) -> dict[str, str]:
    """With the flags that all crates are compiled with, besides the user's. A debugging build keeps its paths."""
    variables = dict(os.environ)
    if target.triple is not None:
        variables[f"CC_{target.variable}"] = target.compiler()
        variables[f"CARGO_TARGET_{target.variable.upper()}_LINKER"] = target.compiler()
    if profile == "dev":
        return variables
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    # Of several that match the last one counts.
    places = {SHIM.parents[1]: "", built(): "target", home / "registry/src": "crates"}
    users = os.environ.get("CARGO_ENCODED_RUSTFLAGS", "").split(SEPARATOR)
    if "CARGO_ENCODED_RUSTFLAGS" not in os.environ:
        users = os.environ.get("RUSTFLAGS", "").split()
    flags = [*users, *(f"--remap-path-prefix={place}={name}" for place, name in places.items())]
    return variables | {"CARGO_ENCODED_RUSTFLAGS": SEPARATOR.join(flag for flag in flags if flag)}
