"""The Debian package farlane-guest, from the wheel's libraries.

It holds the shim in /usr/lib/farlane, /usr/bin/farlane-run and its manual page: what a guest needs besides a C library. Nothing changes for programs that are
started without the launcher: the loader's configuration is an example in /usr/share/doc. Needs dpkg-deb.
"""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

from farlane.frontend import shim_library
from farlane.frontend.devtools import manual
from farlane.frontend.devtools.packages import debian_package, sbom, version
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
    recipe = Recipe(
        name=NAME,
        version=version(),
        depends="libc6 (>= 2.28), libgcc-s1 | libgcc1",
        section="utils",
        description=DESCRIPTION,
        news="The shim and its launcher.",
        overrides=OVERRIDES,
    )
    return debian_package.build(recipe, lambda tree: _fill(tree, wheel), target)


def _fill(tree: Path, wheel: Path) -> None:
    libraries, programs = tree / LIBRARY_FOLDER, tree / "usr/bin"
    libraries.mkdir(parents=True)
    programs.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            file = name.removeprefix(IN_WHEEL)
            if file == shim_library.LAUNCHER:
                (programs / file).write_bytes(archive.read(name))
                (programs / file).chmod(0o755)
            elif name.startswith(IN_WHEEL):
                (libraries / file).write_bytes(archive.read(name))
    said = subprocess.run(
        [programs / shim_library.LAUNCHER, "--help"], check=True, capture_output=True, text=True
    ).stdout
    debian_package.write_page(tree, f"{shim_library.LAUNCHER}.1", manual.launcher_page(said))
    documents = tree / "usr/share/doc" / NAME
    debian_package.write(documents / "examples/farlane.conf", LOADER_EXAMPLE)
    debian_package.write(documents / "sbom.cdx.json", sbom.document(NAME, sbom.crates()))
