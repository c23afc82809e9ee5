"""What a fleet's gateway takes to place sessions that come at the same time, beside bare connections of the same machine.

    make test-fleet                                    # once: makes .cache/fleet
    .cache/fleet/bin/python benchmarks/fleet/placing.py [--hosts 4] [--known 1000] [--at-once 1 40 200]

First it asks the roster as a gateway does, over the lines that a gateway has, and by Ray's calls. Then guests say Hello on open
connections (hellos.py): no program is started, and no session opened. For each number at once it prints what a placement takes at the
gateway from the guest's turn on, how long guests wait for their turn, and for how long from their Hello to the answer; how long as
many bare TCP connections to one process take that answers a byte; and what processor time a placement costs the gateway, the roster
and the guest. `least` is half of all that processor time, spread over all processors: about what the median from Hello to answer
would be if nothing ever waited (opening and closing the connections is part of it, too). Each line is measured twice, by turns: with a gateway that works for all guests at once, and with one that works for as many as
gateways do. All that again where the roster knows 1,000 hosts, each at an address of its own.

Last come the parts of the latter's placements: the question to the roster and the connection to the host.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import multiprocessing
import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import ray
from cluster import Gateway, worked
from farlane.backend.commands.serve import SWITCH_SECONDS
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import TcpEndpoint
from farlane.fleet.cluster import cluster as fleets
from farlane.fleet.cluster.actors import NAMESPACE, ROSTER
from farlane.fleet.gateway import gateway as gateways
from farlane.fleet.gateway.roster import RECENT, Place, Target, percentiles
from farlane.fleet.placement.book import Limits
from farlane.fleet.placement.hosts import Capacity, Request
from hellos import say_all
from ray.cluster_utils import Cluster

PORT = 17073
STORE_BYTES = 80 << 20
START_SECONDS = 240.0  # for the hosts
Ask = Callable[[Request, Limits], Any]
ASKED = 1000  # questions to the roster, by each way
LEAST = RECENT  # sessions of each number at once: all times that the gateway keeps are theirs
BACKLOG = 1024


def _answer(ready: Connection) -> None:
    """Answers each connection with a byte, on a thread of its own, as a host does."""
    listener = socket.create_server(("", 0), backlog=BACKLOG)  # known hosts are at any address of loopback's network
    ready.send(listener.getsockname()[1])

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # a gateway only looks whether a host is there
            connection.sendall(b"x")

    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],)).start()


def _asking(ask: Ask, roster: int, threads: int) -> tuple[dict[str, float], float, float]:
    """Milliseconds of each question, of so many at once, by percentile; processor milliseconds of each, here and at the roster."""
    request, limits = Request("guests", "null", 1 << 20), Limits()
    seconds: list[float] = []
    numbers: list[int] = []

    def work() -> None:
        for _ in range(ASKED // threads):
            began = time.perf_counter()
            found: Place = ask(request, limits)
            seconds.append(time.perf_counter() - began)
            numbers.append(found.number)

    before = time.process_time(), worked(roster)
    started = [threading.Thread(target=work) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    here, there = time.process_time() - before[0], worked(roster) - before[1]
    ray.get(ray.get_actor(ROSTER, NAMESPACE).leave_all.remote(numbers))
    times = {name: 1000 * each for name, each in percentiles(seconds).items()}
    return times, 1000 * here / len(seconds), 1000 * there / len(seconds)


def _compare_ways(fleet: fleets.Cluster, actor: Any, roster: int) -> None:
    """Prints what a question costs by each way; the ratio is of processor time, here and at the roster."""
    ways: dict[str, Ask] = {
        "Ray's call": lambda request, limits: ray.get(actor.ask.remote(request, limits)),
        "the line": fleet.ask,
    }
    print(f"{'at once':>8}  {'asking by':<12}{'milliseconds':>16}{'gateway':>9}{'roster':>8}{'ratio':>8}{'load':>6}")
    for threads in (1, gateways.AT_ONCE):
        costs: list[float] = []
        for name, ask in ways.items():
            times, here, there = _asking(ask, roster, threads)
            costs.append(here + there)
            ratio = f"{costs[0] / costs[-1]:>8.1f}" if len(costs) > 1 else f"{'':>8}"
            print(
                f"{threads:>8}  {name:<12}{times['50']:>8.2f}; {times['99']:<6.1f}{here:>9.2f}{there:>8.2f}{ratio}"
                f"{os.getloadavg()[0]:>6.0f}",
                flush=True,
            )


class Led:
    """A gateway in a process of its own, which lets so many guests in at once."""

    def __init__(self, address: str, at_once: float) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_lead, args=(theirs, address, at_once), daemon=True
        )
        self._process.start()
        self.url: str = self._ours.recv()

    @property
    def worked(self) -> float:
        assert self._process.pid is not None
        return worked(self._process.pid)

    def times(self) -> dict[str, dict[str, float]]:
        """Milliseconds of the recent placements, by percentile (`Gateway.times`). Frees all places that it has given."""
        self._ours.send(True)
        found: dict[str, dict[str, float]] = self._ours.recv()
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


class _Recorded(fleets.Cluster):
    """Keeps the numbers of the sessions that it has placed: no guest comes, and the places would lapse all at once."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: list[int] = []

    def ask(self, request: Request, limits: Limits) -> Any:
        found = super().ask(request, limits)
        self._numbers.append(found.number)
        return found

    def leave_all(self) -> None:
        ray.get(ray.get_actor(ROSTER, NAMESPACE).leave_all.remote(self._numbers))
        self._numbers.clear()


def _lead(pipe: Connection, address: str, at_once: float) -> None:
    sys.setswitchinterval(SWITCH_SECONDS)
    fleets.connect(address)
    fleet = _Recorded()
    gateway = gateways.Gateway(fleet, fleet.descriptions(START_SECONDS), quota=1 << 20, at_once=at_once)
    edge = Edge(gateway)
    (endpoint,) = edge.listen([TcpEndpoint("127.0.0.1", 0)])
    gateway.gate = edge.gate
    pipe.send(str(endpoint))
    while pipe.recv():
        fleet.leave_all()
        pipe.send({name: {part: 1000 * each for part, each in times.items()} for name, times in gateway.times.items()})


def _roster() -> int:
    """Its process, by the name that Ray gives it."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if b"ray::RosterActor" in (entry / "cmdline").read_bytes():
                    return int(entry.name)
    raise SystemExit("the roster's process is not here")


async def _connections(port: int, at_once: int) -> list[float]:
    async def connect() -> float:
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await reader.readexactly(1)
        seconds = time.perf_counter() - began
        writer.close()
        return seconds

    return list(await asyncio.gather(*(connect() for _ in range(at_once))))


def _compare(settings: dict[str, Led], hosts: int, at_once: int, port: int, roster: int) -> str:
    """Prints a line for each; they are measured by turns. Gives the line of the last one's parts."""
    guests: dict[str, list[float]] = {name: [] for name in settings}
    costs = {name: [0.0, 0.0, 0.0] for name in settings}
    times: dict[str, dict[str, dict[str, float]]] = {}
    bare: list[float] = []
    for _ in range(-(-LEAST // at_once)):
        for name, gateway in settings.items():
            before = gateway.worked, worked(roster), time.process_time()
            guests[name] += say_all(gateway.url, at_once)
            after = gateway.worked, worked(roster), time.process_time()
            worked_for = (b - a for a, b in zip(before, after, strict=True))
            costs[name] = [sum(each) for each in zip(costs[name], worked_for, strict=True)]
            times[name] = gateway.times()
        bare += asyncio.run(_connections(port, at_once))
    first = next(iter(settings))
    for name in settings:
        told, other = percentiles(guests[name]), percentiles(bare)
        placing, turn = times[name]["placing"], times[name]["turn"]
        cost = [1000 * each / len(guests[name]) for each in costs[name]]
        least = sum(cost) * at_once / 2 / (os.cpu_count() or 1)
        faster = statistics.median(guests[first]) / statistics.median(guests[name])
        cheaper = sum(costs[first]) / max(1e-9, sum(costs[name]))
        print(
            f"{hosts:>8}{at_once:>8}  {name:<8}{placing['50']:>8.2f}; {placing['99']:<6.1f}{turn['50']:>8.2f}; {turn['99']:<6.1f}"
            f"{1000 * told['50']:>10.1f}; {1000 * told['99']:<6.1f}{faster:>7.2f}{least:>7.1f}"
            f"{1000 * other['50']:>10.1f}; {1000 * other['99']:<6.1f}{cost[0]:>9.2f}{cost[1]:>8.2f}{cost[2]:>8.2f}{cheaper:>7.2f}"
            f"{os.getloadavg()[0]:>6.0f}",
            flush=True,
        )
    parts = "".join(
        f"{times[name][part]['50']:>12.2f}; {times[name][part]['99']:<6.1f}"
        for part in ("question", "connection", "placing")
    )
    return f"{hosts:>8}{at_once:>8}{parts}{os.getloadavg()[0]:>6.0f}"


def _make_known(actor: Any, hosts: int, known: int, port: int) -> None:
    """So many hosts in the roster's account, besides those that there are; each is a port that takes connections."""
    capacity = Capacity("null", 80 << 30, 4096)
    made = []
    for number in range(hosts, known):
        url = f"grpc://127.1.{number // 250}.{1 + number % 250}:{port}"
        made.append(actor.add_host.remote(f"known-{number}", "known", capacity, Target(url, key=bytes(32))))
    ray.get(made)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--known", type=int, default=1000)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 40, 200])
    arguments = parser.parse_args()

    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1,
            "resources": {"place": arguments.hosts},
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
        },
    )
    fleets.connect(cluster.address)
    options = ["--", "--device", "null", "--workers", "thread", "--sessions", "4096", "--no-analyze"]
    hosts = ["--hosts", str(arguments.hosts), "--per-host", "place=1", "--policy", "spread"]
    first = Gateway("up", cluster.address, PORT, hosts, options, 1 << 20)
    fleet = fleets.Cluster()
    deadline = time.monotonic() + START_SECONDS
    while len(fleet.state().hosts) < arguments.hosts:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {len(fleet.state().hosts)} hosts have begun within {START_SECONDS:.0f} s")
        time.sleep(0.5)
    first.stop()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_answer, args=(theirs,), daemon=True)
    server.start()
    port = ours.recv()
    roster, actor = _roster(), ray.get_actor(ROSTER, NAMESPACE)
    _compare_ways(fleet, actor, roster)
    print("milliseconds: median; 99 %; processor time of each placement; ratios to all at once")
    print(
        f"{'hosts':>8}{'at once':>8}  {'let in':<8}{'placing':>16}{'wait for turn':>16}{'Hello to answer':>18}{'ratio':>7}"
        f"{'least':>7}{'bare connection':>18}{'gateway':>9}{'roster':>8}{'guest':>8}{'ratio':>7}{'load':>6}"
    )
    settings = {"all": Led(cluster.address, math.inf), f"{gateways.AT_ONCE}": Led(cluster.address, gateways.AT_ONCE)}
    for each in settings.values():
        say_all(each.url, 1)
    lines, decisions = [], []
    for hosts in (arguments.hosts, arguments.known):
        _make_known(actor, arguments.hosts, hosts, port)
        lines += [_compare(settings, hosts, at_once, port, roster) for at_once in arguments.at_once]
        times = fleet.state().decision_microseconds
        decisions.append(f"{times['50']:.0f}; {times['99']:.0f} us with {hosts} hosts")
    print(f"parts, in milliseconds; a decision of the roster: {', '.join(decisions)}")
    print(f"{'hosts':>8}{'at once':>8}{'question':>20}{'connection':>20}{'placing':>20}{'load':>6}")
    print("\n".join(lines))
    for each in settings.values():
        each.stop()
    server.kill()
    fleet.stop()
    ray.shutdown()
    cluster.shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
