"""Programs with the CUDA runtime linked into them, built and run with other versions of glibc than this machine's.

The loader's ways of calling an auditor and of relocating a preloaded library differ between versions: 2.31 has no LD_AUDIT for what is bound
lazily (LD_BIND_NOW), and libpthread and libdl apart; 2.41 is newer than this machine. The host runs outside, on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import roots
from farlane.frontend import program as programs
from farlane.frontend import shim_library
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.toolchain import Toolchain
from native_builds import REGISTRY

pytestmark = [pytest.mark.glibc, pytest.mark.timeout(3600)]

SOURCES = Path(__file__).parents[1] / "e2e/runtimes/programs"
MODES = ("none", "calls", "loops")
ENTRIES = {entry.name: entry for entry in registry.load(REGISTRY)}
# Between them: threads, a fork, memory that is watched for touches, callbacks, two modules, output of kernels.
PROGRAMS = ("vecadd", "threads", "fork_child", "managed", "streams_events", "device_printf")
# The program's own runtime, the libraries' that it opens, what it prints.
OPENED = {
    "program": ("static", (), "2 cudaSuccess\n"),
    "opened": ("shared", ("static",), "4 cudaSuccess\n"),
    "all": ("static", ("static", "shared"), "8 cudaSuccess\n"),
}


@dataclass(frozen=True)
class Place:
    """A release of Debian and the host's address."""

    release: roots.Release
    url: str
    nvcc: Path

    def built(self, folder: Path, name: str, sources: list[Path], *flags: str) -> str:
        command = [str(self.nvcc), "-arch=sm_75", "-std=c++17", *flags, *map(str, sources), "-o", name, "-ldl"]
        done = self.release.run(command, {"PATH": "/usr/bin:/bin"}, folder=folder)
        assert done.returncode == 0, done.stderr
        return str(folder / name)

    def launched(self, command: list[str], mode: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
        """In the launcher's environment, made as it is made on a machine of that release."""
        monkeypatch.setattr(os, "confstr", lambda _name: f"glibc {self.release.glibc}")
        runtimes = programs.inspect(Path(command[0])).runtimes
        made = shim_library.guest_environment({}, host=self.url, mode=mode, runtimes=runtimes, report=None)
        assert ("LD_BIND_NOW" in made) == (self.release.name == "bullseye")
        return self._run(command, made)

    def started(self, command: list[str], mode: str) -> tuple[int, str, str]:
        """By the launcher without Python, which makes that environment itself."""
        launcher = [str(shim_library.FOLDER / shim_library.LAUNCHER), "--host", self.url, "--defer", mode, "--"]
        return self._run([*launcher, *command], {"PATH": "/usr/bin:/bin"})

    def preloaded(self, command: list[str], mode: str) -> tuple[int, str, str]:
        library = shim_library.runtime_library("13")
        return self._run(command, {"FARLANE_HOST": self.url, "FARLANE_DEFER": mode, "LD_PRELOAD": str(library)})

    def _run(self, command: list[str], environment: dict[str, str]) -> tuple[int, str, str]:
        done = self.release.run(command, environment)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(params=list(roots.RELEASES))
def place(request: pytest.FixtureRequest, guest: Guest, toolchain: Callable[[str], Toolchain]) -> Place:
    try:
        release = roots.release(request.param)
    except roots.Unavailable as reason:
        pytest.skip(str(reason))
    return Place(release, guest.url, toolchain("13.0").cuda_root / "bin/nvcc")


def test_the_c_library_is_the_releases(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "version.cu"
    source.write_text(
        "#include <cstdio>\n#include <gnu/libc-version.h>\nint main() { puts(gnu_get_libc_version()); }\n"
    )
    assert place._run([place.built(tmp_path, "version", [source])], {}) == (0, f"{place.release.glibc}\n", "")


@pytest.mark.parametrize("case", OPENED)
def test_a_program_and_what_it_opens(case: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, opened, printed = OPENED[case]
    command = [place.built(tmp_path, "opener", [SOURCES / "runtime_opener.cu"], "-cudart", own)]
    for kind in opened:
        flags = ("-cudart", kind, "-shared", "-Xcompiler", "-fPIC")
        command.append(place.built(tmp_path, f"lib{kind}.so", [SOURCES / "runtime_library.cu"], *flags))
    for mode in MODES:
        assert place.launched(command, mode, monkeypatch) == (0, printed, ""), mode
    if not opened:
        assert place.preloaded(command, "loops") == (0, printed, "")


def test_a_library_that_the_program_needs(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ("-shared", "-Xcompiler", "-fPIC", "-Xlinker", "-soname=libstatic.so")
    library = place.built(tmp_path, "libstatic.so", [SOURCES / "runtime_library.cu"], *flags)
    linked = (library, "-Xlinker", f"-rpath={tmp_path}")
    program = place.built(tmp_path, "user", [SOURCES / "runtime_user.cu"], *linked)
    for mode in MODES:
        assert place.launched([program], mode, monkeypatch) == (0, "42\n", ""), mode
    assert place.preloaded([program], "loops") == (0, "42\n", "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_print_what_they_print_elsewhere(
    name: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = ENTRIES[name]
    program = place.built(tmp_path, name, list(entry.sources), "-O3", *entry.build.flags, *entry.build.nvcc_flags)
    for mode in MODES:
        assert place.launched([program], mode, monkeypatch) == (0, entry.expected, ""), mode
        assert place.started([program], mode) == (0, entry.expected, ""), mode
