"""`make guest-package`: the Debian package farlane-guest, from the shim that is built (frontend/lib).

Usage: python frontend/devtools/guest_package.py FOLDER    (writes FOLDER/farlane-guest_VERSION_amd64.deb)

It holds the shim in /usr/lib/farlane, /usr/bin/farlane-run and its manual page: what a guest needs besides a C library. Nothing changes for programs that are
started without the launcher: the loader's configuration is an example in /usr/share/doc. The same shim gives the same bytes. Needs dpkg-deb
and strip.
"""

from __future__ import annotations

import gzip
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from farlane.frontend import shim_library
from farlane.frontend.devtools import manual

ROOT = Path(__file__).resolve().parents[2]
NAME = "farlane-guest"
LIBRARY_FOLDER = "usr/lib/farlane"
TIME = 1767225600  # of all files: 2026-01-01, so that it says nothing of when and where it was built
CONTROL = """\
Package: {name}
Version: {version}
Architecture: amd64
Maintainer: The Farlane developers <maintainers@farlane.invalid>
Installed-Size: {kilobytes}
Depends: libc6 (>= 2.28), libgcc-s1 | libgcc1
Section: utils
Priority: optional
Description: CUDA programs without a GPU, on a Farlane host: the guest's part
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


def build(target: Path) -> Path:
    """Writes the package into a folder, and returns its path."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    package = target / f"{NAME}_{version}_amd64.deb"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="farlane-package-") as folder:
        tree = Path(folder) / "tree"
        _libraries(tree)
        _documents(tree, version)
        kilobytes = sum(-(-path.stat().st_size // 1024) for path in tree.rglob("*") if path.is_file())
        _write(tree / "DEBIAN/control", CONTROL.format(name=NAME, version=version, kilobytes=kilobytes))
        for path in (tree, *tree.rglob("*")):
            path.chmod(0o755 if path.is_dir() or path.name == shim_library.LAUNCHER else 0o644)
            os.utime(path, (TIME, TIME))
        partial = package.with_suffix(".new")
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(TIME)}
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(partial)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        partial.replace(package)
    return package


def _libraries(tree: Path) -> None:
    shim_library.require_built()
    for library in sorted(shim_library.FOLDER.glob("*.so*")):
        _stripped(library, tree / LIBRARY_FOLDER / library.name)
    _stripped(shim_library.FOLDER / shim_library.LAUNCHER, tree / "usr/bin" / shim_library.LAUNCHER)


def _stripped(source: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, copy)
    subprocess.run(["strip", "--strip-unneeded", "--remove-section=.comment", str(copy)], check=True)


def _documents(tree: Path, version: str) -> None:
    documents = tree / "usr/share/doc" / NAME
    entry = f"{NAME} ({version}) unstable; urgency=medium\n\n  * The shim and its launcher.\n\n"
    signed = " -- The Farlane developers <maintainers@farlane.invalid>  Thu, 01 Jan 2026 00:00:00 +0000\n"
    documents.mkdir(parents=True)
    (documents / "changelog.gz").write_bytes(gzip.compress((entry + signed).encode(), mtime=0))
    _write(
        documents / "copyright",
        "Copyright 2026 the Farlane developers\n\nFarlane is licensed under the Apache License, version 2.0:\n/usr/share/common-licenses/Apache-2.0\n",
    )
    _write(documents / "examples/farlane.conf", LOADER_EXAMPLE)
    page = tree / "usr/share/man/man1" / f"{shim_library.LAUNCHER}.1.gz"
    page.parent.mkdir(parents=True)
    launcher = [str(shim_library.FOLDER / shim_library.LAUNCHER), "--help"]
    said = subprocess.run(launcher, check=True, capture_output=True, text=True).stdout
    page.write_bytes(gzip.compress(manual.launcher_page(said).encode(), mtime=0))
    _write(tree / "usr/share/lintian/overrides" / NAME, OVERRIDES)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main() -> int:
    if len(sys.argv) != 2 or platform.machine() != "x86_64":
        print("usage: guest_package.py FOLDER, on x86-64", file=sys.stderr)
        return 2
    package = build(Path(sys.argv[1]))
    print(f"{package}  {package.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
