"""Compilers to machine code, unchanged from PyPI, led to PTX by `farlane run` (docs/python.md): Triton and JAX.

`make test-compilers` makes their environment, a download of 3 GB.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.compilers, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".cache/compilers/bin/python"
SCRIPTS = Path(__file__).parent / "scripts"
KERNELS = ["add", "softmax", "histogram", "running", "ordered", "uniform"]


def run(script: str, *words: str, options: tuple[str, ...] = (), **extra: str) -> list[str]:
    command = [ROOT / ".venv/bin/farlane", "run", *options, "--", PYTHON, "-W", "ignore", SCRIPTS / script, *words]
    environment = os.environ | extra
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout.splitlines()


def test_triton(tmp_path: Path) -> None:
    assert run("triton_kernels.py", TRITON_CACHE_DIR=str(tmp_path)) == KERNELS


def test_products_of_triton(tmp_path: Path) -> None:
    """For 9.0 Triton writes wgmma, which the simulated device does not execute; for 12.0 mma."""
    printed = run("triton_kernels.py", "dot", options=("--capability", "12.0"), TRITON_CACHE_DIR=str(tmp_path))
    assert printed == [*KERNELS, "product"]


def test_jax() -> None:
    """cuDNN and cuBLAS, which JAX opens, have NVIDIA's runtime in them (docs/interoperability.md)."""
    names = [
        "sum",
        "functions",
        "cumsum",
        "sort",
        "gradient",
        "loop",
        "random",
        "product",
        "softmax",
        "training",
        "transform",
    ]
    assert run("jax_arrays.py", FARLANE_INTEROP="1", TF_CPP_MIN_LOG_LEVEL="3") == ["['gpu']", *names]
