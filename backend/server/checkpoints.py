"""The calls that save and restore sessions (checkpoint.proto).

Owns who may make them, whose session a saved one is, and where it is registered. They come by a Unix socket of the host
alone, which opens for the host's user: a saved session has its guest's data and its secret. A host of a fleet takes
Restore from another host, too, which shows a ticket for this one session. A save holds the session for as long as its
content takes to be sent; a caller that goes away leaves the session as it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from pathlib import Path
from typing import NamedTuple

from farlane.backend.checkpoint.giving import Source, give
from farlane.backend.checkpoint.passing import pass_restore, pass_save
from farlane.backend.checkpoint.restoring import restore
from farlane.backend.checkpoint.taking import take
from farlane.backend.checkpoint.talk import SILENCE_SECONDS, Malformed, Reading, Talk, request
from farlane.backend.device.base import Device
from farlane.backend.device.saved import Unsaveable
from farlane.backend.host.accounts import How
from farlane.backend.host.fairness import Terms
from farlane.backend.host.greeting import Refused, version
from farlane.backend.host.host import Admission, Host, HostedSession
from farlane.backend.host.session import Session
from farlane.backend.objects.images import SessionImages
from farlane.backend.plane import Call, Tape
from farlane.backend.security.gate import Gate, Grant
from farlane.backend.server.registry import Away, Registry, Restored, Resumable
from farlane.backend.system.pipe import Ended, Pipe
from farlane.v1 import checkpoint_pb2 as pb

log = logging.getLogger("farlane.server")

SAVE = "/farlane.v1.CheckpointService/Save"
RESTORE = "/farlane.v1.CheckpointService/Restore"
CALLS = (SAVE, RESTORE)
_LOOK_SECONDS = 0.02  # between two looks whether a guest has come
_OK, _INVALID, _DENIED = 0, 3, 7  # gRPC's
_SOCKET = "sessions are saved and restored by a Unix socket of the host: start it with --listen unix:///PATH as well"
_ENDED = "its process has ended"
_THREADS = "it has a process of its own, and the sessions of this host have threads: start it with --workers process"
_PROCESSES = "it has a thread, and each session of this host has a process of its own: start it with --workers thread"


class Caller:
    """A call of the host (`talk.Talk`). Raises CallGone."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def send(self, data: bytes) -> None:
        self._call.send(data)

    def receive(self, seconds: float) -> bytes:
        data = self._call.receive(seconds)
        if data is None or isinstance(data, Tape):
            raise Malformed("the end, or a Tape")
        return data


class _Made(NamedTuple):
    session: HostedSession
    saved: pb.SavedSession
    unconfirmed: list[bytes]


class Checkpoints:
    """Serves these calls.

    Args:
        gate: whose tickets let another host of the fleet in.
        grace: for so many seconds a session outlives its connection, and waits for its guest when it is restored.
    """

    def __init__(self, host: Host, registry: Registry, gate: Gate, grace: float) -> None:
        self._host = host
        self._registry = registry
        self._gate = gate
        self._grace = grace

    def serve(self, call: Call) -> tuple[int, str]:
        """One call to its end; the status that it ends with."""
        local = call.peer.startswith("unix:")
        if not local and (call.method == SAVE or not self._gate.has_tickets):
            return _DENIED, _SOCKET
        try:
            if call.method == SAVE:
                self._save(Caller(call))
            else:
                self._restore(Caller(call), None if local else self._gate.enter(call))
        except Malformed as error:
            return _INVALID, f"no message of {call.method}: {error}"
        return _OK, ""

    # Save -------------------------------------------------------------------------------------------------------
    def _save(self, caller: Caller) -> None:
        begin = request(caller, "begin").begin
        try:
            entry = self._found(begin.session, time.monotonic() + begin.wait_seconds)
            session = entry.session
            if isinstance(session, Session):
                give(
                    caller,
                    begin,
                    Source(session, entry.call, entry.pausing),
                    lambda saved: self._complete(entry, saved),
                    lambda: self._leave(entry, begin),
                )
                return
            try:
                with session.give(begin.rounds > 0) as process:
                    seconds = pass_save(
                        caller,
                        process,
                        begin,
                        lambda saved: self._complete(entry, saved),
                        lambda: self._leave(entry, begin),
                    )
                log.info("session %s was saved; it was held for %.3f s", begin.session, seconds)
            except Ended:
                raise Unsaveable(_ENDED) from None
        except Unsaveable as error:
            log.info("session %s is not saved: %s", begin.session, error)
            caller.send(pb.SavePart(refused=str(error)).SerializeToString())

    def _leave(self, entry: Resumable, begin: pb.SaveRequest.Begin) -> None:
        until = time.monotonic() + self._grace + SILENCE_SECONDS
        self._registry.leave(entry, Away(entry.shown, entry.owner, begin.to, begin.token, begin.certificate, until))

    def _found(self, name: str, deadline: float) -> Resumable:
        waited = False
        while (entry := self._registry.of(name)) is None and (waited := waited or self._registry.waits(name)):
            if time.monotonic() >= deadline:
                raise Unsaveable("it was restored, and its guest has not come yet")
            time.sleep(_LOOK_SECONDS)
        if entry is None:
            known = any(usage.name == name for usage in self._host.usage)
            raise Unsaveable(
                "its guest cannot come again: it has come by a socket file, or the host has no --grace"
                if known
                else f"the host has no session {name[:64]!r}"
            )
        return entry

    def _complete(self, entry: Resumable, saved: pb.SavedSession) -> None:
        """Adds whose session it is, and what it may have."""
        guest = self._host.guest(entry.session.name)
        saved.host_version = version()
        saved.session, saved.secret, saved.owner = entry.shown, entry.secret, entry.owner
        saved.program, saved.pid = ("", 0) if guest is None else (guest.program, guest.pid)
        saved.tape_version = entry.admission.tape_version
        saved.capability = ".".join(map(str, entry.admission.device.compute_capability))
        saved.backend = entry.admission.device.backend
        saved.quota, saved.payload_bytes = entry.admission.quota, entry.admission.payload_bytes
        saved.ClearField("process")
        if entry.process is not None:
            saved.process.CopyFrom(entry.process)

    # Restore ----------------------------------------------------------------------------------------------------
    def _restore(self, caller: Caller, grant: Grant | None) -> None:
        try:
            began = time.monotonic()
            restored = self._take(caller, grant)
        except Unsaveable as error:
            reply = pb.RestoreReply(refused=str(error))
        except Refused as refused:
            reply = pb.RestoreReply(refused=refused.message)
        else:
            log.info("session %s was restored in %.3f s", restored, time.monotonic() - began)
            reply = pb.RestoreReply(session=restored)
        caller.send(reply.SerializeToString())

    def restore_folder(self, path: Path) -> str:
        """A session of a folder; its name here. Raises Unsaveable, Refused."""
        return self._take(Reading(path), None)

    def _take(self, talk: Talk, grant: Grant | None) -> str:
        """A session that comes; its name here. Raises Unsaveable, Refused.

        Args:
            grant: of the host that sends it, where that has shown a ticket.
        """
        host = self._host
        if self._grace <= 0:
            raise Unsaveable("this host has no --grace, within which its guest could come")
        with contextlib.ExitStack() as stay:
            most, terms = host.quota, host.guest_terms
            if grant is not None:
                stay.enter_context(self._gate.session(grant, moves=True))
                most = most if grant.memory is None else min(most, grant.memory)
                terms = dataclasses.replace(grant.terms or terms, priority=grant.priority or 0)
            made = self._made(talk, grant, most, terms)
            session, saved = made.session, made.saved
            admission = Admission(
                session, saved.tape_version, session.window, session.quota, host.description, (),
                payload_bytes=saved.payload_bytes,
            )  # fmt: skip

            def give_up() -> None:
                host.end(session, "its guest has not come", How.GONE)
                waiting.stay.close()

            waiting = Restored(admission, saved, made.unconfirmed, give_up, stay.pop_all(), grant is not None)
        if not self._registry.expect(waiting, self._grace):
            host.end(session, "it is open at this host", How.FAILED)
            waiting.stay.close()
            raise Unsaveable("it is open at this host")
        return session.name

    def _made(self, talk: Talk, grant: Grant | None, most: int, terms: Terms) -> _Made:
        """Raises Unsaveable, Refused."""
        found: list[_Made] = []
        guest = "" if grant is None else grant.guest

        def make(name: str) -> tuple[HostedSession, str, int]:
            device = self._host.device
            made = (
                self._in_thread(name, device, talk, most)
                if isinstance(device, Device)
                else self._in_process(name, talk, most, guest)
            )
            if grant is not None:
                made.saved.owner = grant.owner
            found.append(made)
            return made.session, made.saved.program, made.saved.pid

        self._host.restore(make, terms)
        return found[0]

    def _in_thread(self, name: str, device: Device, talk: Talk, most: int) -> _Made:
        saved, blobs = take(talk, most)
        self._check(saved)
        if saved.HasField("process"):
            raise Unsaveable(_THREADS)
        unconfirmed = [blobs.get(digest) for digest in saved.messages.unconfirmed]
        session = restore(name, device, self._host.images, most, saved, blobs)
        del saved.pages[:]
        return _Made(session, saved, unconfirmed)

    def _in_process(self, name: str, talk: Talk, most: int, guest: str) -> _Made:
        device, found = self._host.device, list[pb.SavedSession]()
        assert not isinstance(device, Device)

        def check(saved: pb.SavedSession) -> None:
            self._check(saved)
            if not saved.HasField("process"):
                raise Unsaveable(_PROCESSES)

        def fill(process: Pipe) -> None:
            found.append(pass_restore(talk, process, check))

        images = SessionImages(self._host.images)
        try:
            session = device.reopen(name, most, images, self._grace, guest, fill)
        except BaseException:
            images.close()
            raise
        return _Made(session, found[0], [])

    def _check(self, saved: pb.SavedSession) -> None:
        """Raises Unsaveable."""
        if self._registry.has(saved.secret):
            raise Unsaveable("it is open at this host")
