"""How long a session is held while it is moved to another host, beside what its memory takes on the way.

A guest fills memory with bytes that do not repeat, changes one page in a hundred again and again, and is moved between
two hosts of this machine, once with all memory sent while it is held, once with memory sent ahead. A bare Unix socket
that carries the same bytes is the link. Goal: held for at most 0.1 s and what memory takes on the link.

Before that, what a byte of memory costs the processor while the session is held, which a busy machine changes little:
found to be unchanged by comparing (moves) or by hashing (saves), and written at the other host; beside a link of 10
Gbit/s.

    python benchmarks/host/moving.py [MEBIBYTES ...]

`16 64 256` takes a minute.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import socket
import threading
import time
from typing import Any

import grpc
from farlane.backend.checkpoint.blobs import DIGEST_BYTES, Offers, Reader, digest_of
from farlane.backend.commands.session import Figures, move
from farlane.backend.device.base import Rows
from farlane.backend.device.sim.device import SimDevice
from farlane.backend.handlers.generated_operations import encode
from farlane.frontend.embedded import EmbeddedHost
from farlane.v1 import session_pb2 as pb

PAGE, PIECE = 4096, 1 << 20
GOAL_SECONDS = 0.1
TEN_GIGABIT = 1.25e9  # bytes in a second
PARTS_BYTES = 64 << 20
SHARE = 100  # one page in so many changes


class Guest:
    """A session by TCP, message by message."""

    def __init__(self, target: str) -> None:
        self._group = 0
        self._connect(target)
        self._send(hello=pb.Hello(tape_version_min=1, tape_version_max=6, program="moving", mode="calls", resumes=True))
        self.welcome = next(self._call).welcome

    def _connect(self, target: str) -> None:
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._channel = grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])
        open_session = self._channel.stream_stream(
            "/farlane.v1.SessionService/Open", response_deserializer=pb.HostMessage.FromString
        )
        self._call = open_session(iter(self._outgoing.get, None))

    def _send(self, **message: Any) -> None:
        self._outgoing.put(pb.GuestMessage(**message).SerializeToString())

    def does(self, records: bytes) -> None:
        self._group += 1
        self._send(tape=pb.Tape(group=self._group, records=records, last=True))
        reply = next(self._call).reply
        if (reply.group, reply.error) != (self._group, 0):
            raise SystemExit(f"a group has failed: {reply}")

    def writes(self, address: int, data: bytes) -> None:
        self.does(encode("WRITE", address, len(data), len(data), 1, 1, len(data), tail=data))


def link_seconds(size: int) -> float:
    """What so many bytes take through a Unix socket."""
    one, other = socket.socketpair()
    data = bytes(PIECE)

    def send() -> None:
        for _ in range(size // PIECE):
            one.sendall(data)
        one.close()

    sender = threading.Thread(target=send)
    began = time.perf_counter()
    sender.start()
    while other.recv(PIECE):
        pass
    sender.join()
    return time.perf_counter() - began


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measure(mebibytes: int, rounds: int) -> tuple[Figures, float]:
    ports = free_port(), free_port()
    first, second = (
        EmbeddedHost("sim", extra=("--listen", f"grpc://127.0.0.1:{port}", "--workers", "thread")) for port in ports
    )
    with first, second:
        guest = Guest(f"127.0.0.1:{ports[0]}")
        base, chance = guest.welcome.window_base, random.Random(1)
        guest.does(encode("ALLOCATE", base, mebibytes * PIECE))
        for piece in range(mebibytes):
            guest.writes(base + piece * PIECE, chance.randbytes(PIECE))
        over = threading.Event()

        def change() -> None:
            while not over.is_set():
                try:
                    guest.writes(base + chance.randrange(mebibytes * PIECE // PAGE // SHARE) * PAGE, os.urandom(8))
                except (grpc.RpcError, StopIteration):
                    return  # it was moved
                time.sleep(0.001)

        changing = threading.Thread(target=change)
        changing.start()
        try:
            _, figures, seconds = move(
                first.url, "s1", second.url, wait=30.0, rounds=rounds, guests=f"grpc://127.0.0.1:{ports[1]}"
            )
        finally:
            over.set()
            changing.join()
        return figures, seconds


def parts() -> None:
    """The processor's time for the parts of a pause."""
    device = SimDevice(threads=1, total_memory=1 << 30)
    context = device.open_context(1 << 30)
    base, content, blobs = context.window.base, os.urandom(PARTS_BYTES), dict[bytes, bytes]()
    context.allocate(base, PARTS_BYTES)
    context.write(Rows(base, PARTS_BYTES, PARTS_BYTES, 1), memoryview(content), context.default_stream(1))
    reader = Reader(Offers(lambda page: blobs.update({digest_of(page): page})), keeps=True)
    runs = reader.read(context.mapped())
    hashing = Reader(Offers(lambda page: None, blobs), keeps=False)

    def write() -> None:
        for run in runs:
            digests = [run.digests[at : at + DIGEST_BYTES] for at in range(0, len(run.digests), DIGEST_BYTES)]
            for first in range(0, len(digests), PIECE // PAGE):
                data = b"".join(map(blobs.__getitem__, digests[first : first + PIECE // PAGE]))
                context.write_pages(run.address + first * PAGE, data)

    print(f"{'part':>24} {'GB/s':>6} {'processor / 10 Gbit/s':>22}")
    for name, work in (
        ("compared", lambda: reader.read(context.mapped())),
        ("hashed", lambda: hashing.read(context.mapped())),
        ("written", write),
    ):
        began = time.thread_time()
        work()
        rate = PARTS_BYTES / (time.thread_time() - began)
        print(f"{name:>24} {rate / 1e9:>6.2f} {TEN_GIGABIT / rate:>22.2f}")
    device.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mebibytes", nargs="*", type=int, default=[16, 64, 256])
    arguments = parser.parse_args()
    parts()
    print(f"{'MiB':>5} {'ahead':>6} {'pages':>7} {'held':>7} {'whole':>7} {'link':>7} {'held / (0.1 s + link)':>22}")
    for mebibytes in arguments.mebibytes:
        for rounds in (0, 3):
            figures, seconds = measure(mebibytes, rounds)
            link = link_seconds(mebibytes * PIECE)
            ratio = figures.paused / (GOAL_SECONDS + link)
            late = figures.sent - figures.sent_ahead
            print(
                f"{mebibytes:>5} {'yes' if rounds else 'no':>6} {late:>7} {figures.paused:>7.3f} {seconds:>7.3f} {link:>7.3f} {ratio:>22.2f}"
            )


if __name__ == "__main__":
    main()
