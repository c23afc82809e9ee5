"""Where a host is, and what it says about itself without a session: the call of AdminService.Describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane import hosturl
from farlane.frontend.errors import UserError
from farlane.hosturl import HostUrl

if TYPE_CHECKING:
    from farlane.v1 import admin_pb2


def parse_url(text: str) -> HostUrl:
    """Raises UserError when `text` is no host URL."""
    try:
        return hosturl.parse(text)
    except hosturl.HostUrlError as error:
        raise UserError(str(error), "Give the URL that `farlane serve` prints.", status=2) from None


def describe(url: HostUrl, timeout: float = 5.0) -> admin_pb2.DescribeReply:
    """Asks a host about itself. Raises UserError when it cannot be reached."""
    import grpc  # takes longer than all else of a command that does not ask
    from farlane.v1 import admin_pb2

    with grpc.insecure_channel(url.target, options=hosturl.CHANNEL_OPTIONS) as channel:
        call = channel.unary_unary(
            "/farlane.v1.AdminService/Describe",
            request_serializer=admin_pb2.DescribeRequest.SerializeToString,
            response_deserializer=admin_pb2.DescribeReply.FromString,
        )
        try:
            reply: admin_pb2.DescribeReply = call(admin_pb2.DescribeRequest(), timeout=timeout)
            return reply
        except grpc.RpcError as error:
            raise UserError(
                f"no answer from {url}: {error.code().name.lower().replace('_', ' ')}: {error.details()}",
                "Is `farlane serve` running there, and does it listen on that address?",
            ) from error
