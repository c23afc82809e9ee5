"""One gRPC call, driven by the thread that serves it.

Owns the operations of a call on its completion queue. grpcio's own servers (synchronous and asyncio) hand every message from a
polling thread to a serving one and back, about nine context switches for a small round trip. Here each call has a completion queue of its own,
and the thread that serves the call waits on it directly: three switches, half the processor time (benchmarks/host_round_trip.py
compares). The price is grpcio's inner module `cygrpc`, on which grpcio's own synchronous server is built; nothing outside server/
knows it.

Locking: a call belongs to one thread, `look` excepted, which the server's thread calls now and then: while the call's thread
is inside a device, somebody must notice that the guest has gone. The lock decides who takes events off the queue.

Source: gRPC core, surface API (batches, completion queues); gRPC over HTTP/2, status codes.
"""

from __future__ import annotations

import enum
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from farlane.backend.errors import DeadTransport
from grpc._cython import cygrpc

_NO_FLAGS = 0


class Status(enum.IntEnum):
    """The gRPC status codes in use."""

    OK = 0
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13


class _Tag(enum.Enum):
    INITIAL = 1
    RECEIVE = 2
    SEND = 3
    CLOSE = 4
    STATUS = 5


class Call:
    """A call that a guest has made.

    Args:
        event: the server's event that announced it; its tag is the call's own completion queue.
    """

    def __init__(self, event: Any) -> None:
        self._call = event.call
        self._queue = event.tag
        self.method: str = event.call_details.method.decode("utf-8", "replace")
        self.cancelled = False
        self.on_cancel: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._taken = True  # the call's thread is busy elsewhere: `look` may take events
        self._looked: deque[Any] = deque()  # events that `look` took
        self._received: deque[bytes] = deque()
        self._receiving = self._sending = self._half_closed = self._closed = False

    @property
    def peer(self) -> str:
        peer = self._call.peer()
        return peer.decode() if isinstance(peer, bytes) else str(peer)

    def begin(self) -> None:
        self._start(_Tag.INITIAL, cygrpc.SendInitialMetadataOperation((), _NO_FLAGS))
        self._start(_Tag.CLOSE, cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS))
        self._receive_next()

    def receive(self, timeout: float | None = None) -> bytes | None:
        """The next message; None when the guest will send no more.

        Raises:
            DeadTransport: the call was cancelled or the connection broke.
            TimeoutError: nothing came in time.
        """
        deadline = None if timeout is None else time.time() + timeout
        while not self._received:
            if self.cancelled:
                raise DeadTransport(f"{self.peer} is gone")
            if self._half_closed:
                return None
            if not self._wait(deadline):
                raise TimeoutError
        message = self._received.popleft()
        self._receive_next()  # the next one arrives while this one is replayed: one message more in memory, no more
        return message

    def send(self, message: bytes) -> None:
        """Sends a message; returns once the one before it is on its way, so that a slow guest holds up its own session.

        Raises:
            DeadTransport: the call was cancelled or the connection broke.
        """
        while self._sending and not self.cancelled:
            self._wait(None)
        if self.cancelled:
            raise DeadTransport(f"{self.peer} is gone")
        self._sending = True
        self._start(_Tag.SEND, cygrpc.SendMessageOperation(message, _NO_FLAGS))

    def finish(self, status: Status, details: str = "") -> None:
        """Ends the call, whatever has become of it, and gives its queue back. The last thing done with it."""
        while self._sending and not self.cancelled:
            self._wait(None)
        if not self.cancelled:
            operation = cygrpc.SendStatusFromServerOperation((), int(status), details.encode(), _NO_FLAGS)
            self._start(_Tag.STATUS, operation)
        while not self._closed:
            self._wait(None)
        with self._lock:
            self._taken = False
            self._queue.shutdown()
            while self._queue.poll().completion_type != cygrpc.CompletionType.queue_shutdown:
                pass

    def look(self) -> None:
        """From the server's thread: notices a cancellation while the call's own thread is busy."""
        with self._lock:
            while self._taken:
                event = self._queue.poll(deadline=0)
                if event.completion_type != cygrpc.CompletionType.operation_complete:
                    return
                self._looked.append(event)
                if event.tag is _Tag.CLOSE and event.batch_operations[0].cancelled() and self.on_cancel is not None:
                    self.on_cancel()

    def _start(self, tag: _Tag, operation: Any) -> None:
        self._call.start_server_batch((operation,), tag)

    def _receive_next(self) -> None:
        if not self._receiving and not self._half_closed:
            self._receiving = True
            self._start(_Tag.RECEIVE, cygrpc.ReceiveMessageOperation(_NO_FLAGS))

    def _wait(self, deadline: float | None) -> bool:
        """Takes the next event into account; False when none came by the deadline."""
        with self._lock:
            self._taken = False
            event = self._looked.popleft() if self._looked else None
        if event is None:
            event = self._queue.poll(deadline=deadline)
        self._taken = True
        if event.completion_type != cygrpc.CompletionType.operation_complete:
            return False
        if event.tag is _Tag.RECEIVE:
            self._receiving = False
            message = event.batch_operations[0].message()
            if message is None:
                self._half_closed = True
            else:
                self._received.append(message)
        elif event.tag is _Tag.SEND:
            self._sending = False
        elif event.tag is _Tag.CLOSE:
            self._closed = True
            self.cancelled = bool(event.batch_operations[0].cancelled())
        return True
