"""The checks of the installation and of this machine, each where something is wrong."""

from __future__ import annotations

import mmap
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from farlane.frontend import shim_library
from farlane.frontend.doctor import installation, machine
from farlane.frontend.doctor.finding import FAILED, NOTE, OK, Finding
from farlane.hosturl import variables

Only = Callable[[Iterator[Finding]], Finding]


def refuse(*_: Any, **__: Any) -> Any:
    raise PermissionError(1, "Operation not permitted")


def executable(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("named", ["glibc 2.17", "glibc 2.27", ""])
def test_an_old_or_another_c_library(named: str, problem: Only, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "c_library", lambda: named)
    found = problem(installation.check_c_library())
    assert (found.state, found.check) == (FAILED, "glibc")
    assert "2.28" in found.text + found.advice


def test_the_shims_glibc_is_read_from_it() -> None:
    assert installation.needed_glibc(shim_library.FOLDER / shim_library.CORE) <= (2, 28)
    assert installation.needed_glibc(shim_library.FOLDER / shim_library.CORE) > (2, 2)


def test_a_shim_that_is_not_built(problem: Only, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shim_library, "FOLDER", tmp_path)
    found = problem(installation.check_shim())
    assert (found.state, found.check) == (FAILED, "shim")
    assert "libfarlane_core.so" in found.text


def test_a_shim_of_another_version(problem: Only, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executable(tmp_path / shim_library.LAUNCHER, "echo farlane-run 0.0.7")
    monkeypatch.setattr(shim_library, "FOLDER", tmp_path)
    found = problem(installation.check_shim_version())
    assert (found.state, found.check) == (FAILED, "shim-version")
    assert "the shim is version 0.0.7" in found.text


def test_a_shim_that_is_older_than_its_sources(problem: Only, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / shim_library.CORE).touch()
    os.utime(tmp_path / shim_library.CORE, (1, 1))
    monkeypatch.setattr(shim_library, "FOLDER", tmp_path)
    monkeypatch.setattr(installation, "SOURCES", tmp_path)
    (tmp_path / "lib.rs").touch()
    found = problem(installation.check_shim_version())
    assert (found.state, found.check) == (NOTE, "shim-version")


def test_a_shim_that_the_loader_refuses(problem: Only, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for library in shim_library.FOLDER.iterdir():
        (tmp_path / library.name).symlink_to(library)
    broken = tmp_path / "libcudart.so.12"
    broken.unlink()
    broken.write_bytes(b"\x7fELF")
    monkeypatch.setattr(shim_library, "FOLDER", tmp_path)
    monkeypatch.setattr(installation, "SOURCES", tmp_path)
    found = problem(installation.check_shim())
    assert (found.state, found.check) == (FAILED, "shim")
    assert "libcudart.so.12 cannot be" in found.text


def test_nvcc_without_a_compiler(problem: Only, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    assert list(installation.check_nvcc()) == []
    executable(tmp_path / "nvcc", "")
    found = problem(installation.check_nvcc())
    assert (found.state, found.check) == (FAILED, "nvcc")
    executable(tmp_path / "g++", "")
    assert [finding.state for finding in installation.check_nvcc()] == [OK]


def test_no_code_may_be_generated(problem: Only, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [finding.state for finding in machine.check_generated_code()] == [OK]
    monkeypatch.setattr(mmap, "mmap", refuse)
    found = problem(machine.check_generated_code())
    assert (found.state, found.check) == (FAILED, "generated-code")
    assert "SELinux" in found.advice


def test_no_shared_memory(problem: Only, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "memfd_create", refuse)
    found = problem(machine.check_shared_memory())
    assert (found.state, found.check) == (NOTE, "shared-memory")


@pytest.mark.parametrize(("limit", "value", "state"), [("RLIMIT_AS", 16 << 30, FAILED), ("RLIMIT_NOFILE", 64, NOTE)])
def test_limits_of_a_process(limit: str, value: int, state: str) -> None:
    code = (
        "import resource; from farlane.frontend.doctor import machine; "
        f"resource.setrlimit(resource.{limit}, ({value}, {value})); "
        "print(*[f'{each.state} {each.check} {each.advice}' for each in machine.check_limits()], sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{state} limits ")
    assert "ulimit" in done.stdout


def test_limits_that_are_wide_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert [finding.state for finding in machine.check_limits()] == [OK]


def test_a_folder_whose_path_is_too_long_for_a_socket(
    problem: Only, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / ("x" * 90)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    found = problem(machine.check_temporary_folder())
    assert (found.state, found.check) == (FAILED, "temporary-folder")
    assert "TMPDIR=/tmp" in found.advice


def test_no_folder_for_temporary_files(problem: Only, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    found = problem(machine.check_temporary_folder())
    assert (found.state, found.check) == (FAILED, "temporary-folder")


def test_a_cache_that_cannot_be_written(problem: Only, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(variables.CACHE, str(tmp_path / "file" / "cache"))
    found = problem(machine.check_cache())
    assert (found.state, found.check) == (NOTE, "cache")
    monkeypatch.setenv(variables.CACHE, str(tmp_path / "cache"))
    assert [finding.state for finding in machine.check_cache()] == [OK]


def test_settings_that_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARLANE_DEFER", "sometimes")
    states = {finding.state for finding in machine.check_settings()}
    assert FAILED in states
