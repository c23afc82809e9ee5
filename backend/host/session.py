"""One guest's session: its groups, in order, each answered once.

Owns the numbering of groups, the bounds on what a guest may send, and the session's end. `Session.submit` is the seam of the
backend: bytes in, replies out; no transport is known here, so that another can stand beside gRPC.

The queue of groups is the transport's own: `submit` runs a message to its end before the next is taken, so that what the host
holds of a session is one message (`MESSAGE_BYTES`) and whatever window the transport grants. No thread of its own, no hand-off:
the thread that received the message replays it (farlane.backend.plane).

Locking: `submit` and `close` are called from one thread at a time; `interrupt` alone may come from another.
Source: protos/tape.md, "Carriage"; docs/architecture.md, "Session and host".
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from farlane.backend.device.base import Window
from farlane.backend.errors import ProtocolError
from farlane.backend.objects.images import SessionImages
from farlane.backend.objects.resources import Resources
from farlane.backend.replay import CHUNK_BYTES, Piece, Replay

log = logging.getLogger("farlane.session")

MESSAGE_BYTES = (1 << 20) + (64 << 10)  # at least one record of the largest size, and small ones beside it
CREDIT_BYTES = 32 << 20
OUTPUT_PIECE = 1 << 20  # bytes of printed text in one reply


class Reply(NamedTuple):
    """An answer to a group, or a part of one: whole result records. `results` are valid until the next reply is taken."""

    group: int
    results: list[Piece]
    last: bool = False
    error: int = 0
    sticky: bool = False
    error_message: str = ""
    device_nanoseconds: int = 0
    printed: bytes = b""
    complaints: bytes = b""


class Session:
    """What a transport talks to."""

    def __init__(self, name: str, resources: Resources, tape_version: int) -> None:
        self.name = name
        self.resources = resources
        self._replay = Replay(name, resources, tape_version)
        self._group = 1
        self._group_bytes = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def window(self) -> Window:
        return self.resources.context.window

    @property
    def quota(self) -> int:
        return self.resources.context.quota

    @property
    def used_bytes(self) -> int | None:
        """Device memory that it has allocated, where that is known."""
        return 0 if self._closed else self.resources.context.used_bytes

    @property
    def busy_nanoseconds(self) -> int | None:
        """For how long the device has worked for it."""
        return self.resources.context.device_nanoseconds

    @property
    def images(self) -> SessionImages:
        return self.resources.images

    def submit(self, group: int, buffer: bytes, start: int, end: int, last: bool) -> Iterator[Reply]:
        """Replays one message of a group, the records in buffer[start:end].

        Yields:
            The replies to send, in order; the message is replayed as they are taken.

        Raises:
            ProtocolError: the guest broke a rule; the session is to be closed.
            DeadTransport: the session was interrupted in the middle of a loop.
        """
        if self._closed:
            raise ProtocolError("the session has ended")
        if group != self._group:
            raise ProtocolError(f"group {group} where group {self._group} was due")
        size = end - start
        if size > MESSAGE_BYTES:
            raise ProtocolError(f"a message of {size} bytes of records; at most {MESSAGE_BYTES} are allowed")
        self._replay.begins_group = not self._group_bytes
        self._group_bytes += size
        if self._group_bytes > CREDIT_BYTES:
            raise ProtocolError(
                f"group {group} has more than the {CREDIT_BYTES} bytes that may be sent without an acknowledgement"
            )
        replay = self._replay
        for results in replay.run(buffer, start, end):
            yield Reply(group, results)
        if not last:
            if replay.results_bytes >= CHUNK_BYTES:
                yield Reply(group, replay.take_results())
            return
        self._group += 1
        self._group_bytes = 0
        printed, complaints = self.resources.context.take_output()
        if len(printed) > OUTPUT_PIECE or len(complaints) > OUTPUT_PIECE:
            for at in range(0, max(len(printed), len(complaints)), OUTPUT_PIECE):
                end = at + OUTPUT_PIECE
                yield Reply(group, [], printed=printed[at:end], complaints=complaints[at:end])
            printed = complaints = b""
        error = replay.take_error()
        delivered = replay.take_delivered()
        yield Reply(
            group,
            replay.take_results(),
            last=True,
            error=error.code if error else 0,
            sticky=error.sticky if error else False,
            error_message=error.message if error and error.message else delivered,
            device_nanoseconds=self.resources.context.device_nanoseconds,
            printed=printed,
            complaints=complaints,
        )

    def interrupt(self) -> None:
        """The guest is gone: what runs for it may stop at once. From any thread, before or after `close`."""
        if not self._closed:
            self._replay.interrupted = True
            self.resources.context.interrupt()

    def close(self) -> None:
        """Releases everything the session holds. Idempotent; never raises."""
        if self._closed:
            return
        self._closed = True
        self._replay.close()
        self.resources.release()
