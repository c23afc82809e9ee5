"""NVRTC's machine code, which packages from PyPI ask for, is PTX under `farlane run` (docs/python.md)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.guests

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".cache/guests/bin/python"


def run(folder: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    command = [ROOT / ".venv/bin/farlane", "run", "--", PYTHON, "-W", "ignore"]
    script = Path(__file__).parent / "scripts/machine_code.py"
    environment = os.environ | {"FARLANE_INTEROP": "1", "CUPY_CACHE_DIR": str(folder)} | extra
    return subprocess.run([*command, script], env=environment, capture_output=True, text=True, timeout=280, check=False)


def test_machine_code_of_nvrtc_is_ptx(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.stdout == "cuda.core\ncupy\n", done.stderr


def test_without_steering_the_device_refuses_it(tmp_path: Path) -> None:
    done = run(tmp_path, FARLANE_STEERING="off")
    assert done.returncode == 1
    assert "CUDA_ERROR_NO_BINARY_FOR_GPU" in done.stderr
