"""Python guests without a launcher: `farlane.connect` in a script and in a notebook, and the pytest plugin with Numba."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from farlane.frontend.embedded import EmbeddedHost

pytestmark = pytest.mark.guests

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".cache/guests/bin/python"
SCRIPT = Path(__file__).parent / "scripts" / "connect_cupy.py"


def run(*words: object, cwd: Path | None = None, status: int = 0, **extra: str) -> subprocess.CompletedProcess[str]:
    """A program of the guests' environment, with NVIDIA's runtime in CuPy allowed (docs/explanation/interoperability.md)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    command = [str(PYTHON), *map(str, words)]
    environment = kept | {"FARLANE_INTEROP": "1"} | extra
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == status, done.stdout[-2000:] + done.stderr[-2000:]
    return done


def test_a_script_with_a_host_of_its_own() -> None:
    assert run(SCRIPT).stdout == "numba\nbindings\ncupy\n"


def test_a_script_on_a_named_host(sim_host: EmbeddedHost) -> None:
    assert run(SCRIPT, sim_host.url, CUPY_COMPILE_WITH_PTX="1").stdout == "numba\nbindings\ncupy\n"


CELLS = [
    "import farlane\nfarlane.connect()",
    """
import numpy as np
from numba import cuda

@cuda.jit
def twice(values):
    index = cuda.grid(1)
    if index < values.size:
        values[index] *= 2

values = cuda.to_device(np.arange(8.0))
twice[1, 32](values)
print(values.copy_to_host().tolist())
""",
    "import cupy\nprint(int(cupy.arange(10).sum()))",
    "print(farlane.connect().partition(':')[0])",  # a cell is run again
]

NOTEBOOK = """
import sys, json
import nbclient, nbformat
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in json.load(sys.stdin)])
nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
for cell in notebook.cells:
    print("".join(output.text for output in cell.outputs if output.get("name") == "stdout"), end="")
"""


def test_a_notebook(tmp_path: Path) -> None:
    command = [str(PYTHON), "-c", NOTEBOOK]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    environment = kept | {"FARLANE_INTEROP": "1", "IPYTHONDIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        command, input=json.dumps(CELLS), env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.stdout == "[0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]\n45\nunix\n", done.stderr[-3000:]


SUITE = """
import numpy as np
from numba import cuda, float32

@cuda.jit
def store(values):
    values[cuda.grid(1)] = 1

@cuda.jit
def mirrored(values):
    shared = cuda.shared.array(64, float32)
    thread = cuda.threadIdx.x
    shared[thread] = thread
    values[thread] = shared[63 - thread]

kept = []

def test_good():
    values = cuda.to_device(np.zeros(64, np.float32))
    store[2, 32](values)
    assert values.copy_to_host().sum() == 64

def test_out_of_bounds():
    store[3, 32](cuda.device_array(64, np.float32))

def test_race():
    mirrored[1, 64](cuda.device_array(64, np.float32))

def test_leak():
    kept.append(cuda.device_array(100, np.float32))

def test_good_again():
    test_good()
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one", "xdist"])
def test_a_suite_with_checks(workers: tuple[str, ...], tmp_path: Path) -> None:
    """Numba frees late; what it keeps for later is no leak."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    options = ["-p", "no:cacheprovider", "-W", "ignore", "--farlane-check", *workers]
    done = run("-m", "pytest", "-q", "-rfE", "test_suite.py", *options, cwd=tmp_path, status=1)
    summary = [line.partition(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR "))]
    assert sorted(summary) == [
        "ERROR test_suite.py::test_leak",
        "FAILED test_suite.py::test_out_of_bounds",
        "FAILED test_suite.py::test_race",
    ], done.stdout
    assert "Leaked 400 bytes" in done.stdout
    assert "of size 256 bytes" in done.stdout
