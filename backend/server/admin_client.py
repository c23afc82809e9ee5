"""Asks a running host about itself (AdminService.Describe), for `farlane devices --host`."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from farlane.backend.device.base import Description
from farlane.backend.server.endpoint import Endpoint
from farlane.backend.server.messages import description_of
from farlane.hosturl import CHANNEL_OPTIONS
from farlane.v1 import admin_pb2

ANSWER_SECONDS = 5.0


class NoAnswer(Exception):
    """The host cannot be reached; the message is for the user."""


@dataclass(frozen=True)
class Answer:
    host_version: str
    sessions: int
    session_limit: int
    devices: list[Description]


def describe(endpoint: Endpoint) -> Answer:
    with grpc.insecure_channel(endpoint.target, options=CHANNEL_OPTIONS) as channel:
        call = channel.unary_unary(
            "/farlane.v1.AdminService/Describe",
            request_serializer=admin_pb2.DescribeRequest.SerializeToString,
            response_deserializer=admin_pb2.DescribeReply.FromString,
        )
        try:
            reply = call(admin_pb2.DescribeRequest(), timeout=ANSWER_SECONDS)
        except grpc.RpcError as error:
            raise NoAnswer(
                f"no answer from {endpoint}: {error.details()}; is `farlane serve` running there?"
            ) from error
    return Answer(
        reply.host_version, reply.sessions, reply.session_limit, [description_of(device) for device in reply.devices]
    )
