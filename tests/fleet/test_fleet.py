"""A fleet on a Ray cluster of this machine: two nodes, by its commands, with real programs as guests.

`make test-fleet` installs Ray for it. What needs no Ray is in tests/unit/fleet and tests/e2e/commands/test_gateway.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from steady import Steady
from waiting import eventually

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(300)]

PROGRAMS = Path(__file__).parent / "programs"
STORE_BYTES = 80 << 20  # of each node's objects, of which there are few
HOST_OPTIONS = ("--device", "sim", "--sessions", "8", "--no-analyze")
UNAVAILABLE = "error 46"


class Fleet:
    """A Ray cluster of two nodes, one host on each, and a gateway; the head node has none."""

    def __init__(self, folder: Path | None = None) -> None:
        from ray.cluster_utils import Cluster

        self.ray = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 2, "object_store_memory": STORE_BYTES, "include_dashboard": False},
        )
        self.nodes = [self.add_node() for _ in range(2)]
        self.folder = folder
        self.gateways: list[subprocess.Popen[str]] = []

    def add_node(self) -> Any:
        return self.ray.add_node(num_cpus=0, resources={"place": 1}, object_store_memory=STORE_BYTES)

    def farlane(self, part: str, *arguments: str, words: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command(part), *arguments], capture_output=True, text=True, timeout=150, input=words
        )

    def gateway(self, part: str, *arguments: str) -> str:
        """Its URL."""
        listen = "grpc://127.0.0.1:0" if self.folder is None else "farlane+tls://127.0.0.1:0"
        secured = () if self.folder is None else ("--folder", str(self.folder))
        read, write = os.pipe()
        options = ["--listen", listen, *secured, "--ready-fd", str(write), *arguments]
        self.gateways.append(subprocess.Popen([*self._command(part), *options], pass_fds=[write], text=True))
        os.close(write)
        with os.fdopen(read) as ready:
            return ready.readline().strip()

    def up(self, *arguments: str, workers: str = "thread", grace: int = 0) -> str:
        options = (*HOST_OPTIONS, "--workers", workers, "--grace", str(grace))
        return self.gateway("up", "--hosts", "2", "--per-host", "place=1", *arguments, "--", *options)

    def state(self) -> dict[str, Any]:
        outcome = self.farlane("status", "--json")
        assert outcome.returncode == 0, outcome.stderr
        found: dict[str, Any] = json.loads(outcome.stdout)
        return found

    def hosts(self) -> dict[str, dict[str, Any]]:
        return {host["name"]: host for host in self.state()["hosts"]}

    def stop_gateways(self) -> None:
        for gateway in self.gateways:
            gateway.send_signal(signal.SIGTERM)
        for gateway in self.gateways:
            assert gateway.wait(30) == 0
        self.gateways.clear()

    def close(self) -> None:
        try:
            self.stop_gateways()
            ended = self.farlane("down")
            assert "2 hosts have ended" in ended.stdout, ended.stderr
            assert "this Ray cluster has no fleet" in self.farlane("status").stderr
        finally:
            self.ray.shutdown()

    def _command(self, part: str) -> list[str]:
        return [sys.executable, "-m", "farlane.frontend.cli", "fleet", part, "--address", self.ray.address]


@pytest.fixture(scope="module")
def steady(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [PROGRAMS / "steady.cu"], "steady", Build()))


@pytest.fixture(scope="module")
def running() -> Iterator[Fleet]:
    made = Fleet()
    yield made
    made.close()


@pytest.fixture(scope="module")
def url(running: Fleet) -> str:
    found = running.up("--policy", "spread")
    eventually(lambda: len(running.hosts()) == 2)
    return found


def test_a_host_that_cannot_start_says_why(running: Fleet) -> None:
    """The first one with this cluster."""
    outcome = running.farlane("up", "--hosts", "1", "--", "--device", "sim", "--model", "/nonexistent")
    assert outcome.returncode == 1
    assert "the host host-0 cannot start" in outcome.stderr
    assert "/nonexistent" in outcome.stderr


def test_programs_run_on_both_hosts(running: Fleet, url: str, steady: str) -> None:
    sessions = [Steady(Guest(url), steady) for _ in range(4)]
    assert [host["sessions"] for host in running.hosts().values()] == [2, 2]
    assert {host["url"].partition(":")[0] for host in running.hosts().values()} == {"grpc"}
    assert [session.let_go() for session in sessions] == [(0, "PASS\n", "")] * 4
    eventually(lambda: [host["sessions"] for host in running.hosts().values()] == [0, 0])
    shown = running.farlane("status").stdout
    assert "host-0" in shown
    assert "4 placed" in shown


def test_a_drained_host_keeps_its_sessions_and_gets_none(running: Fleet, url: str, steady: str) -> None:
    guest = Guest(url)
    before = [Steady(guest, steady) for _ in range(2)]
    assert running.farlane("drain", "host-0").returncode == 0
    after = [Steady(guest, steady) for _ in range(2)]
    found = running.hosts()
    assert (found["host-0"]["is_open"], found["host-0"]["sessions"], found["host-1"]["sessions"]) == (False, 1, 3)
    refused = running.farlane("drain", "host-0", "--move")
    assert (refused.returncode, refused.stdout) == (1, "0 of 1 sessions have moved from host-0\n")
    assert "stays at host-0" in refused.stderr
    assert "has no --grace" in refused.stderr
    assert [session.let_go()[:2] for session in before + after] == [(0, "PASS\n")] * 4
    assert running.farlane("undrain", "host-0").returncode == 0
    eventually(lambda: running.hosts()["host-1"]["sessions"] == 0)
    unknown = running.farlane("drain", "host-7")
    assert (unknown.returncode, "the fleet has no host host-7" in unknown.stderr) == (1, True)


def test_gateways_come_and_go(running: Fleet, url: str, steady: str) -> None:
    second = running.gateway("gateway")
    sessions = [Steady(Guest(each), steady) for each in (url, second)]
    assert sum(host["sessions"] for host in running.hosts().values()) == 2
    running.stop_gateways()
    sessions.append(Steady(Guest(running.gateway("gateway")), steady))
    assert [session.let_go()[:2] for session in sessions] == [(0, "PASS\n")] * 3


def test_a_gateway_that_is_killed_keeps_no_room(running: Fleet, url: str, steady: str) -> None:
    """Programs that have a place go on. Those that wait end, and the room that comes for them meanwhile is free again."""
    gateway = running.gateway("gateway", "--quota", "5G")
    placed = [Steady(Guest(gateway), steady) for _ in range(4)]
    environment = Guest(gateway).environment(steady, "calls")
    waiting = [
        subprocess.Popen([steady], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    eventually(lambda: running.state()["waiting"] == 4)
    killed = running.gateways.pop()
    killed.kill()
    killed.wait(30)
    for program in waiting:
        output, errors = program.communicate(timeout=60)
        assert (program.returncode, UNAVAILABLE in output) == (1, True), output
        assert "has ended the connection before the session was open" in errors
    assert [session.let_go()[:2] for session in placed] == [(0, "PASS\n")] * 4
    eventually(lambda: [host["sessions"] for host in running.hosts().values()] == [0, 0], 60)
    assert running.state()["waiting"] == 0


def test_metrics_of_all_hosts_are_on_one_page(running: Fleet, url: str, steady: str) -> None:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    session = Steady(Guest(running.gateway("gateway", "--admin", str(port))), steady)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    lines = [line for line in text.splitlines() if line.startswith("farlane_fleet_host_sessions{")]
    assert len(lines) == 2
    assert sum(float(line.rpartition(" ")[2]) for line in lines) == 1
    assert session.let_go()[0] == 0


def test_map(running: Fleet, url: str, steady: str, tmp_path: Path) -> None:
    gateway = running.gateway("gateway")
    inputs = [str(number) for number in range(1, 7)]
    outcome = running.farlane("map", "--host", gateway, "--", steady, "{}", words="\n".join(inputs) + "\n")
    assert (outcome.returncode, outcome.stdout) == (0, "ready\nPASS\n" * 6), outcome.stderr
    script = tmp_path / "flaky"  # fails at its first attempt
    script.write_text(f'#!/bin/sh\nmkdir {tmp_path}/$1 2>/dev/null && exit 3\nexec {steady} "$2"\n')
    script.chmod(0o755)
    arguments = ("map", "--host", gateway, "--inputs", "a", "b")
    outcome = running.farlane(*arguments, "--retries", "1", "--", str(script), "{}", "1")
    assert (outcome.returncode, outcome.stdout) == (0, "ready\nPASS\n" * 2), outcome.stderr
    outcome = running.farlane(*arguments, "--retries", "1", "--", "/bin/false")
    assert outcome.returncode == 1
    assert "a: exit status 1" in outcome.stderr
    assert "2 of 2 inputs failed, each tried 2 times" in outcome.stderr
    crash = ("sh", "-c", "echo begun; echo $0 is bad >&2; kill -SEGV $$")
    outcome = running.farlane("map", "--host", gateway, "--inputs", "a", "--retries", "0", "--", *crash)
    assert (outcome.returncode, outcome.stdout) == (1, "begun\n")
    assert "a: exit status 139 (SIGSEGV)\n" in outcome.stderr
    assert "    a is bad\n" in outcome.stderr
    assert "1 of 1 input failed, each tried once" in outcome.stderr


def test_a_roster_that_is_started_anew_knows_the_sessions(running: Fleet, url: str, steady: str) -> None:
    import ray

    gateway = running.gateway("gateway")
    session = Steady(Guest(gateway), steady)
    ray.init(address=running.ray.address, namespace="farlane", log_to_driver=False)
    try:
        ray.kill(ray.get_actor("roster"), no_restart=False)
        eventually(lambda: sum(host["sessions"] for host in running.hosts().values()) == 1)
    finally:
        ray.shutdown()
    other = Steady(Guest(gateway), steady)
    assert len(running.hosts()) == 2
    assert [each.let_go()[:2] for each in (session, other)] == [(0, "PASS\n")] * 2
    eventually(lambda: sum(host["sessions"] for host in running.hosts().values()) == 0)


def test_a_node_that_dies_takes_its_sessions_alone(running: Fleet, url: str, steady: str) -> None:
    """The last one with this cluster: it ends a node."""
    guest = Guest(running.gateway("gateway"))
    sessions = [Steady(guest, steady) for _ in range(4)]
    placed = running.hosts()
    assert [host["sessions"] for host in placed.values()] == [2, 2]
    killed = running.nodes[0]
    lost = next(name for name, host in placed.items() if host["node"] == killed.node_id)
    running.ray.remove_node(killed, allow_graceful=False)
    eventually(lambda: sum(session.process.poll() is not None for session in sessions) == 2)
    ended = [session.ended() for session in sessions if session.process.poll() is not None]
    for status, output, errors in ended:
        assert (status, UNAVAILABLE in output) == (1, True), output
        assert sum(line.startswith("farlane: ") for line in errors.splitlines()) == 1, errors
    eventually(lambda: set(running.hosts()) == set(placed) - {lost})
    assert running.state()["lost"] == 2
    more = [Steady(guest, steady) for _ in range(2)]
    left = [session for session in sessions if session.process.returncode is None]
    assert [session.let_go()[:2] for session in left + more] == [(0, "PASS\n")] * 4
    # A node with room comes, and the host is started there anew.
    running.add_node()
    eventually(lambda: lost in running.hosts(), 120)
    assert Steady(guest, steady).let_go()[0] == 0


def test_tls_and_sessions_in_processes_of_their_own_which_move(steady: str, tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    made = subprocess.run(
        [sys.executable, "-m", "farlane.frontend.cli", "host", "init", "--folder", str(folder)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    token = made.stdout.partition("FARLANE_TOKEN=")[2].split()[0]
    fleet = Fleet(folder)
    try:
        url = fleet.up("--policy", "spread", workers="process", grace=30)
        access = {"FARLANE_CA": str(folder / "ca.pem"), "FARLANE_TOKEN": token}
        eventually(lambda: len(fleet.hosts()) == 2)
        sessions = [Steady(Guest(url, access=access), steady) for _ in range(4)]
        assert {host["url"].partition(":")[0] for host in fleet.hosts().values()} == {"farlane+tls"}
        moved = fleet.farlane("drain", "host-0", "--move")
        assert (moved.returncode, moved.stderr) == (0, ""), moved.stderr
        assert moved.stdout.count("is at host-1 now; it was held for") == 2
        assert moved.stdout.endswith("2 of 2 sessions have moved from host-0\n")
        eventually(lambda: [host["sessions"] for host in fleet.hosts().values()] == [0, 4])
        ended = [session.let_go() for session in sessions]
        assert [each[:2] for each in ended] == [(0, "PASS\n")] * 4, ended
        assert sorted(errors.count("was resumed after") for _, _, errors in ended) == [0, 0, 1, 1]
        assert fleet.state()["lost"] == 0
        with pytest.raises(AssertionError, match="shows no token"):
            Steady(Guest(url, access={"FARLANE_CA": access["FARLANE_CA"]}), steady)
    finally:
        fleet.close()
