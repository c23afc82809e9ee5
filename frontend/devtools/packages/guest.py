"""The Debian package farlane-guest, from the wheel's libraries; for AArch64 (arm64) from those that cross.py builds.

It holds the shim in /usr/lib/farlane, /usr/bin/farlane-run and its manual page: what a guest needs besides a C library. Nothing changes for programs that are
started without the launcher: the loader's configuration is an example in /usr/share/doc. Needs dpkg-deb.
"""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from farlane.frontend import shim_library
from farlane.frontend.devtools import manual
from farlane.frontend.devtools.packages import cross, debian_package, sbom, version
from farlane.frontend.devtools.packages.debian_package import Recipe

NAME = "farlane-guest"
LIBRARY_FOLDER = "usr/lib/farlane"
IN_WHEEL = "farlane/frontend/lib/"
DESCRIPTION = """\
CUDA programs without a GPU, on a Farlane host: the guest's part
 The preloaded libraries stand in for NVIDIA's CUDA runtime, driver and
 management libraries. They send a program's calls to a Farlane host,
 which runs them on a simulated or a real GPU.
 .
 The launcher farlane-run starts programs with them. Programs that are
 started in another way are left alone.
"""
LOADER_EXAMPLE = """\
# Copied to /etc/ld.so.conf.d and followed by `ldconfig`, this file makes the loader find Farlane's libcudart, libcuda and
# libnvidia-ml for all programs. Their host is then FARLANE_HOST. Not for machines that have NVIDIA's driver.
/usr/lib/farlane
"""
OVERRIDES = """\
# It must run with any C library.
farlane-guest: statically-linked-binary [usr/bin/farlane-run]
# The thin libraries find the core beside themselves.
farlane-guest: custom-library-search-path
# Jumps and tables alone, or no C library by design.
farlane-guest: shared-library-lacks-prerequisites
farlane-guest: library-not-linked-against-libc
farlane-guest: hardening-no-fortify-functions
# There is no bug number: the package is not in Debian.
farlane-guest: initial-upload-closes-no-bugs
"""


def build(wheel: Path, target: Path) -> Path:
    """Writes the package into a folder, and returns its path."""
    return _build(_of_wheel(wheel), launchers_help(wheel), "amd64", sbom.TARGET, target)


def build_arm64(sdist: Path, said: str, target: Path) -> Path:
    """Writes the package for AArch64 into a folder, and returns its path.

    Args:
        said: what a launcher that runs here prints for `--help` (`launchers_help`).

    Raises:
        Unavailable: a cross compiler or Rust's standard library for AArch64 is missing.
    """
    return _build(cross.build(sdist), said, "arm64", cross.TARGET, target)


def _build(files: Mapping[str, bytes], said: str, architecture: str, triple: str, target: Path) -> Path:
    recipe = Recipe(
        name=NAME,
        version=version(),
        depends="libc6 (>= 2.28), libgcc-s1 | libgcc1",
        section="utils",
        description=DESCRIPTION,
        news="The shim and its launcher.",
        overrides=OVERRIDES,
        architecture=architecture,
    )
    return debian_package.build(recipe, lambda tree: _fill(tree, files, said, triple), target)


def _of_wheel(wheel: Path) -> Mapping[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        names = (name for name in archive.namelist() if name.startswith(IN_WHEEL))
        return {name.removeprefix(IN_WHEEL): archive.read(name) for name in names}


def launchers_help(wheel: Path) -> str:
    """What the wheel's launcher prints for `--help`."""
    with tempfile.TemporaryDirectory(prefix="farlane-launcher-") as folder:
        launcher = Path(folder) / shim_library.LAUNCHER
        launcher.write_bytes(_of_wheel(wheel)[launcher.name])
        launcher.chmod(0o755)
        return subprocess.run([launcher, "--help"], check=True, capture_output=True, text=True).stdout


def _fill(tree: Path, files: Mapping[str, bytes], said: str, triple: str) -> None:
    libraries, programs = tree / LIBRARY_FOLDER, tree / "usr/bin"
    libraries.mkdir(parents=True)
    programs.mkdir()
    for name, content in files.items():
        (libraries / name).write_bytes(content)
    launcher = (libraries / shim_library.LAUNCHER).rename(programs / shim_library.LAUNCHER)
    launcher.chmod(0o755)
    debian_package.write_page(tree, f"{shim_library.LAUNCHER}.1", manual.launcher_page(said))
    documents = tree / "usr/share/doc" / NAME
    debian_package.write(documents / "examples/farlane.conf", LOADER_EXAMPLE)
    debian_package.write(documents / "sbom.cdx.json", sbom.document(NAME, sbom.crates(triple)))
