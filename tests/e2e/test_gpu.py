"""On a real GPU, through a host of its own: the tests of tests/e2e/test_native.py's programs under Farlane, faults, graphs, windows.

Without a GPU there is nothing here to run; what the host makes of a driver is tested on Farlane's own (tests/guests)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.frontend import shim_library
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.registry import Entry
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost
from on_a_gpu import NOT_COMPARED, NOT_THERE, OTHERWISE
from ports import free_port
from steady import there_and_back

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not any(Path("/dev").glob("nvidia[0-9]*")), reason="no NVIDIA GPU here"),
]

REGISTRY = Path(__file__).parents[1] / "native" / "registry.toml"
ENTRIES = {
    entry.name: entry
    for entry in registry.load(REGISTRY)
    if not entry.helper and "nvcc" in entry.compilers and entry.name not in NOT_THERE | NOT_COMPARED
}
BUILD = Build(3, "sm_75")
STEADY = Path(__file__).parents[1] / "fleet/programs/steady.cu"
QUOTA = 8 << 30  # so that programs which take all memory leave some to the tests beside them


@pytest.fixture(scope="session", params=["auto", "on"])
def gpu_guest(request: pytest.FixtureRequest) -> Iterator[Guest]:
    """A host with a process for each session; repeats as graphs, by measuring and always."""
    shim_library.require_built()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARLANE_GPU_GRAPHS", request.param)
        with EmbeddedHost("cupy", QUOTA) as host:
            yield Guest(host.url)
            assert host.alive(), "the host ended during the tests"


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_program(entry: Entry, toolchain: Callable[[str], Toolchain], gpu_guest: Guest) -> None:
    """What it prints elsewhere, in every mode; where NVIDIA's own runtime does otherwise, what that does or what is expected."""
    installed = toolchain("13.0")
    command = entry.compiled(installed, BUILD)
    right = [(0, entry.expected)]
    if entry.name in OTHERWISE:
        environment = os.environ | {"LD_LIBRARY_PATH": str(installed.library_folder)}
        natively = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        right.append((natively.returncode, natively.stdout))
    for mode in ("none", "calls", "loops"):
        outcome = gpu_guest.run(command, mode)
        assert (outcome.status, outcome.stdout) in right, f"mode {mode}: {outcome.stderr}"


def test_a_fault_ends_its_session_alone(toolchain: Callable[[str], Toolchain], gpu_guest: Guest) -> None:
    """A program whose kernel faults, and beside it one that goes on."""
    installed = toolchain("13.0")
    (fault,) = [entry for entry in registry.load(REGISTRY) if entry.name == "fault"]
    good = ENTRIES["streams_events"]
    environment = gpu_guest.environment(good.compiled(installed, BUILD)[0], "calls")
    with subprocess.Popen(
        good.compiled(installed, BUILD), env=environment, stdout=subprocess.PIPE, text=True
    ) as beside:
        assert gpu_guest.run(fault.compiled(installed, BUILD), "calls").status != 0
        assert beside.communicate(timeout=120)[0] == good.expected
    assert gpu_guest.run(good.compiled(installed, BUILD), "calls").stdout == good.expected


def test_a_program_moves_to_another_host_and_back(toolchain: Callable[[str], Toolchain]) -> None:
    """Its session is saved between launches, and goes on in another process of the GPU."""
    program = str(compile_program(toolchain("13.0"), [STEADY], "steady", BUILD))
    urls = [f"grpc://127.0.0.1:{free_port()}" for _ in range(2)]
    with (
        EmbeddedHost("cupy", QUOTA, ("--listen", urls[0])) as first,
        EmbeddedHost("cupy", QUOTA, ("--listen", urls[1])) as second,
    ):
        farlane = [sys.executable, "-c", "import sys; from farlane.frontend.cli import main; sys.exit(main())"]
        there_and_back(program, [first.url, second.url], urls, farlane)


def test_a_window_can_be_reserved_in_a_fresh_process() -> None:
    code = (
        "from farlane.backend.device.gpu import CupyDevice\n"
        "c = CupyDevice().open_context(1 << 30); c.allocate(c.window.base, 4096); print(c._space.hints_refused); c.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 0
