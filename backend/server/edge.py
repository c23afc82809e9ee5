"""The gRPC server: listening, options, stopping.

Owns the grpc.Server and its threads. One thread per open session (service.py), and some to refuse what is beyond the limit.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from concurrent import futures

import grpc
from farlane.backend.host import Host
from farlane.backend.server.endpoint import Endpoint, EndpointError, TcpEndpoint
from farlane.backend.server.service import Admin, Sessions
from farlane.backend.session import MESSAGE_BYTES

log = logging.getLogger("farlane.server")

SPARE_THREADS = 8  # for descriptions and refusals while every session is taken
_FRAMING_BYTES = 64 << 10  # room for a message's other fields

_OPTIONS = [
    ("grpc.so_reuseport", 0),  # a port that is taken is an error, not to be shared
    ("grpc.max_receive_message_length", MESSAGE_BYTES + _FRAMING_BYTES),
    ("grpc.max_send_message_length", -1),
    # A guest that vanished without closing its connection is noticed, and its session's resources given back.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    # A stream's window holds a whole message, so that the next one arrives while this one is replayed.
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.http2.max_frame_size", 1 << 20),
    ("grpc.enable_http_proxy", 0),
]


class Edge:
    """A host's gRPC server."""

    def __init__(self, host: Host) -> None:
        self._threads = futures.ThreadPoolExecutor(
            max_workers=host.session_limit + SPARE_THREADS, thread_name_prefix="farlane-session"
        )
        self._server = grpc.server(
            self._threads, options=_OPTIONS, maximum_concurrent_rpcs=host.session_limit + SPARE_THREADS
        )
        self._server.add_generic_rpc_handlers((Sessions(host).handler(), Admin(host).handler()))
        self._endpoints: list[Endpoint] = []

    def listen(self, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """Binds and starts; gives the endpoints with their real ports.

        Raises:
            EndpointError: one of them cannot be used; nothing is started.
        """
        for endpoint in endpoints:
            endpoint.prepare()
            mask = os.umask(0o177)  # a socket file is this user's alone from its first moment
            try:
                port = self._server.add_insecure_port(endpoint.target)
            except RuntimeError as error:
                raise EndpointError(f"cannot listen on {endpoint}: {error}") from error
            finally:
                os.umask(mask)
            bound = endpoint.with_port(port) if isinstance(endpoint, TcpEndpoint) else endpoint
            bound.bound()
            self._endpoints.append(bound)
        self._server.start()
        return list(self._endpoints)

    def stop(self, grace: float) -> None:
        """Takes no new sessions, gives the open ones `grace` seconds, then cancels them and waits until they are gone."""
        self._server.stop(grace).wait()
        self._threads.shutdown(wait=True)
        for endpoint in self._endpoints:
            endpoint.remove()
