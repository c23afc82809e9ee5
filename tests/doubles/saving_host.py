"""A host in this process that saves and restores sessions, and a guest of it that speaks gRPC by itself, group by group."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from farlane.backend.commands import session as command
from farlane.backend.device.base import Device
from farlane.backend.device.sim.device import SimDevice
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.host import Host
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import parse
from farlane.hosturl import parse as parse_url
from farlane.hosturl.description import describe
from farlane.v1 import session_pb2 as pb
from raw_guest import HELLO, Wire


def simulated() -> Device:
    return SimDevice(threads=1, total_memory=1 << 30)


class Served:
    def __init__(
        self, folder: Path, name: str, restored: tuple[Path, ...] = (), open_device: Callable[[], Device] = simulated
    ) -> None:
        self.host = Host(open_device())
        self.edge = Edge(self.host, grace=20.0, restored=restored)
        self.url = f"unix://{folder}/{name}.sock"
        self.targets = [each.target for each in self.edge.listen([parse("grpc://127.0.0.1:0"), parse(self.url)])]

    def names(self) -> list[str]:
        return [each.name for each in describe(parse_url(self.url)).open]

    def close(self) -> None:
        self.edge.stop(1)
        self.host.close()


class Guest:
    """Groups of records, and what they answer."""

    def __init__(self, served: Served) -> None:
        self._group = 0
        self._received = 1
        self.wire = Wire(served.targets[0])
        self.wire.send(hello=HELLO)
        self.welcome = self.wire.receive().welcome
        self.base = self.welcome.window_base

    def does(self, *records: bytes) -> pb.Reply:
        self._group += 1
        self.wire.send(tape=pb.Tape(group=self._group, records=b"".join(records), last=True))
        results = b""
        while True:
            reply = self.wire.receive().reply
            self._received += 1
            assert (reply.group, reply.error) == (self._group, 0), reply
            results += reply.results
            if reply.last:
                return pb.Reply(results=results)

    def comes_again(self, served: Served) -> None:
        self.wire.breaks()
        self.wire = Wire(served.targets[0])
        secret = self.welcome.resume_secret
        self.wire.send(resume=pb.Resume(session=self.welcome.session, secret=secret, received=self._received))
        assert self.wire.receive().resumed.received == self._group

    def read(self, address: int, size: int) -> bytes:
        results = self.does(encode("READ", address, size, size, 1, 1, 7)).results
        assert struct.unpack_from("<i", results, 12) == (0,)
        return results[32 : 32 + size]


@contextlib.contextmanager
def serving(
    folder: Path, name: str, restored: tuple[Path, ...] = (), open_device: Callable[[], Device] = simulated
) -> Iterator[Served]:
    served = Served(folder, name, restored, open_device)
    try:
        yield served
    finally:
        served.close()


def save(served: Served, name: str, folder: Path, *, leave: bool = False, wait: float = 10.0) -> command.Figures:
    return command.save(served.url, name, folder, leave=leave, wait=wait)


def write(address: int, data: bytes) -> bytes:
    return encode("WRITE", address, len(data), len(data), 1, 1, len(data), tail=data)
