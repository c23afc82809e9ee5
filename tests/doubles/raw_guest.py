"""A guest that speaks gRPC by itself: one connection to a host, message by message."""

from __future__ import annotations

import queue
from typing import Any

import grpc
from farlane.backend.handlers.generated_operations import encode
from farlane.v1 import session_pb2 as pb

HELLO = pb.Hello(tape_version_min=1, tape_version_max=6, client_version="test", program="test", pid=1, resumes=True)
HELLO.mode = "calls"


class Wire:
    """One connection to the host, message by message."""

    def __init__(self, target: str) -> None:
        self.channel = grpc.insecure_channel(
            target, options=[("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost")]
        )
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.call = self.channel.stream_stream(
            "/farlane.v1.SessionService/Open", response_deserializer=pb.HostMessage.FromString
        )(iter(self._outgoing.get, None), timeout=60)

    def send(self, **message: Any) -> None:
        self._outgoing.put(pb.GuestMessage(**message).SerializeToString())

    def fence(self, group: int) -> None:
        self.send(tape=pb.Tape(group=group, records=encode("FENCE", group, 0), last=True))

    def receive(self) -> pb.HostMessage:
        message: pb.HostMessage = next(self.call)
        return message

    def breaks(self) -> None:
        self.call.cancel()
        self._outgoing.put(None)
        self.channel.close()
