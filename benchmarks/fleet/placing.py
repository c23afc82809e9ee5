"""What a fleet's gateway takes to place sessions that come at the same time, beside bare connections of the same machine.

    make test-fleet                                    # once: makes .cache/fleet
    .cache/fleet/bin/python benchmarks/fleet/placing.py [--hosts 16] [--at-once 1 40 200]

First it asks the roster as a gateway does, over the line that a gateway has, and by Ray's calls, which gateways have used before.
Guests are Hellos by hand on open connections: no program is started, and no session opened. Prints for each number at once what a
placement takes at the gateway from the guest's turn on, how long guests wait for their turn, and for how long from their Hello to
the answer; how long as many bare TCP connections to one process take that answers a byte; and what processor time a placement costs
the gateway and the roster: on a machine that does other work, times wait for processors. Each line is measured twice, by turns: with
a gateway that lets all guests in at once (which gateways did before), and with one that lets in as many as gateways do.

Then it prints what the placements of the latter consist of (means, which add up): the call to the roster that took a guest's question;
waiting for the call before that and for being woken; waiting for a turn again after either; the connection to the host; the rest.
Beside them: what the roster's decision takes of a call, waiting for the first turn, and the processor time of a guest's thread.
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
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import ray
from cluster import Gateway, worked
from farlane.backend.commands.serve import SWITCH_SECONDS
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import TcpEndpoint
from farlane.fleet.cluster import cluster as fleets
from farlane.fleet.cluster.batching import Batches
from farlane.fleet.gateway import gateway as gateways
from farlane.fleet.gateway.roster import percentiles
from farlane.fleet.placement.book import Limits
from farlane.fleet.placement.hosts import Request
from farlane.v1 import session_pb2 as pb
from parts import PARTS
from parts import Gateway as Measured
from ray.cluster_utils import Cluster

PORT = 17073
STORE_BYTES = 80 << 20
START_SECONDS = 240.0  # for the hosts
Asked = tuple[Request, Limits]
ASKED = 1000  # questions to the roster, by each way
LEAST = 400  # sessions of each number at once
OPEN = "/farlane.v1.SessionService/Open"
HELLO = pb.GuestMessage(
    hello=pb.Hello(tape_version_min=1, tape_version_max=6, program="t", mode="calls", follows=True)
).SerializeToString()


async def _guests(url: str, at_once: int) -> list[float]:
    """Seconds of each Hello; all are said at the same time."""
    channels = [
        grpc.aio.insecure_channel(url.removeprefix("grpc://"), options=[("grpc.use_local_subchannel_pool", 1)])
        for _ in range(at_once)
    ]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))

    async def say(channel: grpc.aio.Channel) -> float:
        call = channel.stream_stream(OPEN, response_deserializer=pb.HostMessage.FromString)()
        began = time.perf_counter()
        await call.write(HELLO)
        answer = await call.read()
        seconds = time.perf_counter() - began
        assert answer.WhichOneof("kind") == "elsewhere", answer
        call.cancel()
        return seconds

    try:
        return list(await asyncio.gather(*(say(channel) for channel in channels)))
    finally:
        await asyncio.gather(*(channel.close() for channel in channels))


def _answer(ready: Connection) -> None:
    """Answers each connection with a byte, on a thread of its own, as a host does."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    ready.send(listener.getsockname()[1])

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.sendall(b"x")

    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],)).start()


def _asking(
    fleet: fleets.Cluster, call: Callable[[Sequence[Asked]], Sequence[Any]], roster: int, at_once: int
) -> tuple[dict[str, float], float, float]:
    """Milliseconds of each question, of so many at once, by percentile; processor milliseconds of each, here and at the roster."""
    batches: Batches[Asked, Any] = Batches(call)
    asked = Request("guests", "null", 1 << 20), Limits()
    seconds: list[float] = []
    numbers: list[int] = []
    gate = threading.Barrier(at_once)

    def ask() -> None:
        gate.wait()
        began = time.perf_counter()
        numbers.append(batches.ask(asked).number)
        seconds.append(time.perf_counter() - began)

    before = time.process_time(), worked(roster)
    while len(seconds) < ASKED:
        threads = [threading.Thread(target=ask) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    here, there = time.process_time() - before[0], worked(roster) - before[1]
    for number in numbers:
        fleet.leave(number)
    times = {name: 1000 * each for name, each in percentiles(seconds).items()}
    return times, 1000 * here / len(seconds), 1000 * there / len(seconds)


def _compare_ways(fleet: fleets.Cluster, roster: int, numbers: Sequence[int]) -> None:
    """Prints what a question costs by each way; the ratio is of processor time, here and at the roster."""
    ways: dict[str, Callable[[Sequence[Asked]], Sequence[Any]]] = {
        "Ray's call": lambda asked: fleet._ask("ask_all", list(asked)),
        "the line": fleet._ask_all,
    }
    print(f"{'at once':>8}  {'asking by':<12}{'milliseconds':>16}{'gateway':>9}{'roster':>8}{'ratio':>8}{'load':>6}")
    for at_once in numbers:
        costs: list[float] = []
        for name, call in ways.items():
            call([])  # it is connected
            times, here, there = _asking(fleet, call, roster, at_once)
            costs.append(here + there)
            ratio = f"{costs[0] / costs[-1]:>8.1f}" if len(costs) > 1 else f"{'':>8}"
            print(
                f"{at_once:>8}  {name:<12}{times['50']:>8.2f}; {times['99']:<6.1f}{here:>9.2f}{there:>8.2f}{ratio}"
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

    def times(self) -> tuple[dict[str, float], dict[str, float], tuple[dict[str, float], float, float, float]]:
        """Milliseconds by percentile: of placements from their turn on, and of waiting for that; and `Measured.parts`. Since
        this was last asked."""
        self._ours.send(True)
        placing, turn, parts = self._ours.recv()
        return placing, turn, parts

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


def _lead(pipe: Connection, address: str, at_once: float) -> None:
    sys.setswitchinterval(SWITCH_SECONDS)
    fleets.connect(address)
    fleet = fleets.Cluster()
    gateway = Measured(fleet, fleet.descriptions(START_SECONDS), quota=1 << 20, at_once=at_once)
    edge = Edge(gateway)
    (endpoint,) = edge.listen([TcpEndpoint("127.0.0.1", 0)])
    gateway.gate = edge.gate
    pipe.send(str(endpoint))
    while pipe.recv():
        found = gateway.placing_percentiles, gateway.turn_percentiles
        times = [{name: 1000 * seconds for name, seconds in each.items()} for each in found]
        pipe.send([*times, gateway.parts()])
        gateway._placing.clear()
        gateway.turns.waits.clear()


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


def _compare(settings: dict[str, Led], at_once: int, port: int, roster: int) -> str:
    """Prints a line for each; they are measured by turns. Gives the line of the last one's parts."""
    guests: dict[str, list[float]] = {name: [] for name in settings}
    costs = {name: [0.0, 0.0] for name in settings}
    bare: list[float] = []
    for gateway in settings.values():
        gateway.times()
    for _ in range(-(-LEAST // at_once)):
        for name, gateway in settings.items():
            before = gateway.worked, worked(roster)
            guests[name] += asyncio.run(_guests(gateway.url, at_once))
            costs[name][0] += gateway.worked - before[0]
            costs[name][1] += worked(roster) - before[1]
        bare += asyncio.run(_connections(port, at_once))
    first = ""
    for name, gateway in settings.items():
        placing, turn, (parts, mean, thread, first_turn) = gateway.times()
        told, other = percentiles(guests[name]), percentiles(bare)
        own, theirs = (1000 * cost / len(guests[name]) for cost in costs[name])
        first = first or name
        faster = statistics.median(guests[first]) / statistics.median(guests[name])
        cheaper = sum(costs[first]) / max(1e-9, sum(costs[name]))
        print(
            f"{at_once:>8}  {name:<8}{placing['50']:>8.2f}; {placing['99']:<6.1f}{turn['50']:>8.2f}; {turn['99']:<6.1f}"
            f"{1000 * told['50']:>10.1f}; {1000 * told['99']:<6.1f}{faster:>7.2f}"
            f"{1000 * other['50']:>10.1f}; {1000 * other['99']:<6.1f}{own:>9.2f}{theirs:>8.2f}{cheaper:>7.2f}"
            f"{os.getloadavg()[0]:>6.0f}",
            flush=True,
        )
    each = "".join(f"{parts[part]:>13.2f}" for part in PARTS)
    return f"{at_once:>8}{each}{mean:>10.2f}{first_turn:>12.2f}{thread:>18.2f}{os.getloadavg()[0]:>6.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=16)
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
    roster = _roster()
    _compare_ways(fleet, roster, arguments.at_once)
    print(
        f"{arguments.hosts} hosts; milliseconds: median; 99 %; processor time of each placement, ratios to all at once"
    )
    print(
        f"{'at once':>8}  {'let in':<8}{'placing':>16}{'wait for turn':>16}{'Hello to answer':>18}{'ratio':>7}"
        f"{'bare connection':>18}{'gateway':>9}{'roster':>8}{'ratio':>7}{'load':>6}"
    )
    settings = {"all": Led(cluster.address, math.inf), f"{gateways.AT_ONCE}": Led(cluster.address, gateways.AT_ONCE)}
    for each in settings.values():
        asyncio.run(_guests(each.url, 1))
    lines = [_compare(settings, at_once, port, roster) for at_once in arguments.at_once]
    decision = fleet.state().decision_microseconds
    print(f"parts, means in milliseconds; a decision of the roster: {decision['50']:.0f}; {decision['99']:.0f} us")
    parts = "".join(f"{part:>13}" for part in PARTS)
    print(f"{'at once':>8}{parts}{'placing':>10}{'first turn':>12}{'thread processor':>18}{'load':>6}")
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
