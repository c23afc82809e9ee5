"""The GPU device (`--device cupy`) on Farlane's own driver: a host that is itself a guest, of a host with the simulated device.

Programs of tests/native run through it, each in one mode (--full-matrix: in all three), and the device contract in the host's own process. What
is not here, and why: `NOT_SO` and `NOT_IN_CONTRACT`, and docs/gpu.md.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.registry import Entry
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.guests

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".cache/guests/bin/python"
REGISTRY = ROOT / "tests/native/registry.toml"
MODES = ("none", "calls", "loops")
FARLANE = [str(ROOT / ".venv/bin/farlane"), "run", "--", str(PYTHON)]
BUILD = Build(3, "sm_75")
SECONDS = 60

# The GPU device has none of it (docs/limitations.md).
_CLUSTERS = ("clusters", "clusters-debug", "driver_launches", "driver_functions", "driver_cooperative")
_CONDITIONS = ("conditional_nodes", "driver_graph_conditions", "driver_node_parameters")
_TENSOR_MAPS = ("tensor_copies", "tensor_copies-debug", "tensor_copies-120", "tensor_pipeline", "driver_tensor_maps")
# The host passes on what its driver says of PTX, without the lines that the program asks for.
_LOGS = ("driver_jit_logs", "driver_link")
# The host's faults are those of the simulated device's addresses: the guest's registered memory is not among them.
_REGISTERED = ("registered_in_kernels",)
NOT_SO = {*_CLUSTERS, *_CONDITIONS, *_TENSOR_MAPS, *_LOGS, *_REGISTERED}

# One window takes all addresses that a session may reserve, so there is no second one in its process; and Farlane's driver ends
# reservations with the primary context (whether NVIDIA's does was not observed).
NOT_IN_CONTRACT = ("every_session_has_variables_of_its_own", "contexts_are_apart", "reset_makes_it_good_again")

ENTRIES = {
    entry.name: entry
    for entry in registry.load(REGISTRY)
    if not entry.helper and "nvcc" in entry.compilers and entry.name not in NOT_SO
}


@pytest.fixture(scope="module")
def gpu_guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    folder = tmp_path_factory.mktemp("gpu_host")
    socket, log = folder / "host.sock", folder / "log"
    serve = ["-m", "farlane.frontend.cli", "serve", "--device", "cupy", "--listen", f"unix://{socket}"]
    environment = os.environ | {"FARLANE_INTEROP": "1"}
    with log.open("w") as output, subprocess.Popen([*FARLANE, *serve], env=environment, stderr=output) as host:
        try:
            ends = time.monotonic() + SECONDS
            while not socket.exists():
                assert host.poll() is None, log.read_text()
                assert time.monotonic() < ends, log.read_text()
                time.sleep(0.05)
            yield Guest(f"unix://{socket}")
            assert host.poll() is None, log.read_text()
        finally:
            host.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_program(
    entry: Entry, toolchain: Callable[[str], Toolchain], gpu_guest: Guest, request: pytest.FixtureRequest
) -> None:
    command = entry.compiled(toolchain("13.0"), BUILD)
    dealt = MODES[zlib.crc32(entry.name.encode()) % len(MODES)]
    for mode in MODES if request.config.getoption("--full-matrix") else (dealt,):
        outcome = gpu_guest.run(command, mode)
        assert (outcome.status, outcome.stdout) == (0, entry.expected), f"mode {mode}: {outcome.stderr}"


def test_the_device_contract() -> None:
    left_out = " or ".join(NOT_IN_CONTRACT)
    tests = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "tests/contract",
        "-k",
        f"cupy and not double and not ({left_out})",
    ]
    environment = os.environ | {"FARLANE_INTEROP": "1"}
    done = subprocess.run(
        [*FARLANE, *tests], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:]
    passed = re.search(r"(\d+) passed, 6 skipped", done.stdout)
    assert passed, done.stdout[-2000:]
    assert int(passed[1]) >= 120


def test_the_host_s_guests_are_not_guests_of_its_own_host() -> None:
    """What `farlane run` starts inside a guest gets nothing of the outer guest's settings."""
    show = "import os; print(sorted(n for n in os.environ if n.startswith('FARLANE_')), os.environ['LD_PRELOAD'].count('core'))"
    inner = [str(ROOT / ".venv/bin/farlane"), "run", "--defer", "calls", "--", sys.executable, "-c", show]
    outer = [str(ROOT / ".venv/bin/farlane"), "run", "--timing", "throughput", "--check", "--", *inner]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    done = subprocess.run(outer, env=environment, capture_output=True, text=True, timeout=120, check=False)
    alone = subprocess.run(inner, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == alone.stdout != "", done.stderr
