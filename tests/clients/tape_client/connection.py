"""One session's gRPC stream, for the Python client: opening, messages up and down, what is wrong with it.

Owns the handshake and the counts of bytes. Knows nothing of groups and results (client.py).

Source: protos/farlane/v1/session.proto.
"""

from __future__ import annotations

import queue
import threading
from typing import Any

import grpc
from farlane.frontend.errors import UserError
from farlane.hosturl import HostUrl
from farlane.hosturl.channel import open_channel
from farlane.limits.generated import RECORD_BYTES
from farlane.v1 import session_pb2 as pb

from tape_client import generated_operations as operations

_MAX_REPLY_BYTES = 16 << 20
_OPTIONS = [("grpc.max_receive_message_length", _MAX_REPLY_BYTES)]


class ConnectionLost(UserError):
    """The host died, ended the session, or broke the protocol."""


class Refused(UserError):
    """The host declined the session; the message is the host's."""


class Connection:
    """An open stream; `welcome` is what the host said first.

    Args:
        hello: what the guest says first, its versions aside.
        timeout: seconds that opening may take.

    Raises:
        Refused: the host declined.
        ConnectionLost: there is no host, or it is none of ours.
    """

    def __init__(self, url: HostUrl, hello: pb.Hello, timeout: float) -> None:
        self.url = url
        self.bytes_up = 0
        self.bytes_down = 0
        self.closed = False
        self._outgoing: queue.SimpleQueue[pb.GuestMessage | None] = queue.SimpleQueue()
        self._channel = open_channel(url, _OPTIONS)
        method = self._channel.stream_stream(
            "/farlane.v1.SessionService/Open",
            request_serializer=pb.GuestMessage.SerializeToString,
            response_deserializer=pb.HostMessage.FromString,
        )
        hello.tape_version_min = hello.tape_version_max = operations.TAPE_VERSION
        self.send(pb.GuestMessage(hello=hello))
        self._replies: Any = method(iter(self._outgoing.get, None))
        deadline = threading.Timer(timeout, self._replies.cancel)
        deadline.daemon = True
        deadline.start()
        try:
            self.welcome = self._shake_hands()
        except BaseException:
            self.close()
            raise
        finally:
            deadline.cancel()

    def _shake_hands(self) -> pb.Welcome:
        answer = self.receive()
        kind = answer.WhichOneof("kind")
        if kind == "refusal":
            raise Refused(f"the host at {self.url} refused the session: {answer.refusal.message}")
        if kind != "welcome":
            raise self.violation("its first message is no welcome")
        welcome: pb.Welcome = answer.welcome
        if welcome.tape_version != operations.TAPE_VERSION:
            raise Refused(
                f"the host at {self.url} wants tape version {welcome.tape_version}, this client writes version"
                f" {operations.TAPE_VERSION}",
                "Install the same version of Farlane on both sides.",
            )
        if min(welcome.message_bytes, welcome.credit_bytes) < RECORD_BYTES:
            raise self.violation("it does not take the longest record")
        return welcome

    def send(self, message: pb.GuestMessage) -> None:
        """Queues a message; raises ConnectionLost when the connection is closed."""
        if self.closed:
            raise ConnectionLost(f"the session with {self.url} is closed")
        self.bytes_up += message.ByteSize()
        self._outgoing.put(message)

    def receive(self) -> pb.HostMessage:
        """The next message of the host. Raises ConnectionLost."""
        if self.closed:
            raise ConnectionLost(f"the session with {self.url} is closed")
        try:
            message: pb.HostMessage = next(self._replies)
        except StopIteration:
            self.close()
            raise ConnectionLost(f"connection to {self.url} lost: the host ended the session") from None
        except grpc.RpcError as error:
            self.close()
            status: Any = error
            raise ConnectionLost(
                f"connection to {self.url} lost: {_words(status.code())}: {status.details()}",
                "Is `farlane serve` running there, and does it listen on that address?",
            ) from error
        self.bytes_down += message.ByteSize()
        return message

    def goodbye(self) -> None:
        """Says goodbye and waits until the host has ended the stream. Raises ConnectionLost."""
        self.send(pb.GuestMessage(goodbye=pb.Goodbye()))
        self._outgoing.put(None)
        try:
            for _ in self._replies:
                raise self.violation("a message after the last group was acknowledged")
        except grpc.RpcError as error:
            status: Any = error
            raise ConnectionLost(f"connection to {self.url} lost: {_words(status.code())}") from error
        finally:
            self.close()

    def close(self) -> None:
        """Ends the stream where it stands. Idempotent."""
        if not self.closed:
            self.closed = True
            self._outgoing.put(None)
            self._channel.close()

    def violation(self, what: str) -> ConnectionLost:
        """The host broke the protocol: closes the connection, gives the error to raise."""
        self.close()
        return ConnectionLost(f"connection to {self.url} given up: protocol error: {what}")


def _words(code: grpc.StatusCode) -> str:
    return str(code.name).lower().replace("_", " ")
