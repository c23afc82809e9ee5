"""What a host says about itself without a session: the call of AdminService.Describe, for frontend and backend alike.

`farlane run` asks one question of it through the shim instead (frontend/steering.py): importing gRPC takes longer than all
else that it does.
"""

from __future__ import annotations

import grpc
from farlane.hosturl import ANSWER_SECONDS, HostUrl, HostUrlError
from farlane.hosturl.channel import open_channel
from farlane.v1 import admin_pb2


class NoAnswer(Exception):
    """The host cannot be reached, or does not let the guest in. The message is for the user, and so is `advice`."""

    def __init__(
        self, message: str, advice: str = "Is `farlane serve` running there, and does it listen on that address?"
    ):
        super().__init__(message)
        self.advice = advice


def describe(url: HostUrl, seconds: float = ANSWER_SECONDS) -> admin_pb2.DescribeReply:
    """Asks a host about itself. Raises NoAnswer."""
    try:
        opened = open_channel(url)
    except HostUrlError as error:
        raise NoAnswer(f"no answer from {url}: {error}", "") from error
    with opened as channel:
        call = channel.unary_unary(
            "/farlane.v1.AdminService/Describe",
            request_serializer=admin_pb2.DescribeRequest.SerializeToString,
            response_deserializer=admin_pb2.DescribeReply.FromString,
        )
        try:
            reply: admin_pb2.DescribeReply = call(admin_pb2.DescribeRequest(), timeout=seconds)
            return reply
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                raise NoAnswer(f"the host at {url} refused the guest: {error.details()}", "") from error
            status = error.code().name.lower().replace("_", " ")
            raise NoAnswer(f"no answer from {url}: {status}: {error.details()}") from error
