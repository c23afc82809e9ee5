"""Where a host is: its URL, and what it tells about itself without a session.

Owns the form of host URLs on the guest's side and the call of AdminService.Describe.
"""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from farlane.frontend.errors import UserError
from farlane.v1 import admin_pb2

ADVICE = "Write grpc://host:port or unix:///path/to/socket."


@dataclass(frozen=True)
class HostUrl:
    """A parsed URL; `target` is what gRPC calls it."""

    text: str
    target: str


def parse_url(text: str) -> HostUrl:
    """Raises UserError when `text` is no host URL."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise UserError(f"{text!r} is no host URL", ADVICE, status=2)
    if scheme == "unix":
        if not rest.startswith("/"):
            raise UserError(f"{text!r}: the path of a Unix socket must be absolute", ADVICE, status=2)
        return HostUrl(text, f"unix://{rest}")
    if scheme != "grpc":
        raise UserError(f"{text!r}: unknown scheme {scheme!r}", ADVICE, status=2)
    name, colon, port = rest.rstrip("/").rpartition(":")
    if not colon or not name or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"{text!r} names no host and port", ADVICE, status=2)
    return HostUrl(text, f"{name}:{port}")


def describe(url: HostUrl, timeout: float = 5.0) -> admin_pb2.DescribeReply:
    """Asks a host about itself. Raises UserError when it cannot be reached."""
    with grpc.insecure_channel(url.target) as channel:
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
                f"no answer from {url.text}: {error.code().name.lower().replace('_', ' ')}: {error.details()}",
                "Is `farlane serve` running there, and does it listen on that address?",
            ) from error
