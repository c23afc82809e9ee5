"""What carries a session's messages: shared memory or gRPC. The same output and the same round trips by either."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost

pytestmark = pytest.mark.native

NATIVE = Path(__file__).parents[2] / "native"
ENTRIES = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
SHM, GRPC = {"FARLANE_TRANSPORT": "shm"}, {"FARLANE_TRANSPORT": "grpc"}


@pytest.fixture(scope="module")
def nvcc(toolchain: Callable[[str], Toolchain]) -> Toolchain:
    return toolchain("13.0")


@pytest.fixture(scope="module")
def patient(nvcc: Toolchain) -> str:
    return ENTRIES["patient"].compiled(nvcc, Build(architecture="sm_75"))[0]


@pytest.fixture(scope="module")
def host() -> Iterator[EmbeddedHost]:
    with EmbeddedHost("sim") as host:
        yield host


@pytest.mark.parametrize("mode", ["none", "calls", "loops"])
def test_the_same_by_either(patient: str, host: EmbeddedHost, mode: str) -> None:
    guest = Guest(host.url)
    guest.run([patient, "1"])  # its image is known from now on
    shared, streamed = (guest.run([patient, "20", str(3 << 20)], mode, extra=extra) for extra in (SHM, GRPC))
    assert shared.status == 0, shared.stderr
    assert shared.stdout.endswith("PASS\n")
    assert (shared.stdout, shared.status) == (streamed.stdout, streamed.status)
    assert shared.report.round_trips == streamed.report.round_trips


def test_shared_memory_is_chosen_by_itself(patient: str, host: EmbeddedHost) -> None:
    outcome = Guest(host.url).run([patient, "3"], extra={"FARLANE_LOG": "debug"})
    assert outcome.status == 0
    assert "messages go through shared memory" in outcome.stderr


def test_shared_memory_by_tcp_on_one_machine(patient: str, processes: tuple[str, str, int]) -> None:
    outcome = Guest(processes[1]).run([patient, "3"], extra={"FARLANE_LOG": "debug"})
    assert outcome.status == 0
    assert "messages go through shared memory" in outcome.stderr


def test_who_insists_on_shared_memory_gets_no_other_session(patient: str) -> None:
    with EmbeddedHost("null") as host:
        os.unlink(f"{host.url.removeprefix('unix://')}.rings")
        outcome = Guest(host.url).run([patient, "3"], extra=SHM)
        assert outcome.status != 0
        assert "there is no shared memory with the host" in outcome.stderr
        assert Guest(host.url).run([patient, "3"]).report.round_trips, "without insisting it goes on by gRPC"


def test_a_ticket_that_nobody_has_gets_nothing(patient: str, host: EmbeddedHost) -> None:
    for said in (bytes(16), b"short", b"", bytes(100)):
        with socket.socket(socket.AF_UNIX) as beside:
            beside.settimeout(10)
            beside.connect(f"{host.url.removeprefix('unix://')}.rings")
            beside.sendall(said)
            beside.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert beside.recv(64) == b""
    assert Guest(host.url).run([patient, "3"], extra=SHM).stdout.endswith("PASS\n")


@pytest.mark.parametrize("extra", [SHM, GRPC], ids=["shm", "grpc"])
def test_a_signal_ends_a_guest_that_waits(nvcc: Toolchain, host: EmbeddedHost, extra: dict[str, str]) -> None:
    """Also one whose thread reads its reply itself."""
    program = ENTRIES["patient"].compiled(nvcc, Build(architecture="sm_75"))[0]
    guest = Guest(host.url)
    environment = guest.environment(program, "calls") | extra
    process = subprocess.Popen([program, "1000000"], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "round 1\n"
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGTERM
    assert time.monotonic() - started < 10
    assert host.alive()


@pytest.fixture(scope="module")
def processes() -> Iterator[tuple[str, str, int]]:
    """A host that gives each session a process of its own, by a Unix socket and by TCP."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        tcp = f"grpc://127.0.0.1:{probe.getsockname()[1]}"
    with EmbeddedHost("sim", extra=("--workers", "process", "--warm", "1", "--listen", tcp)) as host:
        yield host.url, tcp, host._process.pid


WAYS = pytest.mark.parametrize(
    ("tcp", "extra"), [(0, SHM), (0, GRPC), (1, GRPC), (1, SHM)], ids=["shm", "unix", "tcp", "tcp-shm"]
)


@WAYS
def test_a_process_for_each_session(
    patient: str, host: EmbeddedHost, processes: tuple[str, str, int], tcp: int, extra: dict[str, str]
) -> None:
    """The same output, and as many round trips as in the host's own process."""
    command = [patient, "20", str(3 << 20)]
    threads = Guest(host.url).run(command, extra=extra)
    guest = Guest(str(processes[tcp]))
    guest.run([patient, "1"])  # its image is known from now on
    outcome = guest.run(command, extra=extra)
    assert (outcome.stdout, outcome.status) == (threads.stdout, 0), outcome.stderr
    assert outcome.report.round_trips == threads.report.round_trips


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


@WAYS
def test_a_lost_process_is_named(
    nvcc: Toolchain, processes: tuple[str, str, int], tcp: int, extra: dict[str, str]
) -> None:
    """Its guest says how it ended, whatever carried its messages; the next session finds another one."""
    program = ENTRIES["patient"].compiled(nvcc, Build(architecture="sm_75"))[0]
    guest, host = Guest(str(processes[tcp])), processes[2]
    environment = guest.environment(program, "calls") | extra
    process = subprocess.Popen(
        [program, "1000000"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "round 1\n"
    for worker in _children(host):  # one that waits for a session as well
        os.kill(worker, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "its process ended: signal SIGKILL" in errors
    assert guest.run([program, "3"], extra=extra).stdout.endswith("PASS\n")


def test_many_guests_at_once(patient: str, host: EmbeddedHost) -> None:
    guest = Guest(host.url)
    processes = [
        subprocess.Popen(
            [patient, "50"], env=guest.environment(patient, "calls") | extra, stdout=subprocess.PIPE, text=True
        )
        for extra in (SHM, GRPC) * 4
    ]
    for process in processes:
        output, _ = process.communicate(timeout=120)
        assert (process.returncode, output.endswith("PASS\n")) == (0, True)
