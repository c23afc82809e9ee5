"""A real virtual machine as guest: QEMU with a Debian kernel, the shim, the launcher and programs; no Python, no NVIDIA software.

`make test-vm` installs QEMU where it may and runs this. The machine reaches a host on this machine by TCP with TLS and a token.
By vsock: tests/e2e/test_vm_vsock.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import vm as demo
from farlane.frontend import shim_library
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.tls_host import TlsHost
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.devtools.virtual_machine import VirtualMachine
from virtual_machines import require_machines
from waiting import eventually

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900), pytest.mark.xdist_group("vm")]

NATIVE = Path(__file__).parents[1] / "native"
ENTRIES = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
GRACE_SECONDS = 2


@pytest.fixture(scope="module")
def compiled(toolchain: Callable[[str], Toolchain]) -> dict[str, Path]:
    patient = ENTRIES["patient"].compiled(toolchain("13.0"), Build(architecture="sm_75"))[0]
    return demo.programs() | {"patient": Path(patient)}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsHost]:
    with TlsHost(tmp_path_factory.mktemp("host"), [demo.HOST_ADDRESS], ["--grace", str(GRACE_SECONDS)]) as started:
        yield started


@pytest.fixture(scope="module")
def machine(host: TlsHost, compiled: dict[str, Path]) -> Callable[[], VirtualMachine]:
    """Makes machines; skips, saying why, where that cannot be."""
    require_machines()
    return lambda: demo.machine(host, compiled)


@pytest.fixture(scope="module")
def vm(machine: Callable[[], VirtualMachine]) -> Iterator[VirtualMachine]:
    with machine() as started:
        yield started


def line(host: TlsHost, *words: str, mode: str = "loops", report: bool = True) -> str:
    """A program's command line in the machine."""
    command = f"{demo.launcher(host.url(demo.HOST_ADDRESS), mode)} -- /demo/{' '.join(words)}"
    return command if report else command.replace("--report json:/tmp/report ", "")


def test_the_machine_has_no_python_and_nothing_of_nvidias(vm: VirtualMachine) -> None:
    assert vm.run("ls /usr/bin /usr/lib /bin | grep -i -e python -e nvidia | grep -v -x libnvidia-ml.so.1")[0] == 1
    libraries = vm.run("ls /usr/lib/farlane")[1].split()
    expected = {path.name for path in shim_library.FOLDER.iterdir()} - {shim_library.LAUNCHER}
    assert set(libraries) == {name for name in expected if not name.startswith(".")}


@pytest.mark.parametrize("command", demo.COMMANDS, ids=" ".join)
def test_round_trips_and_output_are_those_outside(
    command: tuple[str, ...], vm: VirtualMachine, host: TlsHost, compiled: dict[str, Path]
) -> None:
    demo.analyzed(vm, host, command)
    outputs, counts = set(), {}
    for mode in demo.MODES:
        here, there = demo.inside(vm, host, command, mode), demo.outside(host, compiled, command, mode)
        outputs |= {here.output.strip(), there.output.strip()}
        counts[mode] = (here.round_trips, there.round_trips)
    assert len(outputs) == 1
    assert [mode for mode, (here, there) in counts.items() if here != there] == [], counts
    assert counts["none"][0] > counts["calls"][0] >= counts["loops"][0]


def test_wrong_tokens_and_unknown_hosts_are_told(vm: VirtualMachine, host: TlsHost) -> None:
    status, output = vm.run(
        f"FARLANE_TOKEN=wrong {line(host, 'patient', '1').replace('--token-file /etc/farlane/token ', '')}"
    )
    assert status != 0
    assert "does not know the guest's token" in output
    status, output = vm.run(line(host, "patient", "1").replace("--ca /etc/farlane/ca.pem ", "--ca /etc/hosts "))
    assert status != 0
    assert "/etc/hosts" in output


def test_exit_statuses_are_the_programs_and_the_launchers(vm: VirtualMachine) -> None:
    assert vm.run("farlane-run --host unix:///s -- sh -c 'exit 7'")[0] == 7
    assert vm.run("farlane-run --host unix:///s -- sh -c 'kill -9 $$'")[0] == 137
    assert vm.run("farlane-run --host unix:///s -- /demo/nothing")[0] == 127
    assert vm.run("farlane-run --host unix:///s -- /etc/hosts")[0] == 126
    assert vm.run("farlane-run -- sh")[0] == 2


def test_the_host_restarts(vm: VirtualMachine, host: TlsHost) -> None:
    """A program that runs meanwhile tries to resume its session, gets the fixed error and says why; the next one runs."""
    began = len(vm.output)
    vm.start(line(host, "patient", "100000", "1048576", report=False))
    vm.wait_for("round 3\n", 120, began)
    host.stop(killed=True)
    host.start()
    vm.wait_for("\n:", 120, began)
    said = vm.output[began:]
    assert "46 cudaErrorDevicesUnavailable" in said
    # The host may be back before the time for resuming ends: it then refuses, and says so.
    assert said.count("lost: the host closed the connection; ") == 1, said
    status, output = vm.run(line(host, "patient", "3"))
    assert status == 0, output
    assert "PASS" in output


def test_a_machine_that_is_killed_leaves_nothing_on_the_host(
    machine: Callable[[], VirtualMachine], host: TlsHost
) -> None:
    with machine() as other:
        began = len(other.output)
        other.start(line(host, "patient", "100000", str(256 << 20), report=False))
        other.wait_for("round 3\n", 120, began)
        (session,) = host.top()["sessions"]
        assert session["program"] == "patient"
        assert session["memory_used"] >= 256 << 20
        other.kill()
    eventually(lambda: host.top()["sessions"] == [])
