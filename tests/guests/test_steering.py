"""NVRTC's machine code, which packages from PyPI ask for, is PTX under `farlane run` (docs/howto/python-guests.md)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from running import PYTHON, SCRIPTS, farlane_run

pytestmark = pytest.mark.guests


def run(folder: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return farlane_run(PYTHON, "-W", "ignore", SCRIPTS / "machine_code.py", CUPY_CACHE_DIR=str(folder), **extra)


def test_machine_code_of_nvrtc_is_ptx(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.stdout == "cuda.core\ncupy\n", done.stderr


def test_without_steering_the_device_refuses_it(tmp_path: Path) -> None:
    done = run(tmp_path, FARLANE_STEERING="off")
    assert done.returncode == 1
    assert "CUDA_ERROR_NO_BINARY_FOR_GPU" in done.stderr
