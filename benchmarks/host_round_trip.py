"""A small round trip to the host beside bare gRPC of the same size: what the host's own code adds, and why its edge is built so.

Servers run in processes of their own and take turns, several rounds, so that a noisy machine disturbs all alike. Printed for each: the
median time of a round trip, the server's processor time for one, and the ratio to bare synchronous gRPC on the same transport.

- bare sync: grpcio's synchronous server echoes messages.
- bare aio: grpcio's asyncio server echoes messages.
- bare hand-off: as bare sync, but a second thread computes the echo: an edge that queues groups for a worker.
- farlane: `farlane serve --device null` (backend/plane), a group with one FENCE.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
from farlane.backend.handlers.generated_operations import encode
from farlane.v1 import session_pb2 as pb

KINDS = ("bare sync", "bare aio", "bare hand-off", "farlane")
METHOD = "/farlane.v1.SessionService/Open"
FENCE = encode("FENCE", 1, 0)


def handlers(behaviour: Any) -> Any:
    method = grpc.stream_stream_rpc_method_handler(behaviour)
    return grpc.method_handlers_generic_handler("farlane.v1.SessionService", {"Open": method})


def echo(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
    yield from requests


def echo_by_another_thread(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
    incoming: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    outgoing: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def work() -> None:
        while (message := incoming.get()) is not None:
            outgoing.put(message)

    threading.Thread(target=work, daemon=True).start()
    for request in requests:
        incoming.put(request)
        yield outgoing.get()
    incoming.put(None)


async def echo_aio(requests: Any, context: Any) -> None:
    while (message := await context.read()) is not grpc.aio.EOF:
        await context.write(message)


async def serve_aio(target: str) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handlers(echo_aio),))
    server.add_insecure_port(target)
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


def serve(kind: str, target: str) -> None:
    if kind == "bare aio":
        asyncio.run(serve_aio(target))
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((handlers(echo if kind == "bare sync" else echo_by_another_thread),))
    server.add_insecure_port(target)
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()


def start(kind: str, target: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--serve", kind, target]
    if kind == "farlane":
        url = target if target.startswith("unix:") else f"grpc://{target}"
        command = [sys.executable, "-m", "farlane.backend.commands.serve", "--device", "null", "--listen", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    if not process.stdout.readline():
        raise SystemExit(f"{kind} did not start")
    return process


def processor_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(kind: str, target: str, count: int) -> list[float]:
    """Seconds of each round trip."""
    outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    with grpc.insecure_channel(
        target, options=[("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost")]
    ) as channel:
        incoming = channel.stream_stream(METHOD)(iter(outgoing.get, None))
        if kind == "farlane":
            hello = pb.Hello(tape_version_min=1, tape_version_max=1, mode="calls", program="benchmark")
            outgoing.put(pb.GuestMessage(hello=hello).SerializeToString())
            next(incoming)
        tapes = (pb.GuestMessage(tape=pb.Tape(group=n + 1, records=FENCE, last=True)) for n in range(count))
        times = []
        for message in [tape.SerializeToString() for tape in tapes]:
            started = time.perf_counter()
            outgoing.put(message)
            next(incoming)
            times.append(time.perf_counter() - started)
        outgoing.put(None)
    return times[count // 10 :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=1000, help="round trips of each kind in a round")
    parser.add_argument("--serve", nargs=2, metavar=("KIND", "TARGET"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(*arguments.serve)
        return
    folder = tempfile.mkdtemp(prefix="farlane-bench-")
    first_port = 20_000 + os.getpid() % 20_000
    for transport in ("tcp", "unix"):
        servers: dict[str, tuple[str, subprocess.Popen[str]]] = {}
        for number, kind in enumerate(KINDS):
            target = f"127.0.0.1:{first_port + number}" if transport == "tcp" else f"unix://{folder}/{number}.sock"
            servers[kind] = (target, start(kind, target))
        times: dict[str, list[float]] = defaultdict(list)
        processor: dict[str, float] = defaultdict(float)
        for _ in range(arguments.rounds):
            for kind, (target, process) in servers.items():
                before = processor_seconds(process.pid)
                times[kind].append(statistics.median(measure(kind, target, arguments.count)))
                processor[kind] += processor_seconds(process.pid) - before
        for _, process in servers.values():
            process.terminate()
            process.wait()
        total = arguments.rounds * arguments.count
        bare = statistics.median(times["bare sync"])
        for kind in KINDS:
            middle = statistics.median(times[kind])
            print(
                f"{transport:4} {kind:13} {middle * 1e6:6.0f} us  ratio {middle / bare:4.2f}  "
                f"server {processor[kind] / total * 1e6:4.0f} us of processor time"
            )


if __name__ == "__main__":
    main()
