"""A virtual machine that reaches its host by vsock, in place of a network.

The machine has QEMU's vsock device, whose other end is a program of this machine (vsock_device.py), and the kernel's loopback of
vsock, by which the Rust transports on both sides run their tests in it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import vm as demo
from farlane.frontend.devtools.tls_host import TlsHost
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.devtools.virtual_machine import VirtualMachine
from virtual_machines import require_machines
from vsock_device import PROGRAM, VsockDevice, program

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900), pytest.mark.xdist_group("vm")]

SHIM = Path(__file__).parents[2] / "frontend" / "shim"
PLAIN, ENCRYPTED, NO_HOST = 7070, 7071, 7072
ACCESS = "--ca /etc/farlane/ca.pem --token-file /etc/farlane/token"
TRANSPORTS = {"client": 2, "plane": 1}  # tests that go over vsock


@pytest.fixture(scope="module")
def transports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The test programs of both sides' transports."""
    packages = [word for name in TRANSPORTS for word in ("--package", name)]
    command = ["cargo", "test", "--quiet", "--locked", "--no-run", "--lib", "--message-format=json", *packages]
    built = subprocess.run(command, cwd=SHIM, check=True, capture_output=True, text=True, timeout=600).stdout
    found = {}
    for message in map(json.loads, built.splitlines()):
        if message.get("executable") and message["target"]["name"] in TRANSPORTS:
            name = message["target"]["name"]
            found[name] = tmp_path_factory.mktemp("transports") / name
            subprocess.run(["strip", "-o", str(found[name]), message["executable"]], check=True)
    assert set(found) == set(TRANSPORTS)
    return found


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VsockDevice]:
    if program() is None:
        pytest.skip(f"{PROGRAM} is not installed (make test-vm installs it by cargo)")
    with VsockDevice(tmp_path_factory.mktemp("v")) as started:
        yield started


@pytest.fixture(scope="module")
def host(device: VsockDevice, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsHost]:
    """Behind the device's Unix sockets: one is the host's own, one leads to its encrypted port."""
    with TlsHost(
        tmp_path_factory.mktemp("h"), [demo.HOST_ADDRESS], ["--listen", f"unix://{device.path(PLAIN)}"]
    ) as started:
        device.forward(ENCRYPTED, started.port)
        yield started


@pytest.fixture(scope="module")
def programs(toolchain: Callable[[str], Toolchain]) -> dict[str, Path]:
    toolchain("13.0")
    return demo.programs()


@pytest.fixture(scope="module")
def vm(
    host: TlsHost, device: VsockDevice, programs: dict[str, Path], transports: dict[str, Path]
) -> Iterator[VirtualMachine]:
    require_machines()
    with demo.machine(host, programs | transports, device.options) as started:
        yield started


@pytest.mark.parametrize("name", TRANSPORTS)
def test_transports_over_the_loopback_of_vsock(vm: VirtualMachine, name: str) -> None:
    status, output = vm.run(f"FARLANE_NEEDS_VSOCK=1 /demo/{name} vsock")
    if "version `GLIBC" in output:
        pytest.skip(f"the machine's C library is older than that of this one: {output.splitlines()[0]}")
    assert status == 0, output
    assert f"test result: ok. {TRANSPORTS[name]} passed" in output


@pytest.mark.parametrize("url", [f"vsock://2:{PLAIN}", f"vsock+tls://2:{ENCRYPTED}"])
@pytest.mark.parametrize("mode", demo.MODES)
def test_programs_run_as_by_a_network(
    vm: VirtualMachine, host: TlsHost, programs: dict[str, Path], url: str, mode: str
) -> None:
    command = ("loops", "repeated")
    demo.analyzed(vm, host, command)
    there = demo.outside(host, programs, command, mode)
    line = f"{demo.launcher(url, mode)} -- /demo/{' '.join(command)}"
    status, output = vm.run(line, seconds=300)
    assert (status, output.strip()) == (0, there.output.strip())
    assert json.loads(vm.run("cat /tmp/report")[1])["round_trips"] == there.round_trips


def test_what_is_wrong_is_told(vm: VirtualMachine) -> None:
    # The device does not answer for a port without a host, as the kernel's does: the loopback's tests see that.
    status, output = vm.run(f"farlane-run --host vsock://2:{NO_HOST} -- /demo/heat")
    assert status != 0
    assert f"cannot connect to vsock://2:{NO_HOST}: no" in output
    assert "start one with `farlane serve`" in output
    status, output = vm.run(f"farlane-run --host vsock+tls://2:{PLAIN} {ACCESS} -- /demo/heat")
    assert status != 0
    assert "does not speak TLS" in output or "grpc:// address" in output
    status, output = vm.run(
        f"FARLANE_TOKEN=wrong farlane-run --host vsock+tls://2:{ENCRYPTED} --ca /etc/farlane/ca.pem -- /demo/heat"
    )
    assert status != 0
    assert "does not know the guest's token" in output
