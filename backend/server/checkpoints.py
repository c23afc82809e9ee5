"""The calls that save and restore sessions (checkpoint.proto).

Owns their order of messages. They come by a Unix socket of the host alone, which opens for the host's user: a saved
session has its guest's data and its secret. A save holds the session for as long as its content takes to be sent; a
caller that goes away leaves the session as it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

from farlane.backend.checkpoint import form
from farlane.backend.checkpoint.blobs import DIGEST_BYTES, Offers, Reader, digest_of
from farlane.backend.checkpoint.carrying import Receiver, Sender, pieces
from farlane.backend.checkpoint.folder import Folder
from farlane.backend.checkpoint.restoring import Blobs, restore
from farlane.backend.checkpoint.saving import Identity, capture, send_ahead
from farlane.backend.device.base import Device
from farlane.backend.device.saved import Unsaveable
from farlane.backend.host.accounts import How
from farlane.backend.host.greeting import Refused
from farlane.backend.host.host import Admission, Host
from farlane.backend.host.session import Session
from farlane.backend.plane import Call, Tape
from farlane.backend.server.registry import Registry, Restored, Resumable
from farlane.v1 import checkpoint_pb2 as pb
from google.protobuf.message import DecodeError

log = logging.getLogger("farlane.server")

SAVE = "/farlane.v1.CheckpointService/Save"
RESTORE = "/farlane.v1.CheckpointService/Restore"
CALLS = (SAVE, RESTORE)
_OK, _INVALID, _DENIED = 0, 3, 7  # gRPC's
_SILENCE_SECONDS = 60.0  # of a caller
_ROUND_SECONDS = 600.0  # for a round of memory to arrive at another host
_ROUNDS = 16  # of memory that is sent ahead, at most
_BESIDE_BYTES = 2 << 30  # of content that is not memory
_SOCKET = "sessions are saved and restored by a Unix socket of the host: start it with --listen unix:///PATH as well"
_PROCESSES = "the sessions of this host have processes of their own, and are not saved: start it with --workers thread"


class Malformed(Exception):
    """The caller says what has no place here."""


class Checkpoints:
    """Serves these calls.

    Args:
        grace: for so many seconds a session outlives its connection, and waits for its guest when it is restored.
    """

    def __init__(self, host: Host, registry: Registry, grace: float) -> None:
        self._host = host
        self._registry = registry
        self._grace = grace

    def serve(self, call: Call) -> tuple[int, str]:
        """One call to its end; the status that it ends with."""
        if not call.peer.startswith("unix:"):
            return _DENIED, _SOCKET
        try:
            return self._save(call) if call.method == SAVE else self._restore(call)
        except (Malformed, DecodeError) as error:
            return _INVALID, f"no message of {call.method}: {error}"

    # Save -------------------------------------------------------------------------------------------------------
    def _save(self, call: Call) -> tuple[int, str]:
        begin = self._request(call, "begin").begin
        offers_known: list[bytes] = []
        while (request := self._request(call, "have", "start")).WhichOneof("kind") == "have":
            offers_known += _digests(request.have)
        try:
            paused = self._send_session(call, begin, offers_known)
        except Unsaveable as error:
            log.info("session %s is not saved: %s", begin.session, error)
            call.send(pb.SavePart(refused=str(error)).SerializeToString())
        else:
            call.send(pb.SavePart(paused=paused).SerializeToString())
        return _OK, ""

    def _send_session(self, call: Call, begin: pb.SaveRequest.Begin, known: list[bytes]) -> float:
        """Gives for how long the session was held. Raises Unsaveable."""
        entry, session = self._found(begin.session)
        sender = Sender(lambda blobs: call.send(pb.SavePart(blobs=blobs).SerializeToString()))
        offers = Offers(sender.add, known)
        reader = Reader(offers, keeps=begin.rounds > 0)
        for _ in range(min(begin.rounds, _ROUNDS)):
            before = offers.pages
            send_ahead(session, reader)
            sender.flush()
            if offers.pages == before:
                break
            call.send(pb.SavePart(round=True).SerializeToString())
            self._request(call, "taken", seconds=_ROUND_SECONDS)
        ahead = offers.pages
        with entry.pausing.held(begin.wait_seconds):
            captured = capture(session, entry.call, self._identity(entry), offers, reader)
            sender.flush()
            for piece in pieces(captured.session.SerializeToString()):
                call.send(pb.SavePart(session=piece).SerializeToString())
            figures = pb.SavePart.Figures(pages=captured.pages, sent=offers.pages, sent_ahead=ahead)
            call.send(pb.SavePart(figures=figures).SerializeToString())
            if begin.leave:
                self._request(call, "kept")
                self._registry.leave(entry, begin.to, self._grace + _SILENCE_SECONDS)
                entry.pausing.leave()
        log.info("session %s was saved; it was held for %.3f s", begin.session, entry.pausing.seconds)
        return entry.pausing.seconds

    def _found(self, name: str) -> tuple[Resumable, Session]:
        entry = self._registry.of(name)
        if entry is None:
            known = any(usage.name == name for usage in self._host.usage)
            raise Unsaveable(
                "its guest cannot come again: it has come by a socket file, or the host has no --grace"
                if known
                else f"the host has no session {name[:64]!r}"
            )
        if not isinstance(entry.session, Session):
            raise Unsaveable(_PROCESSES)
        return entry, entry.session

    def _identity(self, entry: Resumable) -> Identity:
        guest = self._host.guest(entry.session.name)
        program, pid = ("", 0) if guest is None else (guest.program, guest.pid)
        capability = ".".join(map(str, self._host.description.compute_capability))
        version = entry.admission.tape_version
        return Identity(entry.shown, entry.secret, entry.owner, program, pid, version, capability)

    @staticmethod
    def _request(call: Call, *kinds: str, seconds: float = _SILENCE_SECONDS) -> pb.SaveRequest:
        request = pb.SaveRequest.FromString(_received(call, seconds))
        if request.WhichOneof("kind") not in kinds:
            raise Malformed(f"{request.WhichOneof('kind')} where {' or '.join(kinds)} was due")
        return request

    # Restore ----------------------------------------------------------------------------------------------------
    def _restore(self, call: Call) -> tuple[int, str]:
        try:
            began = time.monotonic()
            data, found = self._content(call)
            restored = self._make(form.read(data), found)
        except Unsaveable as error:
            reply = pb.RestoreReply(refused=str(error))
        except Refused as refused:
            reply = pb.RestoreReply(refused=refused.message)
        else:
            log.info("session %s was restored in %.3f s", restored, time.monotonic() - began)
            reply = pb.RestoreReply(session=restored)
        call.send(reply.SerializeToString())
        return _OK, ""

    def restore_folder(self, path: Path) -> str:
        """A session of a folder; its name here. Raises Unsaveable, Refused."""
        folder = Folder(path)
        saved = folder.session()
        return self._make(saved, {digest_of(data): data for data in folder.content(form.needed(saved))})

    def _content(self, call: Call) -> tuple[bytes, dict[bytes, bytes]]:
        """What comes of a session. Raises Unsaveable."""
        session, blobs, receiver, size = bytearray(), dict[bytes, bytes](), Receiver(), 0
        most = 2 * self._host.quota + _BESIDE_BYTES
        for part in self._parts(call):
            if part.WhichOneof("kind") == "ask":
                call.send(pb.RestoreReply(taken=True).SerializeToString())
            if part.WhichOneof("kind") == "session":
                session += part.session
                size += len(part.session)
            for data in receiver.take(part.blobs):
                blobs[digest_of(data)] = data
                size += len(data)
            if size > most or len(session) > form.SESSION_BYTES:
                raise Unsaveable(f"it is larger than this host's sessions are ({most} bytes)")
        return bytes(session), blobs

    @staticmethod
    def _parts(call: Call) -> Iterator[pb.RestorePart]:
        while True:
            part = pb.RestorePart.FromString(_received(call))
            if part.WhichOneof("kind") == "end":
                return
            yield part

    def _make(self, saved: pb.SavedSession, found: dict[bytes, bytes]) -> str:
        """Raises Unsaveable, Refused."""
        host, blobs = self._host, Blobs(found)
        device = host.device
        if not isinstance(device, Device):
            raise Unsaveable(_PROCESSES)
        if self._grace <= 0:
            raise Unsaveable("this host has no --grace, within which its guest could come")
        if self._registry.has(saved.secret):
            raise Unsaveable("it is open at this host")
        unconfirmed = [blobs.get(digest) for digest in saved.messages.unconfirmed]
        session = host.restore(
            lambda name: restore(name, device, host.images, host.quota, saved, blobs), saved.program, saved.pid
        )
        admission = Admission(
            session,
            saved.tape_version,
            session.window,
            session.quota,
            host.description,
            (),
            payload_bytes=saved.payload_bytes,
        )
        del saved.pages[:]
        waiting = Restored(admission, saved, unconfirmed, lambda: host.end(session, "its guest has not come", How.GONE))
        if not self._registry.expect(waiting, self._grace):
            host.end(session, "it is open at this host", How.FAILED)
            raise Unsaveable("it is open at this host")
        return session.name


def _received(call: Call, seconds: float = _SILENCE_SECONDS) -> bytes:
    """Raises Malformed, TimeoutError, CallGone."""
    data = call.receive(seconds)
    if data is None or isinstance(data, Tape):
        raise Malformed("the end, or a Tape")
    return data


def _digests(data: bytes) -> list[bytes]:
    if len(data) % DIGEST_BYTES:
        raise Malformed("digests of another length")
    return [data[at : at + DIGEST_BYTES] for at in range(0, len(data), DIGEST_BYTES)]
