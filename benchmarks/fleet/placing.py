"""What a fleet's gateway takes to place sessions that come at the same time, beside bare connections of the same machine.

    make test-fleet                                    # once: makes .cache/fleet
    .cache/fleet/bin/python benchmarks/fleet/placing.py [--hosts 16] [--at-once 1 40 200]

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
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
import grpc.aio
from cluster import Gateway, placing, worked
from farlane.fleet.gateway.roster import percentiles
from farlane.v1 import session_pb2 as pb

PORT = 17073
STORE_BYTES = 80 << 20
SETTLE_SECONDS = 2.0
START_SECONDS = 240.0  # for the hosts
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

    import ray
    from farlane.fleet.cluster import cluster as fleets
    from ray.cluster_utils import Cluster

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
