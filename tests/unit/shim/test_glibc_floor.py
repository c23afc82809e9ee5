"""What we build runs with glibc 2.28: no symbol of a newer version is needed.

`make test-glibc` runs it on the C libraries of Debian 11, 12 and 13.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from farlane.frontend import shim_library

ROOT = Path(__file__).resolve().parents[3]
SHIM = ROOT / "frontend/shim"
FLOOR = (2, 28)
LIBRARIES = [
    *(shim_library.FOLDER / name for name in (shim_library.CORE, shim_library.DRIVER)),
    *([shim_library.FOLDER / shim_library.REDIRECT] if platform.machine() == "x86_64" else []),
    *(shim_library.runtime_library(major) for major in shim_library.RUNTIMES),
    shim_library.FOLDER / shim_library.MANAGEMENT,
    ROOT / "backend/plane/farlane_plane.abi3.so",
]
FIXED = platform.machine() in ("x86_64", "aarch64")


def needed_versions(library: Path) -> dict[str, tuple[int, ...]]:
    """The versions of glibc that a library needs, by name."""
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".gnu.version_r")
        names = [version.name for _, versions in section.iter_versions() for version in versions] if section else []
    return {name: tuple(map(int, name[6:].split("."))) for name in names if name.startswith("GLIBC_2")}


@pytest.mark.skipif(not FIXED, reason="the oldest glibc is fixed on x86-64 and AArch64 only")
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
def test_no_newer_glibc_is_needed(library: Path) -> None:
    assert {name for name, version in needed_versions(library).items() if version > FLOOR} == set()


@pytest.mark.skipif(not FIXED, reason="the oldest glibc is fixed on x86-64 and AArch64 only")
def test_a_library_without_the_floor_is_found_out(tmp_path: Path) -> None:
    """The check sees what it looks for: a weak or strong symbol of this machine's version."""
    here = tuple(map(int, platform.libc_ver()[1].split(".")))
    if here < (2, 34):
        pytest.skip("this machine's glibc has no newer version of pthread_create")
    (tmp_path / "new.c").write_text("#include <pthread.h>\nint f(void *p) { return pthread_create(p, 0, 0, 0); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "new.so", "new.c"], cwd=tmp_path, check=True)
    assert max(needed_versions(tmp_path / "new.so").values()) > FLOOR
    script = "import glibc_floor, pathlib, sys; print('\\n'.join(glibc_floor.rustc_arguments('cc', pathlib.Path(sys.argv[1]), sys.argv[2])))"
    made = [sys.executable, "-c", script, str(tmp_path / "floor"), platform.machine()]
    subprocess.run(made, cwd=SHIM, check=True, capture_output=True)
    command = ["cc", "-shared", "-fPIC", "-o", "old.so", "new.c", "-Lfloor", "-lpthread", "-lc"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert max(needed_versions(tmp_path / "old.so").values()) <= FLOOR


def test_the_launcher_needs_no_library() -> None:
    with (shim_library.FOLDER / shim_library.LAUNCHER).open("rb") as file:
        elf = ELFFile(file)
        assert elf.get_section_by_name(".interp") is None
        dynamic = elf.get_section_by_name(".dynamic")
        assert dynamic is None or not list(dynamic.iter_tags("DT_NEEDED"))
