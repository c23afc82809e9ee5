"""Builds the shim into frontend/lib/: the core library with cargo, the thin libcudart and libcuda replacements with the C compiler.

Usage: python frontend/shim/build.py [--debug]

Libraries are replaced by renaming: a process that has the old ones loaded keeps them. Needs cargo and cc, no CUDA. The thin libraries
are generated assembly (thin/): they carry NVIDIA's SONAMEs and symbol versions and find the core beside themselves.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

SHIM = Path(__file__).resolve().parent
LIBRARY_FOLDER = SHIM.parent / "lib"
CORE = "libfarlane_core.so"
THIN = {"libcudart.so.12": "libcudart_12", "libcudart.so.13": "libcudart_13", "libcuda.so.1": "libcuda_1"}
REDIRECT = "libfarlane_redirect.so"
MANAGEMENT = "libnvidia-ml.so.1"


class BuildError(Exception):
    """Something is missing or failed; the message says what to do."""


def _tool(environment: str, name: str, hint: str) -> str:
    wanted = os.environ.get(environment, name)
    found = shutil.which(wanted)
    if found is None:
        raise BuildError(f"{wanted} was not found: {hint}")
    return found


def _run(command: list[str]) -> None:
    if subprocess.run(command, cwd=SHIM, check=False).returncode != 0:
        raise BuildError(f"this command failed (its messages are above): {' '.join(command)}")


def _install(built: Path, name: str) -> None:
    partial = LIBRARY_FOLDER / f".{name}.{os.getpid()}"
    shutil.copy2(built, partial)
    partial.replace(LIBRARY_FOLDER / name)


def build_core(*, debug: bool) -> None:
    """The core library, by cargo, with the versions of Cargo.lock."""
    cargo = _tool("CARGO", "cargo", "install Rust 1.88 or newer (https://rustup.rs), or your distribution's cargo")
    profile = "debug" if debug else "release"
    target = SHIM / os.environ.get("CARGO_TARGET_DIR", "target")
    command = [cargo, "build", "--locked", "--quiet", "--package", "farlane_core", "--target-dir", str(target)]
    _run(command if debug else [*command, "--release"])
    _install(target / profile / CORE, CORE)


def build_redirect() -> None:
    """The library that redirects statically linked runtimes: no C library, because an auditor would bring a second copy of it."""
    cargo = _tool("CARGO", "cargo", "install Rust 1.88 or newer (https://rustup.rs), or your distribution's cargo")
    target = SHIM / os.environ.get("CARGO_TARGET_DIR", "target")
    options = ["-nostdlib", f"-Wl,-soname,{REDIRECT}", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-z,noexecstack"]
    command = [cargo, "rustc", "--locked", "--quiet", "--package", "redirect", "--target-dir", str(target)]
    command += ["--profile", "redirect", "--crate-type", "cdylib", "--"]
    _run([*command, *(argument for option in options for argument in ("-C", f"link-arg={option}"))])
    _install(target / "redirect" / REDIRECT, REDIRECT)


def build_management(*, debug: bool) -> None:
    """The management library: whole in itself, for it is used without CUDA."""
    cargo = _tool("CARGO", "cargo", "install Rust 1.88 or newer (https://rustup.rs), or your distribution's cargo")
    target = SHIM / os.environ.get("CARGO_TARGET_DIR", "target")
    command = [cargo, "rustc", "--locked", "--quiet", "--package", "nvml", "--target-dir", str(target)]
    command += ["--profile", "dev" if debug else "release", "--crate-type", "cdylib", "--"]
    _run([*command, "-C", f"link-arg=-Wl,-soname,{MANAGEMENT}"])
    _install(target / ("debug" if debug else "release") / "libnvml.so", MANAGEMENT)


def build_thin(soname: str) -> None:
    """A thin library: jumps into the core library, which must be there already."""
    compiler = _tool("CC", "cc", "install a C compiler (gcc or clang)")
    source = SHIM / "thin" / f"generated_{THIN[soname]}.S"
    partial = LIBRARY_FOLDER / f".{soname}.link.{os.getpid()}"
    linker = [
        f"-soname,{soname}",
        f"--version-script,{source.with_suffix('.map')}",
        "-rpath,$ORIGIN",
        "--no-undefined",
        "-z,relro",
        "-z,now",
        "-z,nodelete",
        "-z,noexecstack",
    ]
    command = [compiler, "-shared", "-nostdlib", "-o", str(partial), str(source)]
    command += [f"-L{LIBRARY_FOLDER}", "-lfarlane_core", *(f"-Wl,{option}" for option in linker)]
    if platform.machine() == "x86_64":
        # A thin library that is preloaded alone redirects statically linked runtimes as well. It uses no symbol of this one.
        command += ["-Wl,--no-as-needed", "-lfarlane_redirect"]
    try:
        _run(command)
        partial.replace(LIBRARY_FOLDER / soname)
    finally:
        partial.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds Farlane's shim into frontend/lib/.")
    parser.add_argument("--debug", action="store_true", help="unoptimized, with debugging symbols")
    arguments = parser.parse_args()
    LIBRARY_FOLDER.mkdir(exist_ok=True)
    try:
        build_core(debug=arguments.debug)
        if platform.machine() == "x86_64":  # elsewhere nothing is redirected
            build_redirect()
        for soname in THIN:
            build_thin(soname)
        build_management(debug=arguments.debug)
    except BuildError as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
