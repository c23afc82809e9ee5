"""What compiles to machine code is led to PTX, with no package but ours: what a program finds, and what the device makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from farlane.backend.device.gpu import CupyDevice
from farlane.backend.host import Host
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import parse
from farlane.frontend import steering
from farlane.frontend.embedded import EmbeddedHost
from gpu_double import DoubleDriver

PROGRAMS = Path(__file__).parent / "programs"
FARLANE = [sys.executable, "-m", "farlane.frontend.cli"]
FOUND = "import shutil; print(shutil.which('ptxas'))"


def run(*words: str, **extra: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    environment = kept | {"PYTHONPATH": str(PROGRAMS)} | extra
    done = subprocess.run([*FARLANE, *words], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("variable", ["", "TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"])
def test_what_ptxas_gives_runs(variable: str) -> None:
    """As Triton and XLA use it: by a variable or the PATH, and the file's bytes go to cuModuleLoadData."""
    script = f"import driver_api, os; print(driver_api.assembled(os.environ.get({variable!r}, 'ptxas'), 5))"
    assert run("run", "--", sys.executable, "-c", script) == "[1, 2, 3, 4, 5]\n"


def test_hosts_that_are_named(sim_host: EmbeddedHost) -> None:
    stand_in = f"{steering.PTXAS}\n"
    assert run("run", "--host", sim_host.url, "--", sys.executable, "-c", FOUND) == stand_in
    assert run("run", "--host", sim_host.url, "--", sys.executable, "-c", FOUND, FARLANE_STEERING="off") != stand_in
    connected = f"import farlane; farlane.connect({sim_host.url!r}); {FOUND}"
    assert run("run", "--host", sim_host.url, "--", sys.executable, "-c", connected) == stand_in
    assert f"export CUDA_ROOT={steering.ROOT}\n" in run("env", "--host", sim_host.url)


def test_a_gpu_gets_machine_code() -> None:
    """On the double of CUDA's driver."""
    driver = DoubleDriver(memory=4 << 30)
    host = Host(CupyDevice(driver=driver, output=driver.printed), quota=1 << 30)
    edge = Edge(host)
    with tempfile.TemporaryDirectory() as short:
        (endpoint,) = edge.listen([parse(f"unix://{short}/s")])
        found = run("run", "--host", str(endpoint), "--", sys.executable, "-c", FOUND)
        edge.stop(5)
        host.close()
    driver.close()
    assert found != f"{steering.PTXAS}\n"


def test_the_device_files_of_a_gpu_are_there() -> None:
    """JAX looks for them."""
    script = "import os; print(*(os.path.exists(f'/dev/{name}') for name in ('nvidia0', 'nvidiactl', 'nvidia-none')))"
    assert run("run", "--", sys.executable, "-c", script) == "True True False\n"
