"""What a fleet's gateway takes to place sessions that come at the same time, beside bare connections of the same machine.

    make test-fleet                                    # once: makes .cache/fleet
    .cache/fleet/bin/python benchmarks/fleet/placing.py [--hosts 16] [--at-once 1 40 200]

First it asks the roster as a gateway does, over the line that a gateway has, and by Ray's calls, which gateways have used before.
Guests are Hellos by hand on open connections: no program is started, and no session opened. Prints for each number at once the
gateway's own time and the guests', how long as many bare TCP connections to one process take that answers a byte, and what
processor time a placement costs the gateway and the roster: on a machine that does other work, times wait for processors.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import socket
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import ray
from cluster import Gateway, placing, worked
from farlane.fleet.cluster import cluster as fleets
from farlane.fleet.cluster.batching import Batches
from farlane.fleet.gateway.roster import percentiles
from farlane.fleet.placement.book import Limits
from farlane.fleet.placement.hosts import Request
from farlane.v1 import session_pb2 as pb
from ray.cluster_utils import Cluster

PORT = 17073
STORE_BYTES = 80 << 20
SETTLE_SECONDS = 2.0
START_SECONDS = 240.0  # for the hosts
Asked = tuple[Request, Limits]
ASKED = 1000  # questions to the roster, by each way
LEAST = 200  # sessions of each number at once
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
    print(f"{arguments.hosts} hosts; milliseconds: median; 99 %; processor time of each placement")
    print(
        f"{'at once':>8}{'at the gateway':>18}{'guest: Hello to answer':>26}{'bare connection':>20}{'ratio':>8}"
        f"{'gateway':>9}{'roster':>8}{'load':>6}"
    )
    for at_once in arguments.at_once:
        gateway = Gateway("gateway", cluster.address, PORT, quota=1 << 20)
        time.sleep(SETTLE_SECONDS)
        guests: list[float] = []
        bare: list[float] = []
        asyncio.run(_guests(gateway.url, 1))
        before = gateway.worked, worked(roster)
        while len(guests) < LEAST:
            guests += asyncio.run(_guests(gateway.url, at_once))
            bare += asyncio.run(_connections(port, at_once))
        costs = [
            1000 * (now - then) / len(guests)
            for now, then in zip((gateway.worked, worked(roster)), before, strict=True)
        ]
        own, told, other = placing(PORT), percentiles(guests), percentiles(bare)
        print(
            f"{at_once:>8}{own['50']:>10.1f}; {own['99']:<6.1f}{1000 * told['50']:>15.1f}; {1000 * told['99']:<9.1f}"
            f"{1000 * other['50']:>11.1f}; {1000 * other['99']:<7.1f}"
            f"{statistics.median(guests) / statistics.median(bare):>8.1f}{costs[0]:>9.1f}{costs[1]:>8.1f}{os.getloadavg()[0]:>6.0f}",
            flush=True,
        )
        gateway.stop()
    server.kill()
    fleet.stop()
    ray.shutdown()
    cluster.shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
