"""The wire stays as it is: sessions that were recorded with an earlier shim and host (recordings/record.py) go on as they did.

A recorded guest is served by today's host with the answers that it got; a recorded host serves today's shim, which sends what its
predecessor sent. Scenarios of tests/e2e/calls/programs/round_trips.cu, named as their recordings, on the null device.
"""

from __future__ import annotations

import queue
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from farlane.backend.device.null import NullDevice
from farlane.backend.host.host import Host
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import parse
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.hosturl import CHANNEL_OPTIONS
from farlane.v1 import session_pb2 as pb

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.rec"))
SOURCE = Path(__file__).parents[1] / "e2e/calls/programs/round_trips.cu"
OPEN = "/farlane.v1.SessionService/Open"
Group = tuple[bytes, int, bool, str]


def frames(path: Path) -> list[tuple[str, bytes]]:
    """The messages of a recording, with their side: "G" the guest's, "H" the host's."""
    data, at, found = zlib.decompress(path.read_bytes()), 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 1)
        found.append((chr(data[at]), data[at + 5 : at + 5 + size]))
        at += 5 + size
    return found


def groups(answers: Sequence[pb.HostMessage]) -> list[Group]:
    """What each group was answered: results, error, sticky, message."""
    found, results = [], b""
    for reply in (answer.reply for answer in answers if answer.WhichOneof("kind") == "reply"):
        results += reply.results
        if reply.last:
            found.append((results, reply.error, reply.sticky, reply.error_message))
            results = b""
    return found


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_an_earlier_guest_is_served_as_it_was(path: Path, tmp_path: Path) -> None:
    recorded = frames(path)
    host = Host(NullDevice())
    edge = Edge(host)
    edge.listen([parse(f"unix://{tmp_path}/host")])
    sent: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    for side, message in recorded:
        if side == "G":
            sent.put(message)
    sent.put(None)
    try:
        with grpc.insecure_channel(f"unix:{tmp_path}/host", options=CHANNEL_OPTIONS) as channel:
            answers = list(channel.stream_stream(OPEN)(iter(sent.get, None)))
    finally:
        edge.stop(1)
        host.close()
    now = [pb.HostMessage.FromString(message) for message in answers]
    then = [pb.HostMessage.FromString(message) for side, message in recorded if side == "H"]
    assert groups(now) == groups(then)
    assert groups(then), "something was answered"
    for field in ("tape_version", "window_base", "window_size", "memory_quota", "credit_bytes", "message_bytes"):
        assert getattr(now[0].welcome, field) == getattr(then[0].welcome, field), field


def operations(messages: Sequence[bytes]) -> list[tuple[int, int]]:
    """The codes and lengths of the records that a guest has sent."""
    found = []
    for message in messages:
        records, at = pb.GuestMessage.FromString(message).tape.records, 0
        while at < len(records):
            length, code = struct.unpack_from("<IH", records, at)
            found.append((code, length))
            at += length
    return found


class EarlierHost(grpc.GenericRpcHandler):
    """Answers each message of a guest as it was answered then."""

    def __init__(self, recorded: Sequence[tuple[str, bytes]]) -> None:
        self._recorded = recorded
        self.received: list[bytes] = []

    def service(self, handler_call_details: Any) -> Any:
        if handler_call_details.method != OPEN:
            return None
        return grpc.stream_stream_rpc_method_handler(self._serve)

    def _serve(self, requests: Iterator[bytes], _: Any) -> Iterator[bytes]:
        for side, message in self._recorded:
            if side == "H":
                yield message
            else:
                self.received.append(next(requests))


@pytest.mark.native
@pytest.mark.parametrize(
    "path", [path for path in RECORDINGS if path.suffixes[0] == ".none"], ids=lambda path: path.stem
)
def test_an_earlier_host_serves_todays_guest(path: Path, tmp_path: Path, toolchain: Callable[[str], Toolchain]) -> None:
    program = str(compile_program(toolchain("13.0"), [SOURCE], "round_trips", Build()))
    recorded = frames(path)
    host = EarlierHost(recorded)
    server = grpc.server(futures.ThreadPoolExecutor(4), options=CHANNEL_OPTIONS)
    server.add_generic_rpc_handlers((host,))
    server.add_insecure_port(f"unix:{tmp_path}/host")
    server.start()
    try:
        outcome = Guest(f"unix://{tmp_path}/host").run([program, path.name.partition(".")[0]], "none")
    finally:
        server.stop(1).wait()
    assert (outcome.status, outcome.stdout) == (0, "PASS\n"), outcome.stderr
    assert operations(host.received) == operations([message for side, message in recorded if side == "G"])
