"""A fleet on a Ray cluster of this machine: many sessions of real programs, one host that is emptied, and one node that is killed.

    make test-fleet                                    # once: makes .cache/fleet
    .cache/fleet/bin/python benchmarks/fleet/cluster.py [--nodes 4] [--hosts 16] [--sessions 200] [--at-once 40]

A host's sessions are moved elsewhere after a quarter of all sessions, and the node is killed after half of them. Prints how
the sessions ended, for how long those were held that moved, whether any host has ever reserved more memory than it has, what the gateway took to place a
session, and what a session costs through the gateway in times of one that goes to a host directly. Exits with 1 unless all
sessions were right but those of the killed node, which must end with CUDA error 46.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install
from farlane.frontend.embedded import EmbeddedHost

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests/fleet/programs/steady.cu"
STORE_BYTES = 80 << 20
QUOTA = 4 << 30  # of each session; a host has 16 GiB
HOLD_SECONDS = (0.5, 1.0, 2.0)  # for which sessions work, one after the other
BUSY_PORT, QUIET_PORT = 17071, 17072
LOST = "error 46"
PAIRS = 15


class Ended(NamedTuple):
    status: int
    output: str
    errors: str

    @property
    def is_right(self) -> bool:
        return self.status == 0 and self.output == "ready\nPASS\n"

    @property
    def is_lost(self) -> bool:
        return self.status == 1 and LOST in self.output


def work(guest: Guest, program: str, number: int) -> Ended:
    """One session: it works for a while."""
    environment = guest.environment(program, "calls")
    process = subprocess.Popen(
        [program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    if first == "ready\n":
        time.sleep(HOLD_SECONDS[number % len(HOLD_SECONDS)])
    output, errors = process.communicate("", timeout=300)
    return Ended(process.returncode, first + output, errors)


class Gateway:
    """One that listens."""

    def __init__(
        self,
        part: str,
        address: str,
        port: int,
        arguments: Sequence[str] = (),
        options: Sequence[str] = (),
        quota: int = QUOTA,
    ) -> None:
        read, write = os.pipe()
        command = [sys.executable, "-m", "farlane.frontend.cli", "fleet", part, "--address", address, *arguments]
        command += ["--quota", str(quota), "--listen", "grpc://127.0.0.1:0", "--admin", str(port)]
        command += ["--ready-fd", str(write), *options]
        self._process = subprocess.Popen(command, pass_fds=[write], stdout=subprocess.DEVNULL)
        os.close(write)
        with os.fdopen(read) as ready:
            self.url = ready.readline().strip()

    @property
    def worked(self) -> float:
        """Processor seconds of the gateway."""
        return worked(self._process.pid)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)


def worked(process: int) -> float:
    """Processor seconds of a process, with all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def placing(port: int) -> dict[str, float]:
    """Milliseconds of placements at the gateway, by percentile."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith("farlane_fleet_gateway_placing_seconds{")]
    return {line.partition('"')[2].partition('"')[0]: 1000 * float(line.rpartition(" ")[2]) for line in found}


def ratio(url: str, program: str) -> tuple[float, float]:
    """Milliseconds of a short program through the gateway, and directly; medians of pairs."""
    seconds: tuple[list[float], list[float]] = ([], [])
    with EmbeddedHost("sim", extra=("--listen", "grpc://127.0.0.1:0")) as host:
        guests = (Guest(url), Guest(host.url))
        for turn in range(PAIRS + 1):
            for guest, times in zip(guests, seconds, strict=True):
                environment = guest.environment(program, "calls")
                began = time.perf_counter()
                subprocess.run([program], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
                if turn:
                    times.append(1000 * (time.perf_counter() - began))
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=40)
    arguments = parser.parse_args()

    import ray
    from farlane.fleet.cluster import cluster as fleets
    from ray.cluster_utils import Cluster

    program = str(compile_program(install("13.0"), [SOURCE], "steady", Build()))
    ray_cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": STORE_BYTES, "include_dashboard": False},
    )
    each = -(-arguments.hosts // arguments.nodes)
    nodes = [
        ray_cluster.add_node(num_cpus=0, resources={"place": each}, object_store_memory=STORE_BYTES)
        for _ in range(arguments.nodes)
    ]
    fleets.connect(ray_cluster.address)
    hosts = ["--hosts", str(arguments.hosts), "--per-host", "place=1", "--policy", "spread"]
    options = ["--", "--device", "sim", "--workers", "thread", "--grace", "5", "--no-analyze"]
    gateway = Gateway("up", ray_cluster.address, BUSY_PORT, hosts, options)
    url = gateway.url
    fleet = fleets.Cluster()
    while len(fleet.state().hosts) < arguments.hosts:
        time.sleep(0.5)
    print(
        f"{arguments.nodes} nodes, {arguments.hosts} hosts, {arguments.sessions} sessions, {arguments.at_once} at once"
    )

    above: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            for host in fleet.state().hosts:
                if host.free_memory < 0 or host.report.most_reserved > host.capacity.memory:
                    above.append(host.name)

    watcher = threading.Thread(target=look)
    watcher.start()
    guest = Guest(url, "grpc")  # by shared memory they could not move
    killed: dict[str, Any] = {}
    moves: list[Any] = []

    def empty() -> None:
        """The host with the most sessions, once a quarter of all are placed."""
        while fleet.state().placed < arguments.sessions // 4:
            time.sleep(0.05)
        name = max(fleet.state().hosts, key=lambda host: host.sessions).name
        fleet.set_open(name, False)
        moves.extend(fleet.move_sessions(name, 10.0))
        fleet.set_open(name, True)

    def kill() -> None:
        """Ends a node that has sessions, once half of all are placed."""
        while fleet.state().placed < arguments.sessions // 2:
            time.sleep(0.05)
        node = max(
            nodes, key=lambda node: sum(host.sessions for host in fleet.state().hosts if host.node == node.node_id)
        )
        killed["hosts"] = [host.name for host in fleet.state().hosts if host.node == node.node_id]
        ray_cluster.remove_node(node, allow_graceful=False)

    killer, mover = threading.Thread(target=kill), threading.Thread(target=empty)
    killer.start()
    mover.start()
    began = time.perf_counter()
    with ThreadPoolExecutor(arguments.at_once) as pool:
        ended = list(pool.map(lambda number: work(guest, program, number), range(arguments.sessions)))
    seconds = time.perf_counter() - began
    killer.join()
    mover.join()
    state = fleet.state()
    times = placing(BUSY_PORT)
    over.set()
    watcher.join()
    right, lost = sum(one.is_right for one in ended), sum(one.is_lost for one in ended)
    others = [one for one in ended if not one.is_right and not one.is_lost]
    print(f"all in {seconds:.0f} s: {right} right, {lost} ended with {LOST}, {len(others)} otherwise")
    print(f"the killed node had {len(killed['hosts'])} hosts; {state.lost} sessions were placed on them")
    print("  (one that its host had not taken yet was led to another host, and is right)")
    held = sorted(1000 * each.seconds for each in moves if each.host is not None)
    print(
        f"the emptied host had {len(moves)} sessions: {len(held)} moved, held for {', '.join(f'{each:.0f}' for each in held)} ms"
    )
    for each in moves:
        if each.host is None:
            print(f"  one stayed: {each.why}")
    print(f"hosts above their memory: {len(above)}")
    print(f"placement at the gateway meanwhile: {times['50']:.1f} ms, 99 %: {times['99']:.1f} ms (goal: 5 ms)")
    print(
        f"  of it the decision: {state.decision_microseconds['50'] / 1000:.3f} ms, 99 %: {state.decision_microseconds['99'] / 1000:.3f} ms"
    )
    print(f"load of this machine: {os.getloadavg()[0]:.0f} on {os.cpu_count()} processors")
    for one in others[:5]:
        print(one, file=sys.stderr)
    gateway.stop()
    quiet = Gateway("gateway", ray_cluster.address, QUIET_PORT)
    led, direct = ratio(quiet.url, program)
    times = placing(QUIET_PORT)
    print(f"placement, one guest at a time: {times['50']:.1f} ms, 99 %: {times['99']:.1f} ms (goal: 5 ms)")
    print(f"a short program through the gateway: {led:.0f} ms, directly: {direct:.0f} ms, ratio {led / direct:.2f}")
    quiet.stop()
    fleet.stop()
    ray.shutdown()
    ray_cluster.shutdown()
    return 0 if not others and not above and lost <= state.lost else 1


if __name__ == "__main__":
    raise SystemExit(main())
