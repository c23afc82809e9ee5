"""Builds the shim into frontend/lib/: the core library with cargo, the thin libcudart and libcuda replacements with the C compiler.

Usage: python frontend/shim/build.py [--debug] [--stripped] [--target aarch64-unknown-linux-gnu] [--check]

Another target than this machine has a folder of its own, build/shim/aarch64. --check builds nothing: the exit status says whether
what it takes is there.
Libraries are replaced by renaming: a process that has the old ones loaded keeps them. Needs cargo and cc, no CUDA. The thin libraries
are generated assembly (thin/): they carry NVIDIA's SONAMEs and symbol versions and find the core beside themselves. The launcher
farlane-run is beside them. All of it runs with glibc 2.28 or newer (glibc_floor.py), the launcher with any C library. On AArch64 there is
no library that redirects statically linked runtimes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import cargo
import stripping
from cargo import BuildError

SHIM = Path(__file__).resolve().parent
LIBRARY_FOLDER = SHIM.parent / "lib"
OTHER_MACHINES = SHIM.parents[1] / "build/shim"
CORE = "libfarlane_core.so"
THIN = {"libcudart.so.12": "libcudart_12", "libcudart.so.13": "libcudart_13", "libcuda.so.1": "libcuda_1"}
REDIRECT = "libfarlane_redirect.so"
MANAGEMENT = "libnvidia-ml.so.1"
LAUNCHER = "farlane-run"


@dataclass(frozen=True)
class Build:
    """A build: for which kind of machine, with which profile of cargo's, into which folder; `stripped`: as packages have it."""

    target: cargo.Target
    profile: str
    folder: Path
    stripped: bool

    def run(self) -> None:
        self.target.require()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._core()
        if self._redirects:
            self._redirect()
        for soname in THIN:
            self._thin(soname)
        self._management()
        self._launcher()

    @property
    def _redirects(self) -> bool:
        return self.target.machine == "x86_64"

    def _core(self) -> None:
        """The core library."""
        floor = cargo.floor(own_stat=True, target=self.target)
        built = cargo.rustc("farlane_core", self.profile, *floor, target=self.target)
        self._install(built / CORE, CORE)

    def _redirect(self) -> None:
        """The library that redirects statically linked runtimes: no C library, because an auditor would bring a second copy of it."""
        options = ["-nostdlib", f"-Wl,-soname,{REDIRECT}", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-z,noexecstack"]
        arguments = [argument for option in options for argument in ("-C", f"link-arg={option}")]
        self._install(cargo.rustc("redirect", "redirect", *arguments, target=self.target) / REDIRECT, REDIRECT)

    def _management(self) -> None:
        """The management library: whole in itself, for it is used without CUDA."""
        built = cargo.rustc("nvml", self.profile, *cargo.floor(target=self.target), target=self.target)
        self._install(built / "libnvml.so", MANAGEMENT)

    def _launcher(self) -> None:
        """The launcher: a static program, which starts programs that are none."""
        static = ("-C", "target-feature=+crt-static")
        built = cargo.rustc("farlane-run", self.profile, *static, what=("--bins",), target=self.target)
        self._install(built / LAUNCHER, LAUNCHER)

    def _thin(self, soname: str) -> None:
        """A thin library: jumps into the core library, which must be there already."""
        source = SHIM / "thin" / f"generated_{THIN[soname]}.S"
        partial = self.folder / f".{soname}.link.{os.getpid()}"
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
        command = [self.target.compiler(), "-shared", "-nostdlib", cargo.NO_BUILD_ID, "-o", str(partial), str(source)]
        command += [f"-L{self.folder}", "-lfarlane_core", *(f"-Wl,{option}" for option in linker)]
        if self._redirects:
            # A thin library that is preloaded alone redirects statically linked runtimes as well. It uses no symbol of this one.
            command += ["-Wl,--no-as-needed", "-lfarlane_redirect"]
        try:
            cargo.run(command)
            self._install(partial, soname)
        finally:
            partial.unlink(missing_ok=True)

    def _install(self, built: Path, name: str) -> None:
        partial = self.folder / f".{name}.{os.getpid()}"
        if self.stripped:
            stripping.copy(built, partial, self.target.strip())
        else:
            shutil.copy2(built, partial)
        partial.replace(self.folder / name)


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds Farlane's shim into frontend/lib/.")
    parser.add_argument("--debug", action="store_true", help="unoptimized, with debugging symbols")
    parser.add_argument("--stripped", action="store_true", help="without what packages leave out of libraries")
    parser.add_argument("--check", action="store_true", help="say what is missing for a build, and build nothing")
    parser.add_argument("--target", choices=cargo.TARGETS, help="for another kind of machine, into a folder of its own")
    arguments = parser.parse_args()
    target = cargo.TARGETS.get(arguments.target, cargo.NATIVE)
    folder = LIBRARY_FOLDER if target is cargo.NATIVE else OTHER_MACHINES / target.machine
    try:
        if arguments.check:
            target.require()
        else:
            Build(target, "dev" if arguments.debug else "release", folder, arguments.stripped).run()
    except BuildError as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
