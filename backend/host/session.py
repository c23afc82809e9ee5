"""One guest's session: its groups, in order, each answered once.

Owns the numbering of groups, the bounds on what a guest may send, and the session's end. `Session.submit` is the seam of the
backend: bytes in, replies out; no transport is known here, so that another can stand beside gRPC.

The queue of groups is the transport's own: `submit` runs a message to its end before the next is taken, so that what the host
holds of a session is one message (`MESSAGE_BYTES`) and whatever window the transport grants. No thread of its own, no hand-off:
the thread that received the message replays it (farlane.backend.plane).

Locking: `submit` and `close` are called from one thread at a time; `interrupt` alone may come from another.
Source: protos/tape.md, "Carriage"; docs/explanation/architecture/sessions.md, "Session and host".
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from farlane.backend.control import Control
from farlane.backend.device.base import Context, MemoryMap, Window
from farlane.backend.errors import ProtocolError
from farlane.backend.host.spans import Arrival, Recorder
from farlane.backend.objects.images import SessionImages
from farlane.backend.objects.resources import Resources
from farlane.backend.plane import Call, Replay, restore_replay, save_replay

log = logging.getLogger("farlane.session")

MESSAGE_BYTES = (1 << 20) + (64 << 10)  # at least one record of the largest size, and small ones beside it
CREDIT_BYTES = 32 << 20
HIGHEST_PRIORITY = 9


def priority_of(asked: int | None, granted: int | None, otherwise: int) -> int:
    """The priority that a guest asks for, within what it may have.

    Args:
        granted: the highest that its token allows, which it has where it asks for none; None: it has no token.
        otherwise: the highest that a guest without a token may have.
    """
    wanted = (granted or 0) if asked is None else asked
    most = otherwise if granted is None else granted
    return max(0, min(wanted, most, HIGHEST_PRIORITY))


class SavedReplay(NamedTuple):
    """What a saved session keeps of its replay (`plane.save_replay`)."""

    group: int  # the next one
    context: int | None
    records: Sequence[bytes]
    continuing: Sequence[tuple[int, bytes, int]]
    decided: tuple[int, int] | None
    nanoseconds: int = 0


class Session:
    """What a transport talks to."""

    def __init__(
        self,
        name: str,
        resources: Resources,
        tape_version: int,
        said: Callable[[bytes], None] | None = None,
        arrival: Arrival | None = None,
    ) -> None:
        """`said` is given, at the end, when it did what (spans.py). With an `arrival` the guest reads that, too."""
        self.name = name
        self.resources = resources
        self._said = said
        self._recorder = recorder = None if said is None and arrival is None else Recorder(name, arrival)
        self._replay = Replay(
            Control(name, resources, None if recorder is None else recorder.opened),
            resources.context.direct,
            resources.standing,
            resources.payloads,
            resources.streams,
            resources.events,
            tape_version=tape_version,
            message_bytes=MESSAGE_BYTES,
            credit_bytes=CREDIT_BYTES,
            spans=recorder is not None,
        )
        if recorder is not None and arrival is not None:
            resources.lines = functools.partial(recorder.lines, self._replay, resources.context)
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

    def counts(self) -> dict[str, int]:
        """What it has done and sent so far, by the names of metrics.py. From any thread, before and after `close`."""
        return self.resources.context.counts() | self._replay.counts()

    def memory_map(self) -> MemoryMap | None:
        """What of device memory it has allocated. From any thread; None: it does not say so now."""
        return MemoryMap() if self._closed else self.resources.context.memory_map()

    @property
    def images(self) -> SessionImages:
        return self.resources.images

    def prioritize(self, priority: int) -> None:
        self.resources.context.prioritize(priority)

    def submit(self, group: int, records: bytes, last: bool) -> Iterator[bytes]:
        """Replays one message of a group: its records, and whether the group ends with it.

        Yields:
            The replies, messages ready to be sent (session.proto, HostMessage). Everything has been replayed when the first one comes.

        Raises:
            ProtocolError: the guest broke a rule; the session is to be closed.
            DeadTransport: the session was interrupted in the middle of a loop.
        """
        if self._closed:
            raise ProtocolError("the session has ended")
        replies: list[bytes] = []
        try:
            self._replay.submit(group, records, last, replies.append)
        finally:
            yield from replies

    def converse(self, call: Call) -> bytes | None:
        """Replays what comes as Tapes and sends the replies; gives the next message that is none. None: the guest sends no more.

        Raises:
            ProtocolError, DeadTransport: as `submit`.
            CallGone, MessageRefused: as the call's `receive` and `send`.
        """
        context = self.resources.context
        rests = type(context).rest is not Context.rest
        return self._replay.converse(call, context.rest if rests else None)

    def save_replay(self) -> SavedReplay:
        """What a saved session keeps of its replay. While the session's thread pauses. Raises ValueError: why it cannot be saved now."""
        return SavedReplay(*save_replay(self._replay))

    def restore_replay(self, saved: SavedReplay) -> None:
        """Goes on where a saved session stopped, whose objects are there. Raises ProtocolError."""
        for group, record in enumerate(saved.records, 1):
            self._replay.submit(group, record, True, lambda reply: None)
        restore_replay(self._replay, saved.group, saved.context, saved.continuing, saved.decided)

    def interrupt(self) -> None:
        """The guest is gone: what runs for it may stop at once. From any thread, before or after `close`."""
        if not self._closed:
            self.resources.standing.interrupt()
            self.resources.context.interrupt()

    def close(self) -> None:
        """Releases everything the session holds. Idempotent; never raises."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._said is not None and self._recorder is not None:
                self._said(self._recorder.content(self._replay, self.resources.context))
        finally:
            self.resources.release()
