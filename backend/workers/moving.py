"""A worker's session that is given away, and one that comes saved (checkpoint/).

Owns the threads that give a session away while the worker listens to the host, and what a saved session keeps until its
guest comes. The host passes the messages on (checkpoint/passing.py), by a pipe for each.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from typing import NamedTuple

from farlane.backend.checkpoint.giving import Source, give
from farlane.backend.checkpoint.pausing import Pausing
from farlane.backend.checkpoint.restoring import restore
from farlane.backend.checkpoint.taking import take
from farlane.backend.checkpoint.talk import ROUND_SECONDS, Malformed, request
from farlane.backend.device.base import Device
from farlane.backend.host.session import Session
from farlane.backend.objects.images import ImageStore
from farlane.backend.plane import Call
from farlane.backend.system.pipe import Ended, Pipe
from farlane.v1 import checkpoint_pb2 as pb


class Saved(NamedTuple):
    """Of a session whose guest has not come yet."""

    secret: bytes
    tape_version: int
    counts: tuple[int, int]  # Tapes received; the number of the first message that the guest has not confirmed
    unconfirmed: list[bytes]
    process: pb.SavedSession.Process


def take_session(pipe: Pipe, name: str, device: Device, images: ImageStore, quota: int) -> tuple[Session, Saved]:
    """Raises Unsaveable, Malformed, Ended, TimeoutError."""
    session, saved = _take_session(pipe, name, device, images, quota)
    with contextlib.suppress(AttributeError):  # glibc's
        ctypes.CDLL(None).malloc_trim(0)  # the content's, which the host would count
    return session, saved


def _take_session(pipe: Pipe, name: str, device: Device, images: ImageStore, quota: int) -> tuple[Session, Saved]:
    saved, blobs = take(pipe, quota, ROUND_SECONDS)
    unconfirmed = [blobs.get(digest) for digest in saved.messages.unconfirmed]
    counts = (saved.messages.received, saved.messages.first)
    session = restore(name, device, images, quota, saved, blobs)
    return session, Saved(saved.secret, saved.tape_version, counts, unconfirmed, saved.process)


class Given:
    """The worker's one session, which may be given away.

    Locking: none. `begin` is called once; the threads only read what it sets.
    """

    def __init__(self) -> None:
        self._source: Source | None = None
        self._come = threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(self, session: Session, call: Call) -> Pausing:
        """Its guest has come."""
        self._source = Source(session, call, Pausing(call))
        self._come.set()
        return self._source.pausing

    def start(self, pipe: Pipe) -> None:
        thread = threading.Thread(target=self._give, args=(pipe,), name="farlane-giving", daemon=True)
        thread.start()
        self._threads.append(thread)

    def wait(self, seconds: float) -> None:
        """Until the other side knows how long the session was held, at most for so long."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _give(self, pipe: Pipe) -> None:
        with pipe, contextlib.suppress(Malformed, Ended, TimeoutError):
            begin = request(pipe, "begin").begin
            self._come.wait(begin.wait_seconds)
            if self._source is None:
                pipe.send(pb.SavePart(refused="its guest has not come yet").SerializeToString())
            else:
                give(pipe, begin, self._source)
