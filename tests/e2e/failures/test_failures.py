"""Failures while a program runs: faulting kernels, a host that dies, a guest that dies, sessions beside them."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost
from farlane.v1 import admin_pb2
from waiting import eventually

pytestmark = pytest.mark.native

NATIVE = Path(__file__).parents[2] / "native"
ENTRIES = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}


@pytest.fixture(scope="module")
def nvcc(toolchain: Callable[[str], Toolchain]) -> Toolchain:
    return toolchain("13.0")


@pytest.fixture(scope="module")
def fault(nvcc: Toolchain) -> str:
    return ENTRIES["fault"].compiled(nvcc, Build(architecture="sm_75"))[0]


@pytest.fixture(scope="module")
def patient(nvcc: Toolchain) -> str:
    return ENTRIES["patient"].compiled(nvcc, Build(architecture="sm_75"))[0]


@pytest.fixture
def own_host() -> Iterator[EmbeddedHost]:
    """A host that the test may end."""
    with EmbeddedHost("sim") as host:
        yield host


# Faulting kernels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["none", "calls"])
@pytest.mark.parametrize(
    ("kind", "code"),
    [("null", 700), ("load", 700), ("host", 700), ("registered", 700), ("beyond", 700), ("freed", 700), ("trap", 719)],
)
def test_a_faulting_kernel_leaves_a_sticky_error(fault: str, guest: Guest, kind: str, code: int, mode: str) -> None:
    """The fault is reported by the synchronization and by every later call. Mode none may report it at the launch."""
    outcome = guest.run([fault, kind], mode)
    assert outcome.status == 0, outcome.stdout + outcome.stderr
    name = {700: "cudaErrorIllegalAddress", 719: "cudaErrorLaunchFailure"}[code]
    later = f"synchronize {code} {name}\npeek {code}\nallocate {code}\nrelaunch {code}\ncopy {code}\nagain {code}\n"
    launch = "launch 0\n" if mode == "calls" else f"launch (0|{code})\n"
    assert re.fullmatch(launch + later, outcome.stdout), outcome.stdout
    assert outcome.stderr.count("the program has registered") == (2 if kind == "registered" else 0), (
        "said once for each"
    )


@pytest.mark.parametrize("why", ["reserved", "unmapped", "no_access", "read_only"])
def test_a_kernel_may_not_access_what_is_not_mapped_for_it(nvcc: Toolchain, guest: Guest, why: str) -> None:
    program = ENTRIES["vmm_fault"].compiled(nvcc, Build(architecture="sm_75"))[0]
    for mode in ("calls", "loops"):
        outcome = guest.run([program, why], mode)
        assert (outcome.status, outcome.stdout) == (0, "PASS\n"), outcome.stdout + outcome.stderr
        assert "illegal write" in outcome.stderr


def test_both_apis_know_a_kernels_fault_until_either_resets(nvcc: Toolchain, guest: Guest) -> None:
    program = ENTRIES["driver_mixed_fault"].compiled(nvcc, Build(architecture="sm_75"))[0]
    for mode in ("none", "calls", "loops"):
        outcome = guest.run([program], mode)
        assert (outcome.status, outcome.stdout) == (0, "PASS\n"), outcome.stdout + outcome.stderr
        assert outcome.stderr.count("illegal write") == 2, "one line for each of two faults"


def test_a_fault_stays_in_its_session(fault: str, patient: str, guest: Guest) -> None:
    """A program that runs meanwhile, and one that starts afterwards, notice nothing."""
    bystander = subprocess.Popen(
        [patient, "60"], env=guest.environment(patient, "calls"), stdout=subprocess.PIPE, text=True
    )
    for kind in ("null", "beyond", "trap"):
        assert guest.run([fault, kind]).status == 0
    output, _ = bystander.communicate(timeout=60)
    assert bystander.returncode == 0
    assert output.endswith("PASS\n")
    assert guest.run([patient, "3"]).stdout.endswith("PASS\n")


# Deaths ----------------------------------------------------------------------------------------------------------


def started(
    patient: str, url: str, make_environment: Callable[..., dict[str, str]], held: int
) -> subprocess.Popen[str]:
    """A patient program that has done three rounds on the host."""
    environment = make_environment(patient, "calls") | {"FARLANE_HOST": url}
    process = subprocess.Popen(
        [patient, "100000", str(held)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)] == ["round 1\n", "round 2\n", "round 3\n"]
    return process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_host_dies(patient: str, own_host: EmbeddedHost, guest: Guest, number: signal.Signals) -> None:
    """The guest's next call fails with one fixed error, said once on stderr; it ends without hanging."""
    process = started(patient, own_host.url, guest.environment, 1 << 20)
    assert own_host._process is not None
    own_host._process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 3, output + errors
    assert output.splitlines()[-1].endswith("46 cudaErrorDevicesUnavailable")
    assert len([line for line in errors.splitlines() if line.startswith("farlane: ")]) == 1
    assert "panicked" not in errors


def sessions(url: str) -> int:
    import grpc

    with grpc.insecure_channel(
        url.replace("unix://", "unix:"), options=[("grpc.default_authority", "localhost")]
    ) as channel:
        describe = channel.unary_unary(
            "/farlane.v1.AdminService/Describe",
            request_serializer=admin_pb2.DescribeRequest.SerializeToString,
            response_deserializer=admin_pb2.DescribeReply.FromString,
        )
        return int(describe(admin_pb2.DescribeRequest(), timeout=5).sessions)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_the_guest_dies(patient: str, own_host: EmbeddedHost, guest: Guest, number: signal.Signals) -> None:
    """The host ends the session and frees the session."""
    process = started(patient, own_host.url, guest.environment, 64 << 20)
    assert sessions(own_host.url) == 1
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number
    eventually(lambda: sessions(own_host.url) == 0)
    assert own_host.alive()


def test_memory_of_dead_guests_is_free_again(patient: str, guest: Guest) -> None:
    """Guests that die holding most of the device's memory, one after another."""
    with EmbeddedHost("sim", quota=512 << 20) as host:
        assert host._process is not None
        for _ in range(6):
            process = started(patient, host.url, guest.environment, 300 << 20)
            process.kill()
            process.communicate(timeout=60)
        eventually(lambda: sessions(host.url) == 0)
        status = Path(f"/proc/{host._process.pid}/status").read_text()
    resident = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])  # type: ignore[index]
    assert resident < 500_000, "the host still holds the memory of dead guests"
