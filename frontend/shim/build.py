"""Builds the shim into frontend/lib/: the core library with cargo, the thin libcudart and libcuda replacements with the C compiler.

Usage: python frontend/shim/build.py [--debug]

Libraries are replaced by renaming: a process that has the old ones loaded keeps them. Needs cargo and cc, no CUDA. The thin libraries
are generated assembly (thin/): they carry NVIDIA's SONAMEs and symbol versions and find the core beside themselves. The launcher
farlane-run is beside them. On x86-64 all of it runs with glibc 2.28 or newer (glibc_floor.py), the launcher with any C library.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from pathlib import Path

import cargo
from cargo import BuildError

SHIM = Path(__file__).resolve().parent
LIBRARY_FOLDER = SHIM.parent / "lib"
CORE = "libfarlane_core.so"
THIN = {"libcudart.so.12": "libcudart_12", "libcudart.so.13": "libcudart_13", "libcuda.so.1": "libcuda_1"}
REDIRECT = "libfarlane_redirect.so"
MANAGEMENT = "libnvidia-ml.so.1"
LAUNCHER = "farlane-run"


def _install(built: Path, name: str) -> None:
    partial = LIBRARY_FOLDER / f".{name}.{os.getpid()}"
    shutil.copy2(built, partial)
    partial.replace(LIBRARY_FOLDER / name)


def build_core(profile: str) -> None:
    """The core library."""
    cargo.tool("CARGO", "cargo", cargo.NO_CARGO)  # the message for who has neither it nor a C compiler
    built = cargo.rustc("farlane_core", profile, *cargo.floor(own_stat=True))
    _install(built / CORE, CORE)


def build_redirect() -> None:
    """The library that redirects statically linked runtimes: no C library, because an auditor would bring a second copy of it."""
    options = ["-nostdlib", f"-Wl,-soname,{REDIRECT}", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-z,noexecstack"]
    arguments = [argument for option in options for argument in ("-C", f"link-arg={option}")]
    _install(cargo.rustc("redirect", "redirect", *arguments) / REDIRECT, REDIRECT)


def build_management(profile: str) -> None:
    """The management library: whole in itself, for it is used without CUDA."""
    built = cargo.rustc("nvml", profile, *cargo.floor())
    _install(built / "libnvml.so", MANAGEMENT)


def build_launcher(profile: str) -> None:
    """The launcher: a static program, which starts programs that are none."""
    built = cargo.rustc("farlane-run", profile, "-C", "target-feature=+crt-static", what=("--bins",))
    _install(built / LAUNCHER, LAUNCHER)


def build_thin(soname: str) -> None:
    """A thin library: jumps into the core library, which must be there already."""
    compiler = cargo.compiler()
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
    command = [compiler, "-shared", "-nostdlib", cargo.NO_BUILD_ID, "-o", str(partial), str(source)]
    command += [f"-L{LIBRARY_FOLDER}", "-lfarlane_core", *(f"-Wl,{option}" for option in linker)]
    if platform.machine() == "x86_64":
        # A thin library that is preloaded alone redirects statically linked runtimes as well. It uses no symbol of this one.
        command += ["-Wl,--no-as-needed", "-lfarlane_redirect"]
    try:
        cargo.run(command)
        partial.replace(LIBRARY_FOLDER / soname)
    finally:
        partial.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds Farlane's shim into frontend/lib/.")
    parser.add_argument("--debug", action="store_true", help="unoptimized, with debugging symbols")
    arguments = parser.parse_args()
    profile = "dev" if arguments.debug else "release"
    LIBRARY_FOLDER.mkdir(exist_ok=True)
    try:
        build_core(profile)
        if platform.machine() == "x86_64":  # elsewhere nothing is redirected
            build_redirect()
        for soname in THIN:
            build_thin(soname)
        build_management(profile)
        build_launcher(profile)
    except BuildError as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
