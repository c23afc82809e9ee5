"""The gRPC services: one method that is a session's whole life, one that describes the host.

Owns the order of messages on a session's stream, and the session's end however it comes: Goodbye, the end of the stream, a cancelled
or broken one, a guest that breaks the protocol, an exception of ours. Knows calls and `Host`; what a session does is `Session`'s.

The thread that waits for a session's messages also replays them: one thread per session, no hand-off between receiving and
replaying (farlane.backend.plane).
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from farlane.backend.errors import DeadTransport
from farlane.backend.host.accounts import How
from farlane.backend.host.applicant import Applicant
from farlane.backend.host.entrance import Entrance, Resumption
from farlane.backend.host.greeting import Elsewhere, Greeting, Reason, Refused
from farlane.backend.host.host import Admission, Host, HostedSession
from farlane.backend.host.metrics import DEVICE_TIME
from farlane.backend.host.queue import Place
from farlane.backend.host.remote import Ended
from farlane.backend.host.session import Session
from farlane.backend.plane import Call, CallGone, MessageRefused, Tape, leave, restore_call
from farlane.backend.security.gate import Gate, Grant
from farlane.backend.server import messages
from farlane.backend.server.checkpoints import CALLS, Checkpoints
from farlane.backend.server.conversation import FAILED, PROCESSES, UPGRADE, Status, attend, converse, hold, message_of
from farlane.backend.server.registry import Away, Registry, Restored, Resumable
from farlane.v1 import checkpoint_pb2 as pb

if TYPE_CHECKING:
    from farlane.backend.plane import Kind

log = logging.getLogger("farlane.server")

OPEN = "/farlane.v1.SessionService/Open"
DESCRIBE = "/farlane.v1.AdminService/Describe"
SECRET_BYTES = 32
WAITING_SECONDS = 10.0  # for a guest that waits for a session to hear nothing
FIRST_MESSAGE_SECONDS = 10.0  # a call that says nothing for so long is ended


_GONE = "it has no such session (any more): it was started anew, or the session has ended"


class _Patience:
    """How the guest of a call waits for a session (`queue.Patience`)."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def wake(self) -> None:
        self._call.wake()

    def wait(self, place: Place) -> None:
        self._call.send(messages.write_waiting(*place))  # now and then also where it is the same: the host is there
        try:
            data = self._call.receive(WAITING_SECONDS)
        except TimeoutError:  # it has been woken, or time has passed
            return
        if data is None or isinstance(message_of(data), messages.Goodbye):
            raise CallGone("the guest has given up waiting")
        raise Refused(Reason.MALFORMED, "a message before the session was open")


class Service:
    """What the plane gives calls to.

    Args:
        gate: lets guests in; without one those of encrypted endpoints cannot come.
        rings_name: the abstract socket at which guests that come by TCP get shared memory; empty: there is none.
        grace: for so many seconds a session outlives its connection, where that is TCP or TLS.

    Locking: one lock around what is to be interrupted, or resumed.
    """

    def __init__(self, host: Host, rings_name: str = "", gate: Gate | None = None, grace: float = 0.0) -> None:
        self._host = host
        self._gate = gate or Gate()
        self._rings_name = rings_name
        self._grace = grace
        self._lock = threading.Lock()
        self._running: dict[int, HostedSession] = {}
        self.registry = Registry()
        self.checkpoints = Checkpoints(host, self.registry, self._gate, grace)

    def serve(self, call: Call) -> None:
        """Serves one call to its end; never raises."""
        status, details = int(Status.INTERNAL), "internal error of the host"
        try:
            if call.method == OPEN:
                with self._host.turns:
                    status, details = self._open_session(call)
            elif call.method in CALLS:
                status, details = self.checkpoints.serve(call)
            elif call.method == DESCRIBE:
                self._gate.enter(call)
                call.receive(FIRST_MESSAGE_SECONDS)
                call.send(messages.describe_host(self._host), flush=False)
                status, details = Status.OK, ""
            else:
                status, details = Status.UNIMPLEMENTED, f"no method {call.method}"
        except TimeoutError:
            status, details = Status.INTERNAL, f"no message came for {FIRST_MESSAGE_SECONDS} s"
        except MessageRefused as refused:
            status, details = refused.args
        except Refused as refused:
            status, details = Status.UNAUTHENTICATED, refused.message
        except (CallGone, DeadTransport):
            pass
        except Exception:
            log.exception("%s of %s: the host failed", call.method, call.peer)
        call.finish(status, details)

    def cancelled(self, call: Call) -> None:
        """From the plane's own thread: a kernel that runs for a guest that has gone need not end by itself."""
        with self._lock:
            session = self._running.get(call.number)
        if session is not None:
            session.interrupt()

    def hand(self, call: Call, connection: int, kind: Kind) -> None:
        """The guest of a session that has a process of its own comes to it."""
        try:
            with self._lock:
                session = self._running.get(call.number)
            if session is not None and not isinstance(session, Session):
                session.hand(connection, kind)
        finally:
            os.close(connection)

    def _open_session(self, call: Call) -> tuple[int, str]:
        """A session from what the guest shows to be let in to its end; gives the status that the call ends with."""
        try:
            grant = self._gate.enter(call)
        except Refused as refused:
            self._host.refused(refused)
            call.send(messages.write_refusal(refused), flush=False)
            return Status.OK, ""
        data = self._first_message(call)
        if data is None:
            return Status.OK, ""
        first = message_of(data)
        try:
            if isinstance(first, messages.Resume):
                return self._resume_session(call, grant, first)
            with self._gate.session(grant):
                return self._hold_session(call, grant, first)
        except Elsewhere as elsewhere:
            program = first.program if isinstance(first, Greeting) else ""
            self._gate.led(grant, session=elsewhere.session, program=program, to=elsewhere.url)
            call.send(messages.write_elsewhere(elsewhere), flush=False)
            return Status.OK, ""
        except Refused as refused:
            log.warning("a session of %s is refused: %s", call.peer, refused.message)
            self._host.refused(refused)
            call.send(messages.write_refusal(refused), flush=False)
            return Status.OK, ""

    def _first_message(self, call: Call) -> Tape | bytes | None:
        try:
            return call.receive(0)
        except TimeoutError:  # it is on its way
            with self._host.turns.given_away():
                return call.receive(FIRST_MESSAGE_SECONDS)

    def _resume_session(self, call: Call, grant: Grant, shown: messages.Resume) -> tuple[int, str]:
        """The session goes on with this call's connection, until that breaks in turn. Raises Refused: there is none."""
        found = self.registry.find(shown.session, shown.secret, grant.owner)
        if found is None:
            log.warning("%s is not let into the session %s", call.peer, shown.session)
            raise Refused(Reason.GONE, _GONE)
        if isinstance(found, Away):
            if found.to:
                raise Elsewhere(shown.session, found.to, found.token, found.certificate)
            return Status.UNAVAILABLE, "the session was saved, and is not restored yet"
        if isinstance(found, Restored):
            return self._go_on(call, grant, found, shown)
        log.info("session %s goes on with %s", shown.session, call.peer)
        self._gate.resumed(grant, session=shown.session)
        try:
            ticket = None if isinstance(found.session, Session) else found.call.passage()
            found.call.resume(call, shown.received, ticket)
        except CallGone:
            raise Refused(Reason.GONE, _GONE) from None
        return Status.OK, ""

    def _hold_session(self, call: Call, grant: Grant, first: Tape | messages.GuestMessage) -> tuple[int, str]:
        """Raises Refused: there is no session."""
        ticket = call.ticket()
        if not isinstance(first, Greeting):
            why = first.why if isinstance(first, messages.Malformed) else type(first).__name__
            raise Refused(Reason.MALFORMED, f"the first message of a session must be a Hello, not {why}")
        by_tcp = call.peer.startswith("tcp:")  # where guests of before rings_name come to no rings
        if self._host.has_processes and (ticket is None or by_tcp) and not first.comes_again:
            raise Refused(Reason.VERSION, f"{PROCESSES}; {UPGRADE}")
        entrance = _entrance() if call.peer.startswith("tls:") and self._host.has_processes else None
        resumption = None
        if self._grace > 0 and first.resumes and not call.peer.startswith("unix:"):
            resumption = Resumption(secrets.token_bytes(SECRET_BYTES), self._grace)
        applicant = Applicant(
            call.peer,
            grant.guest,
            quota=grant.memory,
            priority=grant.priority,
            terms=grant.terms,
            limits=grant.limits,
            patience=_Patience(call) if first.waits else None,
            entrance=entrance,
            resumption=resumption,
        )
        admission = self._host.admit(first, applicant)
        session = admission.session
        if resumption is not None:
            call.keep(resumption.grace)
            process = None if isinstance(session, Session) else _process(entrance)
            secret, owner = resumption.secret, grant.owner
            self.registry.add(Resumable.of(call, session, session.name, secret, owner, admission, process))

        def welcome() -> None:
            passage = call.passage() if first.comes_again and not isinstance(session, Session) else None
            name = self._rings_name if by_tcp and ticket is not None else ""
            call.send(messages.write_welcome(admission, ticket, passage, name, entrance, resumption), flush=False)

        return self._attend(call, grant, admission, first.program, welcome)

    def _go_on(self, call: Call, grant: Grant, restored: Restored, shown: messages.Resume) -> tuple[int, str]:
        """The guest of a session that was saved comes to it. Raises Refused."""
        admission, saved, secret = restored.admission, restored.saved, shown.secret
        session, counts, ticket = admission.session, (saved.messages.received, saved.messages.first), None
        process = saved.process if saved.HasField("process") else None
        with contextlib.nullcontext() if restored.let_in else self._gate.session(grant):
            if not self.registry.take(restored):
                raise Refused(Reason.GONE, _GONE)
            if process is not None:  # the process has its messages, and this call the Welcome alone
                counts, ticket = (0, 1), call.passage()
            self.registry.add(Resumable.of(call, session, shown.session, secret, grant.owner, admission, process))
            try:
                restore_call(call, self._grace, *counts, restored.unconfirmed, shown.received, ticket)
            except CallGone:
                self.registry.end(session.name)
                self.registry.expect(restored, self._grace)
                raise
            log.info("session %s goes on here with %s", session.name, call.peer)
            with restored.stay:
                return self._attend(call, grant, admission, saved.program, lambda: None)

    def _attend(
        self, call: Call, grant: Grant, admission: Admission, program: str, welcome: Callable[[], None]
    ) -> tuple[int, str]:
        """A session from its guest's first message to its end. `welcome` says that it may begin, or go on."""
        session = admission.session
        entry = self.registry.of(session.name)
        pausing, ended = None if entry is None else entry.pausing, FAILED
        with self._lock:
            self._running[call.number] = session
        try:
            self._gate.opened(
                grant,
                lambda why: _revoke(call, session, why),
                session=session.name,
                program=program,
                memory=admission.quota,
            )
            welcome()
            if isinstance(session, Session):
                ended = hold(session.name, lambda: converse(admission, call, pausing))
            else:
                ended = attend(session, admission.manifests, call)
        except CallGone as error:
            ended = Ended(Status.INTERNAL, "", str(error), How.GONE)
        finally:
            with self._lock:
                del self._running[call.number]
            self.registry.end(session.name)
            if why := self._gate.left(session.name):
                log.info("session %s: %s", session.name, why)
                ended = Ended(Status.UNAUTHENTICATED, why, why, How.REVOKED)
            self._host.end(session, ended.why, ended.how)
            if admission.manifests is not None:
                admission.manifests.close()
            worked = session.counts().get(DEVICE_TIME, 0)
            self._gate.ended(grant, session=session.name, why=ended.why, device_nanoseconds=worked)
            if ended.how is How.MOVED:
                leave(call)
        return ended.status, ended.details


def _revoke(call: Call, session: HostedSession, why: str) -> None:
    """From the gate's thread: the session ends, whatever it runs, and its guest learns why.

    So nothing may answer a kernel that is interrupted: the call has ended before, or the process is gone.
    """
    if not isinstance(session, Session):
        session.stop()
    call.end(Status.UNAUTHENTICATED, why)
    if isinstance(session, Session):
        session.interrupt()


def _process(entrance: Entrance | None) -> pb.SavedSession.Process:
    """By what a guest knows the process of its session, for one that is saved."""
    if entrance is None:
        return pb.SavedSession.Process()
    return pb.SavedSession.Process(certificate=entrance.certificate, key=entrance.key, token=entrance.token)


def _entrance() -> Entrance:
    from farlane.backend.security.certificates import create_entrance  # what it loads only such sessions need

    return create_entrance()
