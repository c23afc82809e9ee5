"""What kernels print, and where it comes among the program's own output: the same in every mode, whatever the shim answers by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.registry import Entry
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

MODES = ("none", "calls", "loops")
NATIVE = Path(__file__).parents[2] / "native"
ENTRIES: dict[str, Entry] = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
SOURCE = Path(__file__).parent / "programs" / "device_output.cu"
LONG_LINE = f"device {1000000:100d}\n"


@pytest.fixture(scope="module")
def nvcc(toolchain: Callable[[str], Toolchain]) -> Toolchain:
    return toolchain("13.0")


@pytest.fixture(scope="module")
def printing(nvcc: Toolchain) -> str:
    return str(compile_program(nvcc, [SOURCE], "device_output", Build()))


def test_order_among_the_hosts_output_in_mode_loops(nvcc: Toolchain, guest: Guest) -> None:
    """The other modes are test_native's."""
    entry = ENTRIES["device_printf"]
    outcome = guest.run(entry.compiled(nvcc, Build(architecture="sm_75")), "loops")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, entry.expected, "")


@pytest.mark.parametrize("mode", MODES)
def test_a_failed_assertion(nvcc: Toolchain, guest: Guest, mode: str) -> None:
    outcome = guest.run(ENTRIES["device_assert"].compiled(nvcc, Build(architecture="sm_75")), mode)
    assert outcome.status == 0
    assert outcome.stdout == "cudaErrorAssert\ndevice-side assert triggered\ncudaErrorAssert\nPASS\n"
    message = (
        "device_assert.cu:7: void checked(const int *, int *): block: [0,0,0], thread: [3,0,0] "
        "Assertion `values[threadIdx.x] >= 0` failed.\n"
    )
    assert outcome.stderr.count(message) == 1


@pytest.mark.parametrize("mode", MODES)
def test_what_is_left_is_shown_at_exit(printing: str, guest: Guest, mode: str) -> None:
    outcome = guest.run([printing, "exit"], mode)
    assert (outcome.status, outcome.stdout) == (0, "host\ndevice 1\n")


@pytest.mark.parametrize("mode", MODES)
def test_synchronizations_that_show_output_are_never_answered_early(printing: str, guest: Guest, mode: str) -> None:
    outcome = guest.run([printing, "loop"], mode)
    assert (outcome.status, outcome.stdout) == (0, "".join(f"host {i}\ndevice {i}\n" for i in range(40)))
    # The handshake, and each synchronization.
    assert outcome.report.round_trips >= 41


@pytest.mark.parametrize("mode", MODES)
def test_a_large_buffer_travels_in_pieces(printing: str, guest: Guest, mode: str) -> None:
    outcome = guest.run([printing, "big"], mode)
    assert (outcome.status, outcome.stdout) == (0, LONG_LINE * 42000)


def test_a_full_buffer_keeps_the_end(printing: str, guest: Guest) -> None:
    outcome = guest.run([printing, "full"], "calls")
    assert (outcome.status, outcome.stdout) == (0, LONG_LINE * ((1 << 20) // len(LONG_LINE)))
