"""The gRPC server: listening, options, taking calls, stopping.

Owns the server and its threads: one that takes calls and looks after the busy ones, and one per call (service.py). Calls beyond the
limit are turned away by the first.

Locking: one lock around the set of calls.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from farlane.backend.host.host import Host
from farlane.backend.host.session import MESSAGE_BYTES
from farlane.backend.server.calls import Call, Status
from farlane.backend.server.endpoint import Endpoint, EndpointError, TcpEndpoint
from farlane.backend.server.punctual import be_punctual
from farlane.backend.server.service import serve
from grpc._cython import cygrpc

log = logging.getLogger("farlane.server")

SPARE_CALLS = 8  # for descriptions and refusals while every session is taken
LOOK_SECONDS = 0.1  # how soon the end of a guest is noticed while its work runs
_FRAMING_BYTES = 64 << 10  # room for a message's other fields

_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a port that is taken is an error, not to be shared
    ("grpc.max_receive_message_length", MESSAGE_BYTES + _FRAMING_BYTES),
    ("grpc.max_send_message_length", -1),
    # A guest that vanished without closing its connection is noticed, and its session's resources given back.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # The same for pings that measure the path: one on its way delays keepalive's.
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    # A stream's window holds a whole message, so that the next one arrives while this one is replayed.
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.http2.max_frame_size", 1 << 20),
)


class Edge:
    """A host's gRPC server."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._queue = cygrpc.CompletionQueue()
        self._server = cygrpc.Server(_OPTIONS, False)
        self._server.register_completion_queue(self._queue)
        self._lock = threading.Lock()
        self._calls: dict[Call, threading.Thread] = {}
        self._empty = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
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
                port = self._server.add_http2_port(endpoint.target.encode())
            finally:
                os.umask(mask)
            if not port:
                raise EndpointError(f"cannot listen on {endpoint}: gRPC refused it")
            bound = endpoint.with_port(port) if isinstance(endpoint, TcpEndpoint) else endpoint
            bound.bound()
            self._endpoints.append(bound)
        self._server.start()
        self._thread = threading.Thread(target=self._run, name="farlane-server", daemon=True)
        self._thread.start()
        return list(self._endpoints)

    def stop(self, grace: float) -> None:
        """Takes no new calls, gives the open ones `grace` seconds, then cancels them, which interrupts their work, and waits until they are gone."""
        if self._thread is None:
            return
        self._server.shutdown(self._queue, self)
        with self._lock:
            self._empty.wait_for(lambda: not self._calls, grace)
        self._server.cancel_all_calls()
        self._thread.join()
        with self._lock:
            left = list(self._calls.items())
        for call, thread in left:
            while thread.is_alive():
                call.look()  # no other thread does any more
                thread.join(LOOK_SECONDS)
        self._thread = None
        for endpoint in self._endpoints:
            endpoint.remove()

    def _run(self) -> None:
        self._request()
        stopping = False
        looked = time.monotonic()
        while True:
            event = self._queue.poll(deadline=time.time() + LOOK_SECONDS)
            if event.completion_type == cygrpc.CompletionType.queue_shutdown:
                return
            if event.completion_type == cygrpc.CompletionType.operation_complete:
                if event.tag is self:  # the server has shut down: no call is left
                    self._queue.shutdown()
                    stopping = True
                elif event.success:
                    self._take(Call(event))
                    if not stopping:
                        self._request()
            if time.monotonic() - looked >= LOOK_SECONDS:
                looked = time.monotonic()
                with self._lock:
                    calls = list(self._calls)
                for call in calls:
                    call.look()

    def _request(self) -> None:
        """Asks for the next call; its own completion queue is the tag. While the server stops, none is to be had."""
        queue = cygrpc.CompletionQueue()
        with contextlib.suppress(ValueError):  # what grpcio raises then, and only then: stopping races with asking
            self._server.request_call(queue, self._queue, queue)

    def _take(self, call: Call) -> None:
        thread = threading.Thread(target=self._serve, args=(call,), name="farlane-call", daemon=True)
        with self._lock:
            full = len(self._calls) >= self._host.session_limit + SPARE_CALLS
            if not full:
                self._calls[call] = thread
        if full:
            log.warning("a call of %s is turned away: too many are open", call.peer)
            self._turn_away(call, "the host has too many calls open; try again later")
            return
        try:
            thread.start()
        except RuntimeError as error:  # the system's limit of threads or memory: the other guests' calls go on
            with self._lock:
                del self._calls[call]
                self._empty.notify_all()
            log.error("a call of %s is turned away: %s", call.peer, error)
            self._turn_away(call, "the host can start no thread for it: its limit of threads or memory is reached")

    @staticmethod
    def _turn_away(call: Call, why: str) -> None:
        call.begin()
        call.finish(Status.RESOURCE_EXHAUSTED, why)

    def _serve(self, call: Any) -> None:
        be_punctual()
        call.begin()
        try:
            serve(self._host, call)
        finally:
            with self._lock:
                del self._calls[call]
                self._empty.notify_all()
