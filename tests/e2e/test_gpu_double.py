"""Real CUDA programs through the GPU device, on a double of CUDA's driver: all of the path but the driver. Repeats go through graphs.

The double executes kernels on the simulated device, late and out of order wherever CUDA's streams allow it. A selection of tests/native's
programs; with --full-matrix all that nvcc compiles."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.backend.device.gpu import CupyDevice
from farlane.backend.host import Host
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import parse
from farlane.frontend import shim_library
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain
from gpu_double import DoubleDriver

pytestmark = pytest.mark.native

REGISTRY = Path(__file__).parents[1] / "native" / "registry.toml"
# Programs that test_native.py compiles with these options anyhow.
BUILD = Build(3, "sm_75")
PROGRAMS = (
    "vecadd",
    "matmul_tiled",
    "constants",
    "templates_and_structs",
    "streams_events",
    "textures",
    "nested_launches",
)
# What a host with a GPU refuses (docs/limitations.md).
REFUSED = {"clusters", "clusters-debug", "conditional_nodes", "registered_in_kernels"}


@pytest.fixture(scope="module")
def double() -> Iterator[tuple[DoubleDriver, Guest]]:
    shim_library.require_built()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARLANE_GPU_GRAPHS", "on")
        driver = DoubleDriver(memory=4 << 30)
        host = Host(CupyDevice(driver=driver, output=driver.printed), quota=1 << 30)
    edge = Edge(host)
    with tempfile.TemporaryDirectory() as short:  # a socket's path has at most 107 bytes
        (endpoint,) = edge.listen([parse(f"unix://{short}/s")])
        yield driver, Guest(str(endpoint))
        edge.stop(5)
        host.close()
    left = driver.left()
    driver.close()
    assert left == {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    entries = [each for each in registry.load(REGISTRY) if "nvcc" in each.compilers and not each.helper]
    entries = [each for each in entries if each.name not in REFUSED]
    if not metafunc.config.getoption("--full-matrix"):
        entries = [each for each in entries if each.name in PROGRAMS]
        assert len(entries) == len(PROGRAMS)
    metafunc.parametrize("entry", entries, ids=[each.name for each in entries])


def test_program(
    entry: registry.Entry, double: tuple[DoubleDriver, Guest], toolchain: Callable[[str], Toolchain]
) -> None:
    driver, guest = double
    command = entry.compiled(toolchain("13.0"), BUILD)
    launches = driver.counts["launch"]
    for mode in ("none", "loops"):
        outcome = guest.run(command, mode)
        assert (outcome.status, outcome.stderr) == (0, ""), mode
        assert entry.expected in (None, outcome.stdout), mode
    if entry.name in PROGRAMS:
        assert driver.counts["launch"] > launches
