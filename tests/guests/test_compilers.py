"""Compilers of kernels, unchanged from PyPI (docs/howto/python-guests.md): Triton and JAX, led to PTX by `farlane run`; Taichi; Warp.

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


def run(script: str, options: tuple[str, ...] = (), **extra: str) -> list[str]:
    command = [ROOT / ".venv/bin/farlane", "run", *options, "--", PYTHON, "-W", "ignore", SCRIPTS / script]
    environment = os.environ | extra
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("capability", ["9.0", "12.0"])
def test_triton(capability: str, tmp_path: Path) -> None:
    """Its products are wgmma for 9.0, and mma for 12.0."""
    options = ("--capability", capability)
    printed = run("triton_kernels.py", options=options, TRITON_CACHE_DIR=str(tmp_path))
    assert printed == ["add", "softmax", "histogram", "running", "ordered", "uniform", "halves", "floats"]


def test_jax() -> None:
    """cuDNN and cuBLAS, which JAX opens, have NVIDIA's runtime in them (docs/explanation/interoperability.md)."""
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


def test_taichi() -> None:
    """It hands PTX to the driver, and sets up a memory pool before it has a context."""
    printed = run("taichi_kernels.py")
    assert printed[-7:] == ["sum", "sparse", "matrices", "arrays", "random", "gradient", "from a kernel: 7"]


def test_warp(tmp_path: Path) -> None:
    """Its library has NVIDIA's runtime in it (docs/explanation/interoperability.md)."""
    names = ["kernels", "gradients", "graph", "stream", "tiles", "hash grid", "mesh", "sort"]
    printed = run("warp_kernels.py", FARLANE_INTEROP="1", WARP_CACHE_PATH=str(tmp_path))
    assert [line for line in printed if line in names] == names
